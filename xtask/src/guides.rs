//! Types the commands of the guides, as they are printed, and looks for what the pages say that they print.
//!
//! A page is one bash. Each fenced block of the language `sh` is given to it, in order, up to the first heading of what is for
//! production. A block that is one `cargo run` stands for a terminal of its own, which is left running. Lines of the form
//! `` > `text` `` after a block must be printed, in this order.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// How long nothing may be printed during a block; the first ones build.
const LIMIT: Duration = Duration::from_secs(3_600);
/// How long nothing may be printed while a line is waited for.
const LINE_LIMIT: Duration = Duration::from_secs(300);
/// Printed after each block, with its number and its status.
const END: &str = "== end of block";
/// The headings after which a page is no longer typed.
const PRODUCTION: [&str; 2] = ["## In production", "## In your cluster"];

/// The pages, the folder that each makes and removes, and words that must be printed in this order.
const PAGES: [(&str, &str, &[&str]); 8] = [
    ("envoy", "retryguard-guide", &["allowed", "suspended", "allowed"]),
    ("grpc", "retryguard-guide", &["suspended", "allowed"]),
    (
        "haproxy",
        "retryguard-guide",
        &["suspended", "reviews 0", "allowed"],
    ),
    ("policy-server", "retryguard-policies", &["suspended", "allowed"]),
    ("istio", "retryguard-istio", &[]),
    ("gateway-api", "retryguard-gateway", &[]),
    ("linkerd", "retryguard-linkerd", &[]),
    (
        "aws",
        "retryguard-aws",
        &[
            "I may try 5 times",
            "suspended",
            "I may try 1 times",
            "allowed",
            "\"AWS_MAX_ATTEMPTS\": \"5\"",
        ],
    ),
];

/// Types one page, or all.
///
/// # Errors
/// When a command fails, or what is printed is not what the page says.
pub fn run(only: Option<&str>) -> anyhow::Result<()> {
    let names = PAGES.map(|(name, _, _)| name);
    if let Some(only) = only {
        ensure!(
            names.contains(&only),
            "no such guide; there are {}",
            names.join(", ")
        );
    }
    for (name, folder, words) in PAGES {
        if only.is_none_or(|only| only == name) {
            page(name, folder, words).with_context(|| format!("docs/guides/{name}.md"))?;
        }
    }
    Ok(())
}

fn page(name: &str, folder: &str, words: &[&str]) -> anyhow::Result<()> {
    let folder = std::path::Path::new("/tmp").join(folder);
    ensure!(!folder.exists(), "{} exists: remove it first", folder.display());
    let text = std::fs::read_to_string(format!("docs/guides/{name}.md"))?;
    let blocks = blocks(&text);
    ensure!(!blocks.is_empty(), "no commands");
    eprintln!("== {name}: {} blocks", blocks.len());
    let mut terminal = Terminal::open()?;
    let result = type_all(&mut terminal, &blocks, words);
    terminal.close();
    if result.is_ok() {
        ensure!(!folder.exists(), "{} is left", folder.display());
        eprintln!("== {name}: every command worked as printed");
    }
    result
}

fn type_all(terminal: &mut Terminal, blocks: &[Block], words: &[&str]) -> anyhow::Result<()> {
    let last = blocks.len() - 1;
    let mut others = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        if number == last {
            // Ctrl-C in the controller's terminal comes before the clean-up, and in the other one after it.
            for log in others.iter().skip(1) {
                terminal.send(&format!(
                    "kill -INT -- -$(cat {log}.pid); wait $(cat {log}.pid) || true\n"
                ))?;
            }
        }
        if let Some(word) = block.other_terminal() {
            let log =
                std::env::temp_dir().join(format!("retryguard-terminal-{}-{number}", std::process::id()));
            let log = log.display().to_string();
            // Its input stays open, as a terminal's does.
            terminal.send(&format!(
                "sleep infinity | {} > {log} 2>&1 & echo $! > {log}.pid\n\
                 until grep -q '{word}' {log}; do sleep 1; jobs %% > /dev/null || {{ cat {log}; break; }}; done\n\
                 cat {log}; eval \"$(grep '^export ' {log})\"\n",
                block.commands.trim_end()
            ))?;
            others.push(log);
        } else {
            terminal.send(&block.commands)?;
        }
        terminal.send(&format!("\necho \"{END} {number} $?\"\n"))?;
        terminal.wait_for(&format!("{END} {number} 0"), number)?;
        for line in &block.printed {
            terminal.expect(line)?;
        }
    }
    for log in &others {
        terminal.send(&format!(
            "kill -INT -- -$(cat {log}.pid); rm -f {log} {log}.pid\n"
        ))?;
    }
    terminal.send(&format!("echo '{END} all'\n"))?;
    terminal.wait_for(&format!("{END} all"), blocks.len())?;
    let said = terminal.said.join("\n");
    let mut rest = said.as_str();
    for word in words {
        let Some((_, after)) = rest.split_once(word) else {
            bail!("`{word}` was not printed in its place ({})", words.join(", "));
        };
        rest = after;
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq)]
struct Block {
    commands: String,
    printed: Vec<String>,
}

impl Block {
    /// What a terminal of its own prints when it is ready, where this block is one.
    fn other_terminal(&self) -> Option<&'static str> {
        let one = self.commands.lines().count() == 1 && self.commands.starts_with("cargo run ");
        one.then_some(if self.commands.contains(" controller ") {
            "\"leads\":true"
        } else {
            "^export "
        })
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if PRODUCTION.iter().any(|heading| line.starts_with(heading)) {
            break;
        }
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line == "```sh" {
            let mut block = Block::default();
            for command in lines.by_ref().take_while(|line| line.trim() != "```") {
                let spaces = command.len() - command.trim_start().len();
                block.commands.push_str(&command[indent.min(spaces)..]);
                block.commands.push('\n');
            }
            all.push(block);
        } else if let Some(printed) = line.strip_prefix("> `").and_then(|rest| rest.strip_suffix('`'))
            && let Some(block) = all.last_mut()
        {
            block.printed.push(printed.to_owned());
        }
    }
    all
}

/// A bash with job control, whose output is read line by line.
struct Terminal {
    bash: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    /// The lines up to this one have been looked at.
    seen: usize,
}

impl Terminal {
    fn open() -> anyhow::Result<Self> {
        let mut bash = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = bash.stdout.take().context("bash has no output")?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self {
            bash,
            lines,
            said: Vec::new(),
            seen: 0,
        };
        // Each job is a group of processes, as in a terminal.
        terminal.send("set -m\n")?;
        Ok(terminal)
    }

    fn send(&mut self, text: &str) -> anyhow::Result<()> {
        let input = self.bash.stdin.as_mut().context("bash has no input")?;
        input.write_all(text.as_bytes())?;
        Ok(input.flush()?)
    }

    fn next(&mut self, limit: Duration) -> anyhow::Result<()> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => {
                println!("{line}");
                self.said.push(line);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => bail!("nothing was printed for too long"),
            Err(RecvTimeoutError::Disconnected) => bail!("bash has ended"),
        }
    }

    /// Waits for the end of a block; what came before it stays to be looked at.
    fn wait_for(&mut self, end: &str, number: usize) -> anyhow::Result<()> {
        let mut at = self.seen;
        loop {
            while let Some(line) = self.said.get(at) {
                if line == end {
                    return Ok(());
                }
                if line.starts_with(&format!("{END} {number} ")) {
                    bail!("block {} failed: {line}", number + 1);
                }
                at += 1;
            }
            self.next(LIMIT)?;
        }
    }

    /// Looks for a line after those that were found before.
    fn expect(&mut self, wanted: &str) -> anyhow::Result<()> {
        loop {
            while let Some(line) = self.said.get(self.seen) {
                self.seen += 1;
                if line == wanted {
                    return Ok(());
                }
            }
            self.next(LINE_LIMIT)
                .with_context(|| format!("`{wanted}` was not printed"))?;
        }
    }

    /// Ends it and what it has started.
    fn close(&mut self) {
        // Jobs that have ended by themselves are not an error.
        let _ = self.send("for job in $(jobs -p); do kill -- -$job; done 2> /dev/null; exit\n");
        self.bash.stdin = None;
        let _ = self.bash.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_commands_and_what_they_print() {
        let page = "# A\n\n1. x\n\n   ```sh\n   cat > f <<'EOF'\n     two\n   EOF\n   ```\n\n   > `one`\n   > `two`\n\n\
                    ```sh\ncargo run -- controller --config c\n```\n\n## In production\n\n```sh\nrm -r /\n```\n";
        let found = blocks(page);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].commands, "cat > f <<'EOF'\n  two\nEOF\n");
        assert_eq!(found[0].printed, ["one", "two"]);
        assert_eq!(found[0].other_terminal(), None);
        assert_eq!(found[1].other_terminal(), Some("\"leads\":true"));
    }

    #[test]
    fn every_guide_of_the_controller_is_typed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides");
        let mut pages: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            // The page of the library has no commands.
            .filter(|name| name != "library")
            .collect();
        pages.sort();
        let mut typed = PAGES.map(|(name, _, _)| name).to_vec();
        typed.sort_unstable();
        assert_eq!(pages, typed);
    }

    #[test]
    fn a_terminal_says_which_block_failed_and_what_is_missing() {
        let block = |commands: &str, printed: &[&str]| Block {
            commands: commands.to_owned(),
            printed: printed.iter().map(|line| (*line).to_owned()).collect(),
        };
        let typed = |blocks: &[Block], words: &[&str]| {
            let mut terminal = Terminal::open().unwrap();
            let result = type_all(&mut terminal, blocks, words);
            terminal.close();
            result.map_err(|error| format!("{error:#}"))
        };
        let good = [
            block("echo one; (sleep 0.2; echo two) &\n", &["one", "two"]),
            block("true\n", &[]),
        ];
        assert_eq!(typed(&good, &["one", "two"]), Ok(()));
        assert!(typed(&good, &["two", "one"]).unwrap_err().contains("`one`"));
        let bad = [block("true\n", &[]), block("false\n", &[])];
        assert!(typed(&bad, &[]).unwrap_err().contains("block 2 failed"));
    }
}
