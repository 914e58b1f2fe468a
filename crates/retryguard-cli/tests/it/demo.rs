//! The demo as a child process: plain lines, a page, and nothing left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Starts the demo with a temporary folder of its own, so that what it leaves there is seen.
fn start(folder: &Path) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(["demo", "--plain"])
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
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
    (child, lines, address)
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
    let (mut child, mut lines, address) = start(folder.path());
    let page = get(&address, "/");
    assert!(
        page.contains("EventSource") && !page.contains("https://"),
        "the page is not self-contained"
    );
    let mut line = String::new();
    while !line.contains("orders") || !line.contains(" s ") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no line of numbers");
    }
    assert!(get(&address, "/frame.json").contains("\"offered\""));
    assert!(
        std::fs::read_dir(folder.path()).unwrap().count() > 0,
        "the databases are elsewhere"
    );
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(TcpStream::connect(&address).is_err(), "the page still listens");
}
