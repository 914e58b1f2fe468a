//! `retryguard calibrate` on a service of the laboratory that a real Prometheus watches: what it writes predicts the service at a
//! load that was not observed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "controller")]
use retryguard_parts::{Prometheus, until};

fn retryguard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The share of calls that succeed in a scenario without retries.
fn simulated(scenario: &Path) -> f64 {
    let output = retryguard(&[
        "simulate",
        &scenario.display().to_string(),
        "--policy",
        "none",
        "--json",
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    result["policies"][0]["successRate"]["mean"].as_f64().unwrap()
}

/// Payments of the laboratory: six workers, forty places, a tenth of a second each.
struct Payments {
    child: Child,
    address: SocketAddr,
}

impl Payments {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
            .args(["lab", "serve", "--service", "payments", "--config", "A"])
            .args(["--workers", "6", "--queue", "40", "--quiet", "--with-parent"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        // The pipe stays open: the service has more to print.
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("payments http://")
            .unwrap_or_else(|| panic!("no address in {line:?}"))
            .parse()
            .unwrap();
        Self { child, address }
    }

    /// Sends charges at a rate for some seconds, whatever becomes of them, and gives the share that was made.
    #[expect(
        clippy::disallowed_methods,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a driver of load sleeps; a few thousand charges"
    )]
    fn load(&self, rate: f64, seconds: f64) -> f64 {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (sent, made) = ((rate * seconds) as u64, Arc::new(AtomicU64::new(0)));
        let clock = retryguard_lab::clock::now();
        let threads: Vec<_> = (0..sent)
            .map(|index| {
                let due = Duration::from_secs_f64(index as f64 / rate);
                std::thread::sleep(due.saturating_sub(retryguard_lab::clock::now() - clock));
                let (address, made) = (self.address, made.clone());
                let order = NUMBER.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    if charge(address, order) == Some(201) {
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        made.load(Ordering::Relaxed) as f64 / sent as f64
    }
}

impl Drop for Payments {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of one charge.
fn charge(address: SocketAddr, order: u64) -> Option<u16> {
    let body = format!("{{\"order\":\"order-{order}\",\"amount\":100}}");
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "POST /charges HTTP/1.1\r\nhost: payments\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// The scenario at another rate, for so many seconds.
fn at_rate(scenario: &str, rate: f64, seconds: f64) -> String {
    scenario.lines().fold(String::new(), |mut out, line| {
        let _ = match line.trim_start() {
            text if text.starts_with("values: ") => writeln!(out, "      values: [{rate}]"),
            text if text.starts_with("duration: ") => writeln!(out, "duration: {seconds}s"),
            _ => writeln!(out, "{line}"),
        };
        out
    })
}

/// A machine with much else to do is not the same machine a minute later: the whole is measured again, twice at most.
#[cfg(feature = "controller")]
#[test]
#[ignore = "needs Prometheus"]
fn a_scenario_from_prometheus_predicts_another_load() {
    let folder = tempfile::tempdir().unwrap();
    let payments = Payments::start();
    let scrape = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: payments\n  static_configs: [{{targets: [\"{}\"]}}]\n",
        payments.address
    );
    let prometheus = Prometheus::start(&scrape);
    let address = prometheus.url();
    assert!(
        until(Duration::from_secs(60), || charge(payments.address, u64::MAX)
            == Some(201)),
        "payments do not answer"
    );
    let mut tried = String::new();
    for _ in 0..3 {
        let began = retryguard_lab::clock::now();
        for rate in [20.0, 45.0, 75.0] {
            payments.load(rate, 14.0);
        }
        let last = format!("{}s", (retryguard_lab::clock::now() - began).as_secs() + 1);
        let file = folder.path().join("payments.yaml");
        let path = file.display().to_string();
        let output = retryguard(&[
            "calibrate",
            "--prometheus",
            &address,
            "--service",
            "payments",
            "--every",
            "4s",
            "--last",
            &last,
            "--deadline",
            "20s",
            "--out",
            &path,
        ]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let scenario = std::fs::read_to_string(&file).unwrap();
        let mut near = true;
        for rate in [30.0, 110.0] {
            std::fs::write(&file, at_rate(&scenario, rate, 14.0)).unwrap();
            let (measured, predicted) = (payments.load(rate, 14.0), simulated(&file));
            let _ = writeln!(
                tried,
                "{rate}/s: measured {measured:.3}, predicted {predicted:.3}"
            );
            near &= (measured - predicted).abs() < 0.05;
        }
        eprintln!("{tried}");
        if near {
            return;
        }
        tried += &scenario;
    }
    panic!("never within five points:\n{tried}");
}

#[test]
fn a_file_of_requests_becomes_a_scenario_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("requests.csv");
    let mut text = "time,duration_ms,status\n".to_owned();
    for index in 0..3_000 {
        let _ = writeln!(
            text,
            "{},{},{}",
            f64::from(index) * 0.02,
            40 + index % 21,
            if index % 50 == 0 { 500 } else { 200 }
        );
    }
    std::fs::write(&csv, text).unwrap();
    let path = csv.display().to_string();
    let output = retryguard(&["calibrate", "--csv", &path, "--service", "shop", "--workers", "8"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("observed") && told.contains("simulated"), "{told}");
    let scenario = String::from_utf8(output.stdout).unwrap();
    assert!(
        scenario.contains("workers: 8") && scenario.contains("errors: 2.00%"),
        "{scenario}"
    );
    let file = folder.path().join("shop.yaml");
    std::fs::write(&file, &scenario).unwrap();
    let success = simulated(&file);
    assert!((success - 0.98).abs() < 0.02, "{success}");
}

#[test]
fn what_cannot_be_used_is_told_with_a_cure() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("requests.csv");
    std::fs::write(&csv, "time,duration\n1,0.1\n").unwrap();
    let path = csv.display().to_string();
    for (arguments, part) in [
        (&["--service", "a", "--csv", "/nowhere.csv"][..], "/nowhere.csv"),
        (&["--service", "a", "--csv", &path], "at least 200"),
        (&["--service", "a"], "--csv"),
        (&["--service", "a", "--csv", &path, "--every", "0s"], "10s"),
    ] {
        let mut all = vec!["calibrate"];
        all.extend(arguments);
        let output = retryguard(&all);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(part), "{arguments:?}: {told}");
    }
}
