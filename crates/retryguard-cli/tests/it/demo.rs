//! The demo as a child process: plain lines, a page, and nothing left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// The demo as a child, ended with the test whatever becomes of it.
pub(crate) struct Demo {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Demo {
    /// Starts it with a temporary folder of its own, so that what it leaves there is seen.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
            .args(["demo", "--plain"])
            .args(arguments)
            .env("TMPDIR", folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let address = first
            .trim()
            .strip_prefix("page: http://")
            .and_then(|rest| rest.strip_suffix('/'))
            .unwrap_or_else(|| panic!("no page in {first:?}"))
            .to_owned();
        Self {
            child,
            lines,
            address,
        }
    }

    /// Where its page is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The next line for which this holds.
    fn line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let mut line = String::new();
        while !wanted(&line) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no such line");
        }
        line
    }

    /// Every port on which it listens, where the system tells.
    #[cfg(not(target_os = "linux"))]
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Every port on which it listens.
    #[cfg(target_os = "linux")]
    fn ports(&self) -> Vec<u16> {
        let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .filter_map(|link| {
                Some(
                    link.to_str()?
                        .strip_prefix("socket:[")?
                        .strip_suffix(']')?
                        .to_owned(),
                )
            })
            .collect();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            // 0A is a socket that listens; the tenth column is its number, by which the process holds it.
            .filter(|columns| columns[3] == "0A" && sockets.iter().any(|socket| socket == columns[9]))
            .filter_map(|columns| u16::from_str_radix(columns[1].split_once(':')?.1, 16).ok())
            .collect()
    }

    /// As Ctrl-C does.
    fn interrupt(&mut self) -> std::process::ExitStatus {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: demo\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_interrupt_leaves_no_file_and_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(folder.path(), &[]);
    let page = get(demo.address(), "/");
    assert!(
        page.contains("EventSource") && !page.contains("https://"),
        "the page is not self-contained"
    );
    demo.line(|line| line.contains(" s  calm "));
    assert!(get(demo.address(), "/frame.json").contains("\"offered\""));
    assert!(
        std::fs::read_dir(folder.path()).unwrap().count() > 0,
        "the databases are elsewhere"
    );
    let ports = demo.ports();
    let all = if cfg!(target_os = "linux") { 6 } else { 0 };
    assert_eq!(ports.len(), all, "the page and five services listen: {ports:?}");
    let status = demo.interrupt();
    assert_eq!(status.code(), Some(130), "{status}");
    nothing_is_left(folder.path(), &ports);
}

/// At the very beginning services are half started and nothing has been shown.
#[test]
fn an_interrupt_at_once_leaves_nothing_either() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(folder.path(), &[]);
    let ports = demo.ports();
    let status = demo.interrupt();
    assert_eq!(status.code(), Some(130), "{status}");
    nothing_is_left(folder.path(), &ports);
}

/// On a terminal Ctrl-C is a key like any other, because the screen reads keys: it must end the demo all the same, and
/// give the terminal back.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs script"]
fn a_key_on_a_terminal_ends_it_and_gives_the_terminal_back() {
    // `script` runs a program on a terminal of its own.
    let script = retryguard_parts::need("script");
    let folder = tempfile::tempdir().unwrap();
    let command = format!(
        "stty rows 24 cols 80 && exec {} demo",
        env!("CARGO_BIN_EXE_retryguard")
    );
    let mut child = Command::new(script)
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TMPDIR", folder.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = String::new();
    let mut screen = child.stdout.take().unwrap();
    let mut part = [0; 4096];
    // The second screen is entered, and something is drawn on it.
    while !shown.contains("\u{1b}[?1049h") || !shown.contains("orders") {
        let read = screen.read(&mut part).unwrap();
        assert!(read > 0, "it ended by itself: {shown}");
        shown += &String::from_utf8_lossy(&part[..read]);
    }
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    let mut rest = Vec::new();
    screen.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(
        rest.contains("\u{1b}[?1049l"),
        "the terminal is not given back: {rest:?}"
    );
    assert!(rest.contains("stays behind"), "{rest:?}");
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{status}");
    nothing_is_left(folder.path(), &[]);
}

fn nothing_is_left(folder: &Path, ports: &[u16]) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    for port in ports {
        // Another test of this machine may have taken it in the meantime, and gives it back.
        let closed = || TcpStream::connect(("127.0.0.1", *port)).is_err();
        assert!(
            retryguard_parts::until(std::time::Duration::from_secs(60), closed),
            "{port} still answers"
        );
    }
}
