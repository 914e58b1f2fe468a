//! The single patterns: each does its own part and no other.

use std::time::Duration;

use retryguard::{
    Error, Refusal,
    machines::{Backoff, Outcome, Ratio, breaker, budget, bulkhead, guard, hedge, outcome, throttle},
    patterns,
    protocol::Plain,
};
use tower::{Layer, Service, ServiceExt};

use crate::support::{
    scripted::{Answer, Scripted, get, silence, status},
    time::{assert_at, sleep, timed},
};

type Response = http::Response<http_body_util::Full<bytes::Bytes>>;
type Result = std::result::Result<Response, std::io::Error>;

/// Requests that can be cloned, answered with a status.
fn protocol() -> Plain<fn(&Result) -> Outcome> {
    Plain::idempotent().judged_by(|result| match result {
        Ok(response) if response.status().is_success() => Outcome::Success,
        _ => Outcome::Failure(outcome::Failure::new(outcome::FailureKind::Overload)),
    })
}

fn scripted(answer: Answer) -> Scripted {
    Scripted::new([answer])
}

/// Retries and hedges without a bound of their own.
const BUDGET: budget::Settings = budget::Settings::Ratio {
    ratio: Ratio::percent(1000),
    window: Duration::from_secs(3600),
    reserve: budget::Reserve {
        per_second: Ratio::ZERO,
        most: 0,
    },
};

async fn call<S>(service: S) -> std::result::Result<u16, Error<std::io::Error>>
where
    S: Service<
            http::Request<http_body_util::Full<bytes::Bytes>>,
            Response = Response,
            Error = Error<std::io::Error>,
        >,
{
    service
        .oneshot(get())
        .await
        .map(|response| response.status().as_u16())
}

#[tokio::test(start_paused = true)]
async fn retry() {
    let service = scripted(status(503));
    let layer = patterns::retry("it", 3, Backoff::default(), BUDGET, protocol());
    assert_eq!(call(layer.layer(service.clone())).await.unwrap(), 503);
    assert_eq!(service.attempts(), 4);
    for _ in 0..50 {
        call(layer.layer(service.clone())).await.unwrap();
    }
    assert_eq!(service.attempts(), 4 * 51, "no breaker, no guard");
}

#[tokio::test(start_paused = true)]
async fn retry_within_its_budget() {
    let service = scripted(status(503));
    let tenth = budget::Settings::Ratio {
        ratio: Ratio::percent(10),
        window: Duration::from_secs(3600),
        reserve: budget::Reserve::default(),
    };
    let layer = patterns::retry("it", 3, Backoff::default(), tenth, protocol());
    for _ in 0..100 {
        call(layer.layer(service.clone())).await.unwrap();
    }
    assert_eq!(service.attempts(), 110);
}

#[tokio::test(start_paused = true)]
async fn guarded_retry() {
    let service = scripted(status(503));
    let layer = patterns::guarded_retry(
        "it",
        1,
        Backoff::default(),
        BUDGET,
        guard::Settings::default(),
        protocol(),
    );
    for _ in 0..200 {
        call(layer.layer(service.clone())).await.unwrap();
        sleep(50).await;
    }
    assert_eq!(layer.handle().status().guard, guard::State::Off);
    assert!(
        service.attempts() < 320,
        "{} attempts of 200 calls",
        service.attempts()
    );
}

#[tokio::test(start_paused = true)]
async fn breaker() {
    let service = scripted(status(503));
    let settings = breaker::Settings {
        trip: breaker::Trip::Consecutive(2),
        ..breaker::Settings::default()
    };
    let layer = patterns::breaker("it", settings, protocol());
    for _ in 0..2 {
        assert_eq!(call(layer.layer(service.clone())).await.unwrap(), 503);
    }
    let refused = call(layer.layer(service.clone())).await.unwrap_err();
    assert_eq!(
        (refused.refusal(), service.attempts()),
        (Some(Refusal::BreakerOpen), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn bulkhead() {
    let settings = bulkhead::Settings {
        limit: bulkhead::Limit::Fixed(1),
        ..bulkhead::Settings::default()
    };
    let layer = patterns::bulkhead("it", settings, protocol());
    let service = scripted(status(200).after(10));
    let (first, second) = tokio::join!(
        call(layer.layer(service.clone())),
        call(layer.layer(service.clone()))
    );
    assert_eq!(first.unwrap(), 200);
    assert_eq!(second.unwrap_err().refusal(), Some(Refusal::BulkheadFull));
}

#[tokio::test(start_paused = true)]
async fn throttle() {
    let service = scripted(status(503));
    let layer = patterns::throttle("it", throttle::Settings::default(), protocol());
    let mut sent = 0;
    for _ in 0..200 {
        sent += usize::from(call(layer.layer(service.clone())).await.is_ok());
    }
    assert!(sent < 60, "{sent} of 200 were sent");
    assert_eq!(service.attempts(), sent, "and none of them twice");
}

#[tokio::test(start_paused = true)]
async fn hedge() {
    let service = Scripted::new([silence(), status(200)]);
    let settings = hedge::Settings {
        after: hedge::After::Fixed(Duration::from_millis(30)),
        most: 1,
    };
    let layer = patterns::hedge("it", settings, BUDGET, protocol());
    let (took, result) = timed(call(layer.layer(service.clone()))).await;
    assert_at(took, 30);
    assert_eq!(
        (result.unwrap(), service.attempts(), service.dropped()),
        (200, 2, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn deadline() {
    let service = scripted(silence());
    let layer = patterns::deadline("it", Duration::from_millis(70), protocol());
    let (took, result) = timed(call(layer.layer(service.clone()))).await;
    assert_at(took, 70);
    assert!(
        matches!(result, Err(Error::TimedOut { attempts: 1, .. })),
        "{result:?}"
    );
}
