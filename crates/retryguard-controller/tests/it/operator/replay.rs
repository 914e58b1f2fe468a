//! What a controller recorded, replayed.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use retryguard_controller::adapters::recording::{FileRecorder, RecordedSource};
use retryguard_controller::config::Config;
use retryguard_controller::reconcile::source::Source as _;
use retryguard_controller::start;
use retryguard_core::guard::State;

use crate::scripted::{ScriptedSource, reading};

const CONFIG: &str = "
sources: {scrape: {addresses: ['http://127.0.0.1:1/']}}
actuators: {policy-server: {folder: .}}
targets: {payments: {scrape: {envoy: {}}, guard: {samples: 1, minimumCalls: 1}}}
";

#[tokio::test]
async fn an_overload_that_was_recorded_is_decided_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("readings");
    let recorder = Arc::new(Mutex::new(FileRecorder::open(&path).unwrap()));
    let source = ScriptedSource {
        script: Box::new(|_| {
            let mut overload = reading("payments", 90);
            overload.counts.retries = Some(40);
            overload.counts.retries_succeeded = Some(4);
            Ok(vec![overload])
        }),
        second: 0,
    };
    let mut source = RecordedSource::new(Box::new(source), recorder);
    for _ in 0..10 {
        assert_eq!(
            source.read().await.unwrap().len(),
            1,
            "the loop still gets what was read"
        );
    }
    let config = Config::parse(CONFIG, Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (replay, span) = start::replay(&config, &path).unwrap();
    assert!(span.is_some());
    let (name, outcome) = replay.outcomes().next().unwrap();
    assert_eq!(name.as_str(), "payments");
    assert_eq!((outcome.calls, outcome.retries), (1_000, Some(400)));
    assert_eq!(outcome.decisions[0].1, State::Off);
    // The first reading decides, and the retries of the other nine would have been held back.
    assert_eq!(outcome.held_back, 360.0);
    assert_eq!(outcome.held_back_succeeded, Some(36.0));
}

#[test]
fn a_file_that_is_no_recording_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("readings");
    std::fs::write(&path, "hello\n").unwrap();
    let config = Config::parse(CONFIG, Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let error = start::replay(&config, &path).unwrap_err().to_string();
    assert!(error.contains("readings") && error.contains("line 1"), "{error}");
    assert!(start::replay(&config, &folder.path().join("missing")).is_err());
}
