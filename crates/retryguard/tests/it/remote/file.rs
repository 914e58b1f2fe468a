//! A policy in a file, under paused time: the file is looked at every second or so.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use retryguard::{
    Refusal,
    for_http::Http,
    machines::breaker,
    remote::{LivePolicy, RemoteError},
};
use tower::{Layer, ServiceExt};

use super::{WRONG, retries, text};
use crate::support::{
    scripted::{Scripted, get, status},
    time::{sleep, until},
};

/// Longer than it takes to notice a change.
const LOOKS: u64 = 5_000;

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_followed_by_its_layers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, text(0)).unwrap();
    let live = LivePolicy::file(&path).unwrap();
    let service = Scripted::new([status(500)]);
    let guarded = live.http_layer("it", Http::new()).layer(service.clone());
    guarded.clone().oneshot(get()).await.unwrap();
    assert_eq!(service.attempts(), 1);
    fs::write(&path, text(1)).unwrap();
    until("the change is noticed", || retries(&live) == 1).await;
    guarded.oneshot(get()).await.unwrap();
    assert_eq!(service.attempts(), 3, "by the service that was made before");
}

/// As the kubelet does it: files are links into `..data`, which is a link that is renamed over.
#[tokio::test(start_paused = true)]
async fn a_mounted_config_map_is_followed_through_the_swap_of_its_link() {
    fn publish(mount: &Path, version: &str, text: &str) {
        let folder = mount.join(version);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("policy.yaml"), text).unwrap();
        symlink(version, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    }
    let mount = tempfile::tempdir().unwrap();
    publish(mount.path(), "..2026_11_15_22_00_00.1", &text(1));
    let path = mount.path().join("policy.yaml");
    symlink("..data/policy.yaml", &path).unwrap();
    let live = LivePolicy::file(&path).unwrap();
    assert_eq!(retries(&live), 1);
    for (version, expected) in [("..2026_11_15_22_01_00.2", 2), ("..2026_11_15_22_02_00.3", 3)] {
        let old = fs::read_link(mount.path().join("..data")).unwrap();
        publish(mount.path(), version, &text(expected));
        fs::remove_dir_all(mount.path().join(old)).unwrap();
        until("the swap is noticed", || retries(&live) == expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_policy_is_refused_and_the_last_good_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, text(2)).unwrap();
    let live = LivePolicy::file(&path).unwrap();
    let digest = live.policy().digest().to_owned();
    // Nothing but comments was a policy of defaults, which a file is for a moment while it is written.
    let bad: [&[u8]; 6] = [
        WRONG.as_bytes(),
        b"",
        b"\n",
        b"---\n# The policy of the shop.\n",
        b"\xff\xfe not text",
        &[b' '; (1 << 20) + 1],
    ];
    for bad in bad {
        if bad.is_empty() {
            fs::remove_file(&path).unwrap();
        } else {
            fs::write(&path, bad).unwrap();
        }
        sleep(LOOKS).await;
        assert_eq!(live.policy().digest(), digest);
    }
    fs::write(&path, text(4)).unwrap();
    until("the good one is taken", || retries(&live) == 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_does_not_start_without_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    let absent = LivePolicy::file(&path).unwrap_err();
    assert!(matches!(absent, RemoteError::File { .. }), "{absent}");
    assert!(absent.to_string().contains("policy.yaml"), "{absent}");
    fs::write(&path, "# soon\n").unwrap();
    let empty = LivePolicy::file(&path).unwrap_err();
    assert!(matches!(empty, RemoteError::Empty), "{empty}");
    fs::write(&path, "services: {}\n").unwrap();
    assert!(LivePolicy::file(&path).is_ok(), "what the error proposes");
    fs::write(&path, WRONG).unwrap();
    let wrong = LivePolicy::file(&path).unwrap_err().to_string();
    assert!(
        wrong.contains("maxRetires") && wrong.contains("soon"),
        "every mistake at once: {wrong}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_stays_open_when_the_policy_is_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, text(0)).unwrap();
    let live = LivePolicy::file(&path).unwrap();
    let layer = live.http_layer("it", Http::new());
    let guarded = layer.layer(Scripted::new([status(500)]));
    for _ in 0..3 {
        guarded.clone().oneshot(get()).await.unwrap();
    }
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    fs::write(&path, text(1)).unwrap();
    until("the change is noticed", || retries(&live) == 1).await;
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    let refused = guarded.oneshot(get()).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::BreakerOpen));
}

#[tokio::test(start_paused = true)]
async fn periodic_work_follows_its_period_and_its_switch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, "services: { it: { period: 1h } }").unwrap();
    let live = LivePolicy::file(&path).unwrap();
    let periodic = live.periodic("it", Duration::from_secs(60));
    assert!(periodic.is_on("sync"));
    fs::write(&path, "services: { it: { period: 1h, featuresOff: [sync] } }").unwrap();
    until("it is switched off", || !periodic.is_on("sync")).await;
    assert!(periodic.is_on("search"));
    fs::write(&path, "services: { it: { period: 1h } }").unwrap();
    until("it is switched on", || periodic.is_on("sync")).await;
}

#[tokio::test(start_paused = true)]
async fn the_file_is_not_watched_once_no_reader_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, text(0)).unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let live = LivePolicy::file(&path).unwrap();
    let layer = live.http_layer("it", Http::new());
    assert_eq!(tasks(), before + 1);
    drop(live);
    sleep(LOOKS).await;
    assert_eq!(tasks(), before);
    assert_eq!(
        layer.handle().name(),
        "it",
        "the layer keeps the policy that it has"
    );
}

/// Opening a named pipe waits for a writer: a thread of the runtime stood still, and with it a program of one thread.
#[test]
fn a_named_pipe_in_the_place_of_the_file_blocks_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let (said, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || said.send(LivePolicy::file(path).err()));
    let error = hears.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(matches!(error, Some(RemoteError::File { .. })), "{error:?}");
}
