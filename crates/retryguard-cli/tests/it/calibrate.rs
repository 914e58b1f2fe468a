//! `retryguard calibrate` on a service of the laboratory that a real Prometheus watches: what it writes predicts the service at a
//! load that was not observed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
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

    /// Sends charges at these rates, for so many seconds each, and gives the shares that were made.
    fn load(&self, seconds: u32, rates: &[f64]) -> Vec<f64> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/calibrate/charges.py");
        let output = Command::new("python3")
            .arg(script)
            .args([self.address.to_string(), seconds.to_string()])
            .args(rates.iter().map(f64::to_string))
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let share = |line: &str| line.split(' ').nth(3)?.parse().ok();
        let made: Vec<f64> = told.lines().filter_map(share).collect();
        assert_eq!(
            made.len(),
            rates.len(),
            "{told}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        made
    }
}

impl Drop for Payments {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        until(Duration::from_secs(60), || TcpStream::connect(payments.address)
            .is_ok()),
        "payments do not answer"
    );
    let mut tried = String::new();
    for _ in 0..3 {
        let began = retryguard_lab::clock::now();
        payments.load(14, &[20.0, 45.0, 75.0]);
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
            let (measured, predicted) = (payments.load(14, &[rate])[0], simulated(&file));
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
