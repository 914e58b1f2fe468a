//! A newcomer's first commands: `init`, `explain`, `import`, `render`, completions and man pages.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

const ISTIO: &str = "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: store}
spec:
  hosts: [store]
  http:
  - route: [{destination: {host: store}}]
    timeout: 2s
    retries: {attempts: 5, perTryTimeout: 400ms, retryOn: '5xx', retryRemoteLocalities: true}
";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(name: &str, content: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("a scratch file");
    path.display().to_string()
}

#[test]
fn an_istio_file_is_imported_with_its_losses_by_line() {
    let file = scratch("import-virtual-service.yaml", ISTIO);
    let output = run(&["import", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let policy = text(&output.stdout);
    assert!(
        policy.contains("maxRetries: 5") && policy.contains("guard: off"),
        "{policy}"
    );
    let talk = text(&output.stderr);
    assert!(talk.contains(":9: lost: `retryRemoteLocalities`"), "{talk}");
    let json: Value =
        serde_json::from_slice(&run(&["import", "--json", "--from", "istio", &file]).stdout).expect("JSON");
    assert_eq!(json["format"], "istio");
    assert_eq!(json["notes"][0]["line"], 9);
    let strange = run(&["import", "--from", "isto", &file]);
    assert_eq!(strange.status.code(), Some(2));
    assert!(text(&strange.stderr).contains("did you mean istio?"));
    let ours = scratch("import-ours.yaml", "defaults: {maxRetries: 1}\n");
    let already = run(&["import", &ours]);
    assert_eq!(already.status.code(), Some(2));
    assert!(
        text(&already.stderr).contains("is a policy already"),
        "{}",
        text(&already.stderr)
    );
    let neither = scratch("import-neither.yaml", "colour: blue\n");
    assert!(text(&run(&["import", &neither]).stderr).contains("--from"));
}

/// A file that cannot be read is reported by its own mistake and not by what it is not.
#[test]
fn broken_and_empty_files_say_what_they_are() {
    let broken = scratch("import-broken.yaml", "kind: VirtualService\nspec: {http: [\n");
    let bytes = scratch("import-bytes.yaml", "");
    std::fs::write(&bytes, [0xff, 0xfe, b'a', 0]).expect("a scratch file");
    let empty = scratch("import-empty.yaml", "# nothing\n\n");
    for (file, words) in [
        (&broken, "line 2: neither YAML nor JSON"),
        (&bytes, "it is not text in UTF-8"),
        (&empty, "is empty: there is nothing to import"),
    ] {
        let output = run(&["import", file]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    let istio = scratch("simulate-istio.yaml", ISTIO);
    let ours = scratch("simulate-ours.yaml", "defaults: {maxRetries: 1}\n");
    for (file, words) in [
        (&istio, "this is a file of istio and not a scenario"),
        (&ours, "this is a policy and not a scenario"),
    ] {
        let output = run(&["simulate", file]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
}

/// The file that the page of the first hour begins with.
#[test]
fn the_example_is_imported_judged_and_rendered() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("examples/virtual-service.yaml").display().to_string();
    let findings = text(&run(&["lint", &file]).stdout);
    assert!(
        findings.contains(":13: warning RG001: ")
            && findings.contains("set `retries.attempts` to 2 or less (VirtualService `payments`, line 9)"),
        "{findings}"
    );
    let policy = scratch("first-hour-policy.yaml", &text(&run(&["import", &file]).stdout));
    for target in ["envoy", "istio", "gateway-api", "grpc"] {
        let output = run(&["render", &policy, "--to", target]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

/// "What does my mesh do in a storm today?"
#[test]
fn lint_simulate_and_check_take_the_file_as_it_is() {
    let file = scratch("direct-virtual-service.yaml", ISTIO);
    let linted = run(&["lint", &file]);
    assert_eq!(linted.status.code(), Some(1), "{}", text(&linted.stderr));
    let findings = text(&linted.stdout);
    assert!(
        findings.contains(":9: warning RG001: one call at the edge can become 6 attempts at `store`"),
        "{findings}"
    );
    assert!(text(&linted.stderr).contains("read as a file of istio"));
    let scenario = scratch(
        "direct-scenario.yaml",
        "claim: small\nduration: 20s\nservices:\n  store: {workers: 2, queue: 4, time: {exponential: 100ms}}\nclients:\n  \
         people: {calls: store, rate: 25, deadline: 2s}\npolicies: [none]\n",
    );
    let simulated = run(&["simulate", &scenario, "--json", "--policy", "none", &file]);
    assert_eq!(simulated.status.code(), Some(0), "{}", text(&simulated.stderr));
    let result: Value = serde_json::from_slice(&simulated.stdout).expect("JSON");
    let attempts = |index: usize| {
        result["policies"][index]["attempts"]["mean"]
            .as_f64()
            .expect("a number")
    };
    assert!(attempts(1) > 1.5 * attempts(0), "{result}");
    let arguments = [
        "check",
        "--policy",
        &file,
        "--service",
        "store",
        "--availability",
        "0.9",
    ];
    let checked = run(&arguments);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
}

#[test]
fn a_policy_is_rendered_with_its_losses() {
    let policy = scratch("render-policy.yaml", "services: {store: {attemptTimeout: 1s}}\n");
    for (target, expected) in [
        ("envoy", "retry_back_off:"),
        ("istio", "kind: VirtualService"),
        ("gateway-api", "kind: HTTPRoute"),
        ("grpc", "\"methodConfig\""),
    ] {
        let output = run(&["render", &policy, "--to", target]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).contains(expected),
            "{}",
            text(&output.stdout)
        );
        assert!(
            text(&output.stderr).contains("lost: `store`: the guard"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn init_writes_a_policy_that_passes_lint_and_keeps_an_existing_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.yaml").display().to_string();
    let arguments = [
        "init",
        "--calls",
        "orders:payments",
        "--keys",
        "payments",
        "--out",
        &file,
    ];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let linted = run(&["lint", "--deny", "notes", &file]);
    assert_eq!(linted.status.code(), Some(0), "{}", text(&linted.stdout));
    let again = run(&arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"));
    let printed = run(&["init", "--yes", "--out", "-"]);
    assert!(text(&printed.stdout).contains("attemptTimeout: 900ms"));
    let wrong = run(&["init", "--yes", "--deadline", "soon", "--out", "-"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = text(&wrong.stderr);
    assert!(
        said.contains("`deadline` is `soon`") && !said.contains("line "),
        "{said}"
    );
}

#[test]
fn explain_knows_codes_keys_and_terms() {
    for (what, expected) in [
        ("RG009", "What to do:"),
        ("budget", "budget.percent"),
        ("retry-after", "gate.scope"),
        ("maxRetries", "Default: `10`"),
    ] {
        let output = run(&["explain", what]);
        assert_eq!(output.status.code(), Some(0), "{what}");
        assert!(
            text(&output.stdout).contains(expected),
            "{}",
            text(&output.stdout)
        );
    }
    let unknown = run(&["explain", "budgett"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("did you mean"),
        "{}",
        text(&unknown.stderr)
    );
}

#[test]
fn completions_and_man_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(text(&output.stdout).contains("simulate"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(&["man", &folder.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(folder.path().join("retryguard-lint.1")).expect("a page");
    assert!(page.contains("deny"), "{page}");
}

/// A newcomer reads the first lines, and where to begin.
#[test]
fn help_begins_with_the_demo_and_failures_look_alike() {
    let help = text(&run(&["--help"]).stdout);
    let place = |word: &str| help.find(&format!("\n  {word} ")).unwrap_or(usize::MAX);
    assert!(
        place("demo") < place("lint") && place("lint") < place("controller"),
        "{help}"
    );
    assert!(help.contains("Begin with:\n  retryguard demo"), "{help}");
    for arguments in [
        &["explain", "nothing-like-it"][..],
        &["import", "missing.yaml"],
        &["render", "missing.yaml", "--to", "grpc"],
        &["simulate", "missing.yaml"],
        &["tune", "--scenario", "missing.yaml"],
        &["check", "missing.prism", "--prop", "S=? [ true ]"],
        &["predict", "--load", "-1", "--attempts", "2"],
        &["init", "--yes", "--deadline", "soon", "--out", "-"],
        &["demo", "--page", "0.0.0.0:0"],
    ] {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    }
    let fault = text(&run(&["demo", "--fault", "capacityloss"]).stderr);
    assert!(fault.contains("did you mean capacity_loss?"), "{fault}");
}

/// Every subcommand shows how it is used.
#[test]
fn every_help_has_examples() {
    let help = text(&run(&["help"]).stdout);
    let commands = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        // What follows on a line of its own belongs to the command above.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    let mut commands: Vec<Vec<&str>> = commands.map(|name| vec![name]).collect();
    commands.extend([
        vec!["controller", "replay"],
        vec!["controller", "status"],
        vec!["lab", "run"],
        vec!["lab", "serve"],
        vec!["policy", "serve"],
    ]);
    let count = commands.len();
    for mut command in commands {
        command.push("--help");
        let help = text(&run(&command).stdout);
        assert!(help.contains("Examples:\n  retryguard"), "{command:?}:\n{help}");
    }
    assert!(count > 10, "{help}");
}

#[test]
fn the_playground_prints_its_address_and_ends_with_130() {
    use std::io::{BufRead as _, BufReader};
    let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(["play", "--no-open"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line");
    let address = line
        .trim()
        .trim_start_matches("playground: http://")
        .trim_end_matches('/')
        .to_owned();
    let connected = std::net::TcpStream::connect(&address).is_ok();
    let id = child.id().to_string();
    let sent = Command::new("kill")
        .args(["-INT", &id])
        .status()
        .expect("a signal");
    assert!(connected && sent.success(), "{line}");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(run(&["play", "--listen", "0.0.0.0:0"]).status.code(), Some(2));
}

/// An alert at night leads to what to do: every alert's annotation names a section of the operations page that has its name.
#[test]
fn every_alert_has_a_runbook() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (rules, page) = (read("deploy/prometheus/rules.yaml"), read("docs/operations.md"));
    let value = |line: &str, key: &str| line.trim().strip_prefix(key).map(str::to_owned);
    let alerts: Vec<String> = rules
        .lines()
        .filter_map(|line| value(line, "- alert: "))
        .collect();
    let links: Vec<String> = rules
        .lines()
        .filter_map(|line| value(line, "runbook_url: "))
        .collect();
    assert!(
        !alerts.is_empty() && alerts.len() == links.len(),
        "{alerts:?}, {links:?}"
    );
    let headings: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    for (alert, link) in alerts.iter().zip(&links) {
        let anchor = |heading: &&&str| {
            let anchor = heading.to_lowercase().replace(',', "").replace(' ', "-");
            link.ends_with(&format!("/docs/operations.md#{anchor}"))
        };
        let heading = headings.iter().find(anchor);
        let named = heading.is_some_and(|heading| heading.split(", ").any(|name| name == alert));
        assert!(named, "{alert}: {link} leads to no section of that name");
    }
}
