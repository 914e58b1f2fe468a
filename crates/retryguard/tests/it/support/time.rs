//! The one module of the tests that reads the clock and sleeps.

use std::time::Duration;

use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "the tests' adapter to tokio's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the tests' adapter to tokio's timers")]
pub(crate) async fn sleep(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// How long a future took.
pub(crate) async fn timed<F: Future>(future: F) -> (Duration, F::Output) {
    let began = now();
    let output = future.await;
    (began.elapsed(), output)
}

/// Waits until something has become true, and fails with what it was after half a minute: a bound that no
/// passing run comes near.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_true() {
            return;
        }
        sleep(5).await;
    }
    panic!("never came true: {what}");
}

/// Whether a virtual moment is the one that was meant: tokio's timers have the grain of a millisecond.
#[track_caller]
pub(crate) fn assert_at(at: Duration, millis: u64) {
    let at = at.as_millis();
    assert!(
        (u128::from(millis)..=u128::from(millis) + 2).contains(&at),
        "at {at} ms and not at {millis} ms"
    );
}
