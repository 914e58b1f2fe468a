//! Tools that are not ours against the services: k6 must count as our driver does, and schemathesis must find no answer
//! that the description does not allow.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use retryguard_lab::{
    Configuration, Name, System,
    faults::{Fault, Kind},
    load::{Driver, Plan},
};
use serde_json::Value;

use crate::support::{send, settings, system};

/// Runs a program beside the services, which need this runtime.
async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap()
}

const RATE: f64 = 30.0;
const SECONDS: f64 = 10.0;

/// One fault that does not depend on load, so that both must find the same success: a fifth of all charges fails, and
/// configuration A retries nothing.
async fn failing() -> System {
    let system = System::start(settings(Configuration::A)).await.unwrap();
    system.faults().start(Fault::of(Kind::PaymentErrors));
    system
}

/// What was counted. Orders that were not sent, because this machine was too busy for all of its users, were offered all
/// the same.
struct Counted {
    sent: f64,
    unsent: f64,
    paid: f64,
    replays: f64,
}

impl Counted {
    fn offered(&self) -> f64 {
        self.sent + self.unsent
    }

    fn paid_share(&self) -> f64 {
        self.paid / self.sent
    }

    fn replayed_share(&self) -> f64 {
        self.replays / self.sent
    }
}

async fn by_k6(k6: PathBuf) -> Counted {
    let system = failing().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("counts.json");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/k6/orders.js");
    let mut command = Command::new(k6);
    command
        .args(["run", "--quiet", "--no-usage-report", "--address", "127.0.0.1:0"])
        .env("GATEWAY", format!("http://{}", system.address(Name::Gateway)))
        .env("SHAPE", "open")
        .env("RATE", RATE.to_string())
        .env("SECONDS", SECONDS.to_string())
        .env("OUT", &out)
        .arg(script);
    let output = run(command).await;
    assert!(output.status.success(), "{output:?}");
    let counts: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    system.stop().await;
    println!("k6: {counts}");
    let number = |name: &str| counts[name].as_f64().unwrap();
    Counted {
        sent: number("sent"),
        unsent: number("unsent"),
        paid: number("paid"),
        replays: number("replays"),
    }
}

async fn by_our_driver() -> Counted {
    let system = failing().await;
    // Ten seconds here are a hundred of the described ones.
    let plan = Plan::open(RATE, Duration::from_secs_f64(SECONDS * 10.0));
    let measured = Driver::new(&system, plan).unwrap().run().await;
    system.stop().await;
    Counted {
        sent: measured.total.sent as f64,
        unsent: measured.unsent as f64,
        paid: measured.total.paid as f64,
        replays: measured.replays as f64,
    }
}

/// Three hundred orders each. Theirs come in step and ours at random, so counts may differ by chance (a standard
/// deviation of 17), and so may the shares that are paid (of 0.033) and replayed (of 0.025); the bands are four of these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs k6"]
async fn k6_and_our_driver_agree() {
    let k6 = retryguard_parts::need("k6");
    let (theirs, ours) = (by_k6(k6).await, by_our_driver().await);
    let near = |what: &str, theirs: f64, ours: f64, band: f64| {
        println!("{what}: k6 {theirs:.3}, ours {ours:.3}");
        assert!(
            (theirs - ours).abs() <= band,
            "{what}: k6 {theirs:.3}, ours {ours:.3}"
        );
    };
    near("orders", theirs.offered(), ours.offered(), 70.0);
    near("paid", theirs.paid_share(), ours.paid_share(), 0.13);
    near("replayed", theirs.replayed_share(), ours.replayed_share(), 0.1);
}

/// The service's whole description, without the token: whatever is sent, no service answers with an error of the server or
/// with something undescribed, and the admin interface refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Schemathesis"]
async fn schemathesis_finds_no_error_of_a_server() {
    let program = retryguard_parts::need("schemathesis");
    let system = system(Configuration::G).await;
    let folder = tempfile::tempdir().unwrap();
    let mut attacks = tokio::task::JoinSet::new();
    for name in Name::ALL {
        let command = attack(&program, &system, name, folder.path(), &[]);
        let guarded = operations(&system, name, "/admin").await;
        attacks.spawn(async move { (name, guarded, run(command).await) });
    }
    for (name, guarded, output) in attacks.join_all().await {
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name}:\n{told}");
        let refused = format!("{guarded} operations returned only 401/403");
        assert!(told.contains(&refused), "{name}: not {refused}\n{told}");
    }
    system.stop().await;
}

/// With the token, except what starts and ends faults: a service that was killed on demand does not answer, and rightly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Schemathesis"]
async fn schemathesis_finds_nothing_in_the_admin_interface() {
    let program = retryguard_parts::need("schemathesis");
    let system = system(Configuration::G).await;
    let folder = tempfile::tempdir().unwrap();
    let token = format!("Authorization: Bearer {}", system.token());
    let arguments = [
        "--include-path-regex",
        "^/admin",
        "--exclude-method",
        "POST",
        "--header",
        &token,
    ];
    let output = run(attack(
        &program,
        &system,
        Name::Payments,
        folder.path(),
        &arguments,
    ))
    .await;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(!told.contains("returned only 401/403"), "{told}");
    system.stop().await;
}

/// How many operations a service describes under a path.
async fn operations(system: &System, name: Name, under: &str) -> usize {
    let answer = send(system.address(name), "GET", "/openapi.json", &[], b"").await;
    let described: Value = serde_json::from_str(&answer.body).unwrap();
    let paths = described["paths"].as_object().unwrap();
    let under = paths.iter().filter(|(path, _)| path.starts_with(under));
    under
        .flat_map(|(_, item)| item.as_object().unwrap().keys())
        .filter(|key| *key != "parameters")
        .count()
}

/// The folder is for what it remembers of its examples.
fn attack(program: &Path, system: &System, name: Name, folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg(format!("http://{}/openapi.json", system.address(name)))
        .args([
            "--no-color",
            "--seed",
            "7",
            "--max-examples",
            "8",
            "--request-timeout",
            "60",
        ])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ])
        .args(more)
        .current_dir(folder);
    command
}
