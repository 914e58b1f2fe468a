//! A second attempt beside a slow first one.

use retryguard::{Refusal, Report, for_http::tags::ATTEMPT_KIND};
use tower::ServiceExt;

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, get, post, silence, status},
    time::{assert_at, timed},
};

const HEDGED: &str = "maxRetries: 0, hedge: { after: 50ms, most: 1 }";

#[tokio::test(start_paused = true)]
async fn the_hedge_wins_and_the_loser_is_dropped() {
    let service = Scripted::new([silence(), status(200).after(10)]);
    let (layer, guarded) = guarded(&only(HEDGED), &service);
    let (took, response) = timed(guarded.oneshot(get())).await;
    assert_at(took, 60);
    let response = response.unwrap();
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!((report.attempts, report.hedges, report.retries), (2, 1, 0));
    assert_eq!(service.seen()[1].header(ATTEMPT_KIND), "hedge");
    assert_eq!(service.dropped(), 1);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn the_first_wins_and_the_hedge_is_dropped() {
    let service = Scripted::new([status(200).after(70), silence()]);
    let (layer, guarded) = guarded(&only(HEDGED), &service);
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_eq!((service.attempts(), service.dropped()), (2, 1));
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_failed_hedge_does_not_end_a_call_whose_first_attempt_still_runs() {
    let service = Scripted::new([status(200).after(90), status(503)]);
    let (_, guarded) = guarded(&only(HEDGED), &service);
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_eq!((service.attempts(), service.dropped()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn both_time_out_and_both_are_dropped() {
    let service = Scripted::new([silence()]);
    let (layer, guarded) = guarded(&only(&format!("{HEDGED}, attemptTimeout: 80ms")), &service);
    let (took, result) = timed(call(&guarded)).await;
    assert_at(took, 130);
    assert_eq!(result.unwrap_err().refusal(), Some(Refusal::AttemptsUsed));
    assert_eq!((service.attempts(), service.dropped()), (2, 2));
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_done_twice_is_not_hedged() {
    let service = Scripted::new([status(200).after(200)]);
    let (_, guarded) = guarded(&only(HEDGED), &service);
    guarded.oneshot(post()).await.unwrap();
    assert_eq!(service.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn hedges_are_paid_from_the_budget() {
    let service = Scripted::new([status(200).after(100)]);
    let budget = "budget: { percent: 10%, interval: 1h, minRetryRate: { count: 0 } }";
    let (_, guarded) = guarded(&only(&format!("{HEDGED}, {budget}")), &service);
    for _ in 0..100 {
        call(&guarded).await.unwrap();
    }
    assert_eq!(service.attempts(), 110);
}
