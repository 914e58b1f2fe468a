//! Threads that meet in what they share, in the orders that shuttle comes up with.
//!
//! Each test drives the real layers with the real machines. A place that is lost, or a waker that is never
//! called, leaves a thread blocked for ever, which shuttle reports as a deadlock.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use retryguard_policy::{Policy, Service as ServicePolicy};
use shuttle::{
    Config, Runner,
    future::block_on,
    scheduler::{PctScheduler, RandomScheduler},
    thread,
};
use tower::{Layer, Service, ServiceExt};

use crate::{RetryGuardLayer, protocol::Plain, server::ServerLayer, shared::Shared};

/// Orders that are tried of each test: by chance, and by few changes of thread at the worst moments.
const ORDERS: usize = 1_000;

fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    // Timers need a runtime to be made in. Its clock stands still: nothing here ends by time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O");
    let _entered = runtime.enter();
    let mut config = Config::new();
    // A debug build of a call does not fit into shuttle's own 32 KiB.
    config.stack_size = 1 << 20;
    Runner::new(RandomScheduler::new(ORDERS), config.clone()).run(test.clone());
    Runner::new(PctScheduler::new(3, ORDERS), config).run(test);
}

fn policy(keys: &str) -> Arc<ServicePolicy> {
    let text = format!(
        "defaults: {{ breaker: off, guard: off, budget: off, bulkhead: off, deadline: 1h, initialDelay: 0s, jitter: none }}\n\
         services: {{ it: {{ {keys} }} }}"
    );
    Policy::parse(&text)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
        .service("it")
}

/// A target that counts the threads in it, and lets other threads run while it works.
#[derive(Clone, Default)]
struct Counting {
    counts: Arc<Counts>,
    fails: bool,
}

#[derive(Default)]
struct Counts {
    inside: AtomicU32,
    most: AtomicU32,
    attempts: AtomicU32,
}

impl Service<()> for Counting {
    type Response = ();
    type Error = &'static str;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<(), &'static str>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let (counts, fails) = (self.counts.clone(), self.fails);
        counts.attempts.fetch_add(1, Ordering::SeqCst);
        let inside = Inside::enter(counts);
        Box::pin(async move {
            shuttle::future::yield_now().await;
            drop(inside);
            if fails { Err("failed") } else { Ok(()) }
        })
    }
}

/// Leaves by itself, so that a dropped attempt leaves too.
struct Inside(Arc<Counts>);

impl Inside {
    fn enter(counts: Arc<Counts>) -> Self {
        let inside = counts.inside.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most.fetch_max(inside, Ordering::SeqCst);
        Self(counts)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn join_all<T>(threads: impl IntoIterator<Item = thread::JoinHandle<T>>) {
    for thread in threads {
        assert!(thread.join().is_ok(), "a thread panicked");
    }
}

#[test]
fn the_bulkhead_holds_and_no_granted_place_is_lost() {
    let policy = policy("bulkhead: { limit: 1, wait: 1h, waiting: 9 }");
    explore(move || {
        let layer = RetryGuardLayer::from_service(policy.clone(), Plain::idempotent());
        let target = Counting::default();
        let counts = target.counts.clone();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let service = layer.layer(target.clone());
                thread::spawn(move || block_on(service.oneshot(())).is_ok())
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().ok(), Some(true), "all are served");
        }
        assert_eq!(counts.most.load(Ordering::SeqCst), 1);
        let status = layer.handle().status();
        assert_eq!((status.in_flight, status.waiting), (0, 0));
    });
}

#[test]
fn calls_that_are_dropped_anywhere_give_their_places_back() {
    let policy = policy("bulkhead: { limit: 1, wait: 1h, waiting: 9 }");
    explore(move || {
        let layer = RetryGuardLayer::from_service(policy.clone(), Plain::idempotent());
        let target = Counting::default();
        let fickle: Vec<_> = (1..3)
            .map(|polls| {
                let service = layer.layer(target.clone());
                thread::spawn(move || {
                    let mut call = Box::pin(service.oneshot(()));
                    let mut context = Context::from_waker(Waker::noop());
                    for _ in 0..polls {
                        if call.as_mut().poll(&mut context).is_ready() {
                            return;
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let steady = layer.layer(target.clone());
        let steady = thread::spawn(move || block_on(steady.oneshot(())).is_ok());
        assert_eq!(steady.join().ok(), Some(true), "a call that stays is served");
        join_all(fickle);
        let status = layer.handle().status();
        assert_eq!((status.in_flight, status.waiting), (0, 0));
        assert_eq!(target.counts.inside.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn the_budget_is_never_overdrawn() {
    let policy = policy("maxRetries: 3, budget: { percent: 50%, interval: 1h, minRetryRate: { count: 0 } }");
    explore(move || {
        let layer = RetryGuardLayer::from_service(policy.clone(), Plain::idempotent());
        let target = Counting {
            fails: true,
            ..Counting::default()
        };
        let counts = target.counts.clone();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let service = layer.layer(target.clone());
                thread::spawn(move || block_on(service.oneshot(())).is_err())
            })
            .collect();
        join_all(threads);
        let attempts = counts.attempts.load(Ordering::SeqCst);
        assert!(
            (4..=6).contains(&attempts),
            "{attempts} attempts for four calls at 50 %"
        );
        let balance = layer.handle().status().budget_balance;
        assert_eq!(
            balance,
            Some(u64::from(6 - attempts)),
            "and nothing was lost either"
        );
    });
}

#[test]
fn a_reader_never_sees_half_of_a_new_policy() {
    let numbered = [0, 1, 2, 3].map(|number| {
        let mut service = ServicePolicy::clone(&policy(""));
        service.replay_limit = number;
        Arc::new(service)
    });
    explore(move || {
        let [first, others @ ..] = numbered.clone();
        let shared = Arc::new(Shared::new(first));
        let writer = thread::spawn({
            let shared = shared.clone();
            move || others.into_iter().for_each(|policy| shared.replace(policy))
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut last = 0;
                    for _ in 0..3 {
                        let (version, policy) = shared.policy();
                        assert_eq!(policy.replay_limit, version as usize);
                        assert!(version >= last, "a policy does not come back");
                        last = version;
                    }
                })
            })
            .collect();
        join_all(readers.into_iter().chain([writer]));
    });
}

#[test]
fn waiting_calls_go_on_when_a_new_policy_has_room_for_them() {
    let narrow = policy("bulkhead: { limit: 1, wait: 1h, waiting: 9 }");
    let wide = policy("bulkhead: { limit: 2, wait: 1h, waiting: 9 }");
    explore(move || {
        let layer = RetryGuardLayer::from_service(narrow.clone(), Plain::idempotent());
        let target = Counting::default();
        let counts = target.counts.clone();
        let calls: Vec<_> = (0..2)
            .map(|_| {
                let service = layer.layer(target.clone());
                thread::spawn(move || block_on(service.oneshot(())).is_ok())
            })
            .collect();
        let (handle, wide) = (layer.handle(), wide.clone());
        let writer = thread::spawn(move || {
            handle.replace_service(wide);
            true
        });
        join_all(calls.into_iter().chain([writer]));
        assert!(counts.most.load(Ordering::SeqCst) <= 2);
        let status = layer.handle().status();
        assert_eq!((status.in_flight, status.waiting), (0, 0));
    });
}

#[test]
fn the_servers_turns_are_given_once_and_never_lost() {
    let text = "services: { it: { server: { inFlight: 9, working: 1, queueTime: 1h } } }";
    let policy = Policy::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    explore(move || {
        let layer = ServerLayer::new(&policy, "it");
        let counts = Arc::new(Counts::default());
        let handler = {
            let counts = counts.clone();
            tower::service_fn(move |_: Request<()>| {
                let counts = counts.clone();
                async move {
                    let inside = Inside::enter(counts);
                    shuttle::future::yield_now().await;
                    drop(inside);
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            })
        };
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let service = layer.layer(handler.clone());
                thread::spawn(move || {
                    let response = block_on(service.oneshot(Request::new(())));
                    assert_eq!(response.map(|response| response.status().as_u16()), Ok(200));
                })
            })
            .collect();
        let fickle = layer.layer(handler.clone());
        threads.push(thread::spawn(move || {
            let mut gone = Box::pin(fickle.oneshot(Request::new(())));
            let mut context = Context::from_waker(Waker::noop());
            let _ = gone.as_mut().poll(&mut context);
            thread::yield_now();
        }));
        join_all(threads);
        assert_eq!(counts.most.load(Ordering::SeqCst), 1, "one at a time");
        assert_eq!(counts.inside.load(Ordering::SeqCst), 0);
    });
}
