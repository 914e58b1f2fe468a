//! Periodic work. Its slots are cut from the wall clock, so these tests run in real time with a short period.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retryguard::Periodic;

use crate::support::{only, time::until};

#[tokio::test]
async fn work_is_done_while_its_feature_is_on() {
    let periodic = Arc::new(Periodic::new(Duration::from_millis(10)));
    let done = Arc::new(AtomicUsize::new(0));
    let (running, counted) = (periodic.clone(), done.clone());
    let task = tokio::spawn(async move {
        running
            .run("sync", || {
                counted.fetch_add(1, Ordering::SeqCst);
                std::future::ready(())
            })
            .await;
    });
    until("it was done a few times", || done.load(Ordering::SeqCst) >= 5).await;
    periodic.follow(&only("featuresOff: [sync]").service("it"));
    assert!(!periodic.is_on("sync") && periodic.is_on("search"));
    // One execution may have been under way.
    let before = done.load(Ordering::SeqCst);
    let slots = Periodic::new(Duration::from_millis(10));
    for _ in 0..10 {
        slots.next().await;
    }
    assert!(done.load(Ordering::SeqCst) <= before + 1);
    periodic.follow(&only("").service("it"));
    until("it is done again", || done.load(Ordering::SeqCst) > before + 1).await;
    task.abort();
}

#[tokio::test]
async fn a_period_of_the_policy_replaces_the_own_one() {
    let periodic = Periodic::new(Duration::from_secs(3600));
    periodic.follow(&only("period: 5ms").service("it"));
    let soon = async {
        periodic.first().await;
        periodic.next().await;
    };
    tokio::time::timeout(Duration::from_secs(30), soon)
        .await
        .expect("no hour passes");
}
