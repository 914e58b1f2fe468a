//! `retryguard controller`, `retryguard controller status` and `retryguard policy serve`, as an operator runs them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use retryguard_parts::{Process, free_port, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

fn retryguard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn launch(arguments: &[&str], log: &Path) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retryguard"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(log).expect("a temporary file"));
    Process::start(command).expect("the command starts")
}

/// An Envoy's page of statistics on which so many of every hundred calls are rejected.
fn page(rejected: Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let (mut calls, mut refused) = (0, 0);
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            if stream.read(&mut request).is_err() {
                continue;
            }
            calls += 100;
            refused += rejected.load(Ordering::SeqCst);
            let text = format!(
                "# TYPE envoy_cluster_upstream_rq_total counter\n\
                 envoy_cluster_upstream_rq_total{{envoy_cluster_name=\"reviews\"}} {calls}\n\
                 envoy_cluster_upstream_rq{{envoy_response_code=\"503\",envoy_cluster_name=\"reviews\"}} {refused}\n"
            );
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                text.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn configuration(folder: &Path, page: u16, status: u16) -> String {
    let policies = folder.join("policies");
    std::fs::create_dir_all(&policies).expect("a temporary folder");
    std::fs::write(
        policies.join("shop.yaml"),
        "services: {reviews: {maxRetries: 4}}\n",
    )
    .expect("a temporary file");
    let path = folder.join("controller.yaml");
    let text = format!(
        "sources: {{scrape: {{addresses: ['http://127.0.0.1:{page}/']}}}}\n\
         actuators: {{policy-server: {{folder: policies, listen: '127.0.0.1:0'}}}}\n\
         status: {{listen: '127.0.0.1:{status}'}}\n\
         targets: {{reviews: {{scrape: {{envoy: {{}}}}}}}}\n"
    );
    std::fs::write(&path, text).expect("a temporary file");
    path.display().to_string()
}

/// Asks for the status until it is as described.
fn status_until(address: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let came = until(LIMIT, || {
        let output = retryguard(&["controller", "status", "--json", "--address", address]);
        last = serde_json::from_slice(&output.stdout).unwrap_or_default();
        holds(&last)
    });
    assert!(came, "never {what}: {last:#}");
    last
}

#[test]
fn it_switches_says_so_and_restores_when_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rejected = Arc::new(AtomicU64::new(0));
    let port = free_port();
    let config = configuration(folder.path(), page(Arc::clone(&rejected)), port);
    let address = format!("http://127.0.0.1:{port}");
    let log = folder.path().join("log");
    let mut running = launch(&["controller", "--config", &config], &log);
    status_until(&address, "data", |status| {
        status["targets"][0]["calls"].is_number()
    });
    rejected.store(60, Ordering::SeqCst);
    let held = |status: &Value| status["targets"][0]["actuators"][0]["holds"].clone();
    status_until(&address, "off", |status| held(status) == "suspended");
    let decisions = folder.path().join("policies/.retryguard-decisions.json");
    assert!(decisions.exists());
    let table = said(&retryguard(&["controller", "status", "--address", &address]));
    for part in [
        "reviews",
        "suspended",
        "rejections",
        "policy-server:suspended",
        "above 0.2000",
        "this controller leads",
    ] {
        assert!(table.contains(part), "{part} is not in:\n{table}");
    }
    let ended = running.stop(LIMIT).expect("it ends by itself");
    assert_eq!(ended.code(), Some(0));
    assert!(!decisions.exists(), "nothing of ours is left");
    let log = std::fs::read_to_string(log).expect("a log");
    let audit = log
        .lines()
        .find(|line| line.contains("retryguard::audit"))
        .expect("an audit line");
    let audit: Value = serde_json::from_str(audit).expect("a line of JSON");
    assert_eq!(audit["fields"]["desired"], "off");
    assert!(
        audit["fields"]["why"]
            .as_str()
            .is_some_and(|why| why.contains("rejections"))
    );
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let config = configuration(folder.path(), page(Arc::new(AtomicU64::new(60))), port);
    let address = format!("http://127.0.0.1:{port}");
    let log = folder.path().join("log");
    let mut running = launch(&["controller", "--dry-run", "--config", &config], &log);
    status_until(&address, "would", |status| !status["would"][0].is_null());
    let table = said(&retryguard(&["controller", "status", "--address", &address]));
    let line = "dry run: for reviews policy-server would serve `reviews` with maxRetries: 0 and hedge: off";
    assert!(table.contains(line), "{table}");
    assert!(!folder.path().join("policies/.retryguard-decisions.json").exists());
    assert_eq!(running.stop(LIMIT).and_then(|status| status.code()), Some(0));
}

/// A configuration is right where another program can run it; this one says what it lacks.
#[test]
fn the_check_names_what_the_program_was_built_without() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("istio.yaml");
    let text = include_str!("../../../../deploy/test/controller.yaml");
    std::fs::write(&path, text).expect("a temporary file");
    let output = retryguard(&["controller", "--check", "--config", &path.display().to_string()]);
    let told = talk(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("no mistake, 1 target\n"), "{told}");
    let named = told.contains("built without `istio`; build it with `--features kubernetes`");
    assert_eq!(named, !cfg!(feature = "kubernetes"), "{told}");
}

#[test]
fn a_wrong_configuration_is_told_with_its_lines() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("wrong.yaml");
    let text = "sources:\n  prometeus: {url: x}\nactuators: {policy-server: {folder: .}}\ntargets: {a: {}}\n";
    std::fs::write(&path, text).expect("a temporary file");
    let path = path.display().to_string();
    for arguments in [
        &["controller", "--config", &path][..],
        &["controller", "--check", "--config", &path],
    ] {
        let output = retryguard(arguments);
        assert_eq!(output.status.code(), Some(2));
        let told = talk(&output);
        assert!(told.contains("wrong.yaml:2:3: unknown key `prometeus`"), "{told}");
        assert!(told.contains("did you mean `prometheus`?"), "{told}");
    }
    for (arguments, part) in [
        (&["controller"][..], "--config controller.yaml"),
        (&["controller", "--config", "/nowhere.yaml"], "/nowhere.yaml"),
        (
            &["controller", "status", "--address", "http://127.0.0.1:1"],
            "127.0.0.1:1",
        ),
        (&["controller", "status", "--address", "nonsense"], "nonsense"),
        (&["policy", "serve", "/nowhere"], "/nowhere"),
        (&["policy", "serve", ".", "--listen", "everywhere"], "everywhere"),
    ] {
        let output = retryguard(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            talk(&output).contains(part),
            "{arguments:?}: {part} is not in {}",
            talk(&output)
        );
        assert_eq!(said(&output), "", "standard output is for data");
    }
}

#[test]
fn a_port_that_is_taken_is_told_by_its_address() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let config = configuration(folder.path(), 1, port);
    let output = retryguard(&["controller", "--config", &config]);
    assert_eq!(output.status.code(), Some(2));
    let told = talk(&output);
    assert!(
        told.contains(&format!("127.0.0.1:{port}")) && told.contains("another port"),
        "{told}"
    );
}

#[test]
fn policies_are_served_until_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(
        folder.path().join("shop.yaml"),
        "services: {reviews: {maxRetries: 4}}\n",
    )
    .expect("a temporary file");
    let port = free_port();
    let log = folder.path().join("log");
    let (listen, path) = (format!("127.0.0.1:{port}"), folder.path().display().to_string());
    let mut running = launch(&["policy", "serve", &path, "--listen", &listen], &log);
    assert!(until(LIMIT, || {
        retryguard_parts::status(port, "/policies/shop") == Some(200)
    }));
    let told = std::fs::read_to_string(&log).expect("a log");
    assert!(told.contains("serving shop on"), "{told}");
    assert_eq!(running.stop(LIMIT).and_then(|status| status.code()), Some(0));
}

/// What a server on this machine answers.
fn body(port: u16, path: &str) -> Option<String> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// The clients of `examples/policy-clients` against a real policy server: each reads the policy, and reads it again after it
/// was changed. A language that is not on this machine is left out.
#[test]
fn clients_in_other_languages_follow_a_policy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |retries: u32| {
        let text = format!("services: {{reviews: {{maxRetries: {retries}}}}}\nremotePeriod: 2s\n");
        std::fs::write(folder.path().join("shop.yaml"), text).expect("a temporary file");
    };
    write(4);
    let port = free_port();
    let log = folder.path().join("log");
    let (listen, path) = (format!("127.0.0.1:{port}"), folder.path().display().to_string());
    let _running = launch(&["policy", "serve", &path, "--listen", &listen], &log);
    let served = |retries: u32| {
        body(port, "/policies/shop?service=reviews")
            .is_some_and(|text| text.contains(&format!("\"maxRetries\":{retries}")))
    };
    assert!(until(LIMIT, || served(4)), "the policy is not served as JSON");
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policy-clients");
    let cache = folder.path().join("cache");
    let run = |program: &Path, before: &[&str], file: &str, policy: &str| {
        Command::new(program)
            .args(before)
            .arg(clients.join(file))
            .args([&format!("http://{listen}"), policy, "reviews"])
            .env("GOCACHE", &cache)
            .env("GOFLAGS", "-mod=mod")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("the program starts")
    };
    let ask = |program: &Path, before: &[&str], file: &str| {
        let output = run(program, before, file, "shop");
        assert!(output.status.success(), "{file}: {}", talk(&output));
        said(&output)
    };
    let languages = [
        ("python3", &[][..], "retryguard_policy.py"),
        ("go", &["run"][..], "main.go"),
        ("java", &[][..], "PolicyClient.java"),
    ];
    let there: Vec<_> = languages
        .into_iter()
        .filter_map(|(program, before, file)| Some((retryguard_parts::find(program)?, before, file)))
        .collect();
    for (program, before, file) in &there {
        assert_eq!(ask(program, before, file), "maxRetries 4\n", "{file}");
        // A policy that the server does not have looked like one without retries.
        let wrong = run(program, before, file, "shopp");
        assert!(!wrong.status.success(), "{file}: {}", said(&wrong));
        assert!(talk(&wrong).contains("404"), "{file}: {}", talk(&wrong));
    }
    write(0);
    assert!(until(LIMIT, || served(0)), "a changed policy is not served");
    for (program, before, file) in &there {
        assert_eq!(ask(program, before, file), "maxRetries 0\n", "{file}");
    }
}
