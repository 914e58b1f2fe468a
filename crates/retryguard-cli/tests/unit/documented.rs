//! Every command line that the documentation prints is one that this command and this workspace take, so that a page
//! cannot rot unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;

use crate::Arguments;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages: whatever a reader may type from.
fn pages() -> Vec<(String, String)> {
    let mut files = vec!["README.md".into(), "CONTRIBUTING.md".into()];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root().join(&path)).expect("a page");
        (path.display().to_string(), text)
    };
    files.into_iter().map(read).collect()
}

/// The lines of the blocks that a reader types, with where they begin. A line that goes on in the next one is one line, and
/// what is typed into a file is none.
fn typed(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut inside = false;
    let mut file_ends: Option<String> = None;
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            inside = line == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(end) = &file_ends {
            if line == end {
                file_ends = None;
            }
            continue;
        }
        file_ends = line
            .split_once("<<'")
            .and_then(|(_, rest)| rest.split_once('\''))
            .map(|(end, _)| end.to_owned());
        let (whole, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some((_, before)) if goes_on => *before = format!("{before}{whole}"),
            _ => lines.push((index + 1, whole.to_owned())),
        }
        goes_on = more;
    }
    lines
}

/// The commands of a line, by words. As much of a shell's grammar as the pages use: quotes, lists, pipes, comments and
/// redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut drops_next = false;
    let mut letters = line.chars().peekable();
    let end_word = |word: &mut String, drops_next: &mut bool, all: &mut Vec<Vec<String>>| {
        let word = std::mem::take(word);
        if !word.is_empty() && !std::mem::take(drops_next) {
            all.last_mut().expect("one at least").push(word);
        }
    };
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(mark)) if letter == mark => quote = None,
            (_, Some(_)) => word.push(letter),
            ('\'' | '"', None) => quote = Some(letter),
            ('#', None) if word.is_empty() => break,
            (' ', None) => end_word(&mut word, &mut drops_next, &mut all),
            ('>' | '<', None) => {
                // The number before it says which stream.
                if !word.chars().all(|digit| digit.is_ascii_digit()) {
                    end_word(&mut word, &mut drops_next, &mut all);
                }
                word.clear();
                while letters.next_if(|next| matches!(next, '>' | '<' | '&')).is_some() {}
                drops_next = true;
            }
            (';' | '|' | '&' | '(' | ')', None) => {
                end_word(&mut word, &mut drops_next, &mut all);
                all.push(Vec::new());
            }
            (_, None) => word.push(letter),
        }
    }
    end_word(&mut word, &mut drops_next, &mut all);
    all.retain(|command| !command.is_empty());
    for command in &mut all {
        let before = |word: &String| {
            let variable = word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty()
                    && name
                        .chars()
                        .all(|letter| letter.is_ascii_uppercase() || letter == '_')
            });
            variable || matches!(word.as_str(), "nohup" | "until" | "do" | "time" | "sudo")
        };
        let skipped = command.iter().take_while(|word| before(word)).count();
        command.drain(..skipped);
    }
    all
}

/// A package of this workspace, as far as command lines name its parts.
struct Package {
    folder: PathBuf,
    features: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.expect("an entry").path()).collect();
    folders
        .extend(["evidence", "evidence/bench", "examples", "parts", "xtask"].map(|name| root().join(name)));
    let read = |folder: PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name = \""))
            .expect("a name")
            .trim_end_matches('"')
            .to_owned();
        let section = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
        let features = section
            .lines()
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name.to_owned())
            .collect();
        (name, Package { folder, features })
    };
    folders.into_iter().map(read).collect()
}

/// What is wrong with a command; nothing for one that is not ours to judge.
fn mistake(command: &[String], packages: &BTreeMap<String, Package>) -> Option<String> {
    let (program, rest) = command.split_first()?;
    if program == "retryguard" || program.ends_with("/retryguard") {
        return refused(rest);
    }
    if program != "cargo" || rest.first().is_none_or(|task| task == "xtask") {
        return None;
    }
    let end = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
    let (ours, theirs) = (&rest[1..end], rest.get(end + 1..).unwrap_or_default());
    let value = |long: &str, short: &str| {
        ours.iter().enumerate().find_map(|(place, word)| {
            let joined = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
            let apart = (word == long || word == short).then(|| ours.get(place + 1).map(String::as_str));
            joined.or(apart.flatten())
        })
    };
    let name = value("--package", "-p").unwrap_or("retryguard-cli");
    let Some(package) = packages.get(name) else {
        return Some(format!("there is no package `{name}`"));
    };
    for feature in value("--features", "-F").iter().flat_map(|list| list.split(',')) {
        if !package.features.contains(feature) {
            return Some(format!("`{name}` has no feature `{feature}`"));
        }
    }
    if let Some(example) = value("--example", "--example")
        && !package.folder.join(format!("examples/{example}.rs")).exists()
        && !package.folder.join(format!("examples/{example}")).exists()
        && !package.folder.join(format!("src/bin/{example}.rs")).exists()
    {
        return Some(format!("`{name}` has no example `{example}`"));
    }
    let runs = rest[0] == "run" && name == "retryguard-cli";
    if runs { refused(theirs) } else { None }
}

fn refused(words: &[String]) -> Option<String> {
    // A pattern of shells stands for at least one file.
    let words = std::iter::once("retryguard".to_owned()).chain(words.iter().cloned());
    match Arguments::try_parse_from(words) {
        Ok(_) => None,
        Err(error) if !error.use_stderr() => None,
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn every_printed_command_line_is_taken() {
    let packages = packages();
    let mut wrong = Vec::new();
    let mut judged = 0;
    for (page, text) in pages() {
        for (line, text) in typed(&text) {
            for command in commands(&text) {
                judged += usize::from(command.first().is_some_and(|word| word.ends_with("retryguard")));
                if let Some(mistake) = mistake(&command, &packages) {
                    wrong.push(format!("{page}:{line}: {}\n{mistake}", command.join(" ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        judged >= 15,
        "only {judged} command lines were found: is the reading of pages broken?"
    );
}

/// The files that a reader is instructed to use are there.
#[test]
fn every_file_of_deploy_that_is_typed_exists() {
    let mut found = 0;
    for (page, text) in pages() {
        for (line, text) in typed(&text) {
            for word in commands(&text).into_iter().flatten() {
                let Some(place) = word.find("deploy/") else {
                    continue;
                };
                found += 1;
                assert!(root().join(&word[place..]).exists(), "{page}:{line}: {word}");
            }
        }
    }
    assert!(found >= 4, "only {found} were found");
}

/// `cargo xtask image` builds it, which takes minutes; what can be known without that is checked here.
#[test]
fn the_image_is_built_from_what_is_there() {
    let path = "deploy/kubernetes/Containerfile";
    let text = fs::read_to_string(root().join(path)).expect("the file");
    let whole = text.replace("\\\n", " ");
    let steps: Vec<Vec<String>> = whole
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter(|step| !step.is_empty())
        .collect();
    let known = ["FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "ENTRYPOINT"];
    for step in &steps {
        assert!(known.contains(&step[0].as_str()), "{step:?}");
    }
    let build = steps
        .iter()
        .find(|step| step[0] == "RUN" && step[1] == "cargo")
        .expect("a build");
    let packages = packages();
    assert_eq!(mistake(&build[1..], &packages), None);
    let after = |word: &str| {
        let place = build.iter().position(|step| step == word).expect("an option");
        build[place + 1].as_str()
    };
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    assert_eq!(after("--profile"), "$PROFILE");
    let profile = steps
        .iter()
        .find_map(|step| step[1].strip_prefix("PROFILE="))
        .expect("a default of the profile");
    assert!(manifest.contains(&format!("[profile.{profile}]")));
    assert!(root().join("Cargo.lock").exists(), "`--locked` needs it");
    let rust = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .expect("a version");
    let image = steps[0][1].strip_prefix("rust:").expect("an image of Rust");
    let number = |text: &str| -> Vec<u32> {
        let digits = text.trim_matches('"').split(['.', '-']).take(2);
        digits.map(|part| part.parse().expect("a number")).collect()
    };
    assert!(number(image) >= number(rust), "{image} is older than {rust}");
    let made = format!("{}/{}/*/retryguard", after("--target-dir"), after("--target"));
    assert_eq!(after("cp"), made);
    let copied = steps
        .iter()
        .any(|step| step[0] == "COPY" && step[1] == "--from=build" && step[2] == "/retryguard");
    assert!(copied, "the program is what the image holds");
    assert!(
        root().join(".dockerignore").exists(),
        "builds would go into the image"
    );
    // What the manifests ask the image to do is what the command takes.
    for manifest in ["deploy/kubernetes/deployment.yaml", "deploy/simulate/job.yaml"] {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        let arguments = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("args: ["))
            .expect("arguments");
        let words: Vec<String> = arguments
            .trim_end_matches(']')
            .replace("$(JOB_COMPLETION_INDEX)", "15")
            .split(", ")
            .map(str::to_owned)
            .collect();
        assert_eq!(refused(&words), None, "{manifest}");
    }
}

#[test]
fn a_line_is_read_as_a_shell_reads_it() {
    let line = "A=b nohup x/retryguard controller --config 'a b.yaml' > log 2>&1 & echo $! > pid; y | z # c";
    let read: Vec<String> = commands(line).iter().map(|command| command.join("~")).collect();
    assert_eq!(
        read,
        ["x/retryguard~controller~--config~a b.yaml", "echo~$!", "y", "z"]
    );
    let page = "text\n```sh\ncat > f <<'EOT'\nretryguard nonsense\nEOT\na \\\n  b\n```\nretryguard text\n";
    assert_eq!(
        typed(page),
        [(3, "cat > f <<'EOT'".to_owned()), (6, "a b".to_owned())]
    );
}

#[test]
fn a_mistake_is_found() {
    let packages = packages();
    for line in [
        "target/debug/retryguard controler status",
        "retryguard controller --confg a.yaml",
        "cargo run --release -- lint --no-such-option",
        "cargo build -p retryguard-cli --features envoy-rtds",
        "cargo run -p retryguard-part --example kubernetes",
        "cargo run -p retryguard-parts --example kubernets",
    ] {
        let found = commands(line)
            .iter()
            .any(|command| mistake(command, &packages).is_some());
        assert!(found, "{line}");
    }
}
