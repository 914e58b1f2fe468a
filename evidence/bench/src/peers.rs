//! The peers, each set up as its documentation shows, with the settings nearest to ours.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    num::NonZeroU32,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use backon::Retryable;
use failsafe::CircuitBreaker;
use tower::retry::budget::{Budget, TpsBudget};
use tower_layer::Layer;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_retry::RetryLayer;

use crate::{
    Caller, Subject,
    http::{self, Nothing, Origin},
    service::{Bottom, Fault, calls_of, drive, work},
};

pub(crate) fn subjects() -> Vec<Subject> {
    let subject = |name, package, what, target| Subject {
        name,
        package,
        what,
        peer: None,
        target,
    };
    vec![
        subject("tower-retry", "tower", "retry with its TpsBudget", tower_retry),
        subject("tower-limit", "tower", "concurrency limit", || {
            let layer = tower::limit::GlobalConcurrencyLimitLayer::new(100);
            Box::new(move || calls_of(layer.layer(Bottom)))
        }),
        subject("tower-timeout", "tower", "timeout", || {
            let layer = tower::timeout::TimeoutLayer::new(Duration::from_secs(10));
            Box::new(move || inside_tokio(calls_of(layer.layer(Bottom))))
        }),
        subject("resilience-retry", "tower-resilience-retry", "retry", || {
            let layer: RetryLayer<u64, u64, Fault> = resilience_retry();
            Box::new(move || calls_of(layer.layer(Bottom)))
        }),
        subject(
            "resilience-breaker",
            "tower-resilience-circuitbreaker",
            "breaker by rate",
            || {
                let service = resilience_breaker();
                Box::new(move || calls_of(service.clone()))
            },
        ),
        subject(
            "resilience-both",
            "tower-resilience-retry",
            "retry over breaker",
            || {
                let retry: RetryLayer<u64, u64, BreakerError> = resilience_retry();
                let service = retry.layer(resilience_breaker());
                Box::new(move || calls_of(service.clone()))
            },
        ),
        subject(
            "failsafe",
            "failsafe",
            "breaker by failures in a row, a function",
            failsafe_breaker,
        ),
        subject(
            "recloser",
            "recloser",
            "breaker by rate, a function",
            recloser_breaker,
        ),
        subject(
            "governor",
            "governor",
            "rate limiter, a function",
            governor_limiter,
        ),
        subject("backon", "backon", "retry, a function", backon_retry),
        subject(
            "tower-http",
            "tower",
            "a GET through retry with its TpsBudget, concurrency limit and timeout",
            tower_http,
        ),
        subject(
            "resilience-http",
            "tower-resilience-retry",
            "a GET through retry over breaker",
            || {
                let retry: RetryLayer<Get, Answer, HttpBreakerError> = resilience_retry();
                let service = retry.layer(resilience_breaker_layer().layer(Origin));
                Box::new(move || http::calls_of(service.clone()))
            },
        ),
        subject(
            "tower-server",
            "tower",
            "a request through load shedding, concurrency limit and timeout",
            || {
                let limit = tower::limit::GlobalConcurrencyLimitLayer::new(200);
                Box::new(move || {
                    let timeout = tower::timeout::Timeout::new(Origin, Duration::from_secs(10));
                    let shedding = tower::load_shed::LoadShed::new(limit.layer(timeout));
                    inside_tokio(http::calls_of(shedding))
                })
            },
        ),
    ]
}

type Get = ::http::Request<Nothing>;
type Answer = ::http::Response<Nothing>;
type HttpBreakerError = tower_resilience_circuitbreaker::CircuitBreakerError<Infallible>;

#[derive(Clone)]
struct Budgeted(Arc<TpsBudget>);

impl tower::retry::Policy<u64, u64, Fault> for Budgeted {
    type Future = Ready<()>;

    fn retry(&mut self, _request: &mut u64, result: &mut Result<u64, Fault>) -> Option<Ready<()>> {
        match result {
            Ok(_) => {
                self.0.deposit();
                None
            }
            Err(_) => self.0.withdraw().then(|| ready(())),
        }
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

fn tower_retry() -> Box<dyn Fn() -> Caller> {
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(10), 1, 0.2));
    Box::new(move || calls_of(tower::retry::Retry::new(Budgeted(budget.clone()), Bottom)))
}

impl tower::retry::Policy<Get, Answer, tower::BoxError> for Budgeted {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Get, result: &mut Result<Answer, tower::BoxError>) -> Option<Ready<()>> {
        match result {
            Ok(response) if response.status().as_u16() < 500 => {
                self.0.deposit();
                None
            }
            _ => self.0.withdraw().then(|| ready(())),
        }
    }

    fn clone_request(&mut self, request: &Get) -> Option<Get> {
        Some(request.clone())
    }
}

fn tower_http() -> Box<dyn Fn() -> Caller> {
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(10), 1, 0.2));
    let limit = tower::limit::GlobalConcurrencyLimitLayer::new(100);
    Box::new(move || {
        let timeout = tower::timeout::Timeout::new(Origin, Duration::from_secs(10));
        let retry = tower::retry::Retry::new(Budgeted(budget.clone()), limit.layer(timeout));
        inside_tokio(http::calls_of(retry))
    })
}

fn resilience_retry<Request, Response, E>() -> RetryLayer<Request, Response, E>
where
    E: Send + Sync + 'static,
{
    RetryLayer::builder()
        .max_attempts(3)
        .exponential_backoff(Duration::from_millis(100))
        .build()
}

fn resilience_breaker()
-> impl Clone + Send + tower_service::Service<u64, Response = u64, Error = BreakerError, Future: Send> {
    resilience_breaker_layer().layer(Bottom)
}

fn resilience_breaker_layer() -> CircuitBreakerLayer {
    CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(100)
        .build()
        .expect("good settings")
}

type BreakerError = tower_resilience_circuitbreaker::CircuitBreakerError<Fault>;

fn failsafe_breaker() -> Box<dyn Fn() -> Caller> {
    let backoff = failsafe::backoff::constant(Duration::from_secs(5));
    let policy = failsafe::failure_policy::consecutive_failures(3, backoff);
    let breaker = failsafe::Config::new().failure_policy(policy).build();
    Box::new(move || {
        let breaker = breaker.clone();
        calls_of_function(move |request| breaker.call(|| work(request)).is_ok())
    })
}

fn recloser_breaker() -> Box<dyn Fn() -> Caller> {
    let breaker = Arc::new(recloser::Recloser::default());
    Box::new(move || {
        let breaker = breaker.clone();
        calls_of_function(move |request| breaker.call(|| work(request)).is_ok())
    })
}

fn governor_limiter() -> Box<dyn Fn() -> Caller> {
    // As fast as it goes: no call is ever refused.
    let quota = governor::Quota::per_second(NonZeroU32::MAX);
    let limiter = Arc::new(governor::RateLimiter::direct(quota));
    Box::new(move || {
        let limiter = limiter.clone();
        calls_of_function(move |request| limiter.check().is_ok() && work(request).is_ok())
    })
}

fn backon_retry() -> Box<dyn Fn() -> Caller> {
    Box::new(|| {
        calls_of_function(|request| {
            let mut cx = Context::from_waker(Waker::noop());
            let backoff = backon::ExponentialBuilder::default().with_jitter();
            let retry = pin!((|| ready(work(request))).retry(backoff));
            drive(&mut cx, retry).is_ok()
        })
    })
}

fn calls_of_function(mut call: impl FnMut(u64) -> bool + Send + 'static) -> Caller {
    Box::new(move |calls| {
        for request in 0..calls {
            assert!(black_box(call(black_box(request))), "always succeeds");
        }
    })
}

/// A runtime around the calls, for what makes a timer with every call. It is entered once, and not measured.
fn inside_tokio(mut caller: Caller) -> Caller {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    Box::new(move |calls| {
        let _inside = runtime.enter();
        caller(calls);
    })
}
