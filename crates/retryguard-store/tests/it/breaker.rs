//! Breakers shared through a real Redis: three replicas of the library, and one that is played by hand.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use retryguard::{Policy, TargetHandle, for_http::HttpLayer};
use retryguard_core::{
    backoff::{Backoff, Growth},
    breaker::{Handle, State},
};
use retryguard_parts::Redis;
use retryguard_store::breaker::{JoinError, Settings, SharedBreakers};
use tower::{Layer as _, ServiceExt as _};

use crate::clock;

const AT_MOST: Duration = Duration::from_secs(30);

fn settings() -> Settings {
    Settings {
        ping: Duration::from_millis(100),
        backoff: Backoff {
            growth: Growth::Constant,
            initial: Duration::from_millis(100),
            ..Backoff::default()
        },
        ..Settings::default()
    }
}

/// A target that is down on command.
#[derive(Clone, Default)]
struct Target {
    down: Arc<AtomicBool>,
    /// The attempts that it got from each replica.
    attempts: [Arc<AtomicUsize>; 3],
}

/// One process's client of the target, with a connection to Redis of its own.
struct Replica {
    number: usize,
    layer: HttpLayer,
    target: Target,
    _shared: SharedBreakers,
}

impl Replica {
    fn start(number: usize, redis: &Redis, target: &Target, open_for: &str) -> Self {
        let policy = format!(
            "defaults: {{ maxRetries: 0, budget: off, guard: off,
               breaker: {{ trip: consecutive, failures: 3, openFor: {open_for}, openForAtMost: {open_for}, closeAfter: 1 }} }}"
        );
        let policy = Policy::parse(&policy).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let layer = HttpLayer::new(&policy, "payments");
        let client = redis::Client::open(redis.url()).unwrap();
        let shared = SharedBreakers::start(client, settings()).unwrap();
        shared.join(layer.handle()).unwrap();
        Self {
            number,
            layer,
            target: target.clone(),
            _shared: shared,
        }
    }

    fn handle(&self) -> TargetHandle {
        self.layer.handle()
    }

    fn state(&self) -> State {
        self.handle().status().breaker
    }

    fn attempts(&self) -> usize {
        self.target.attempts[self.number].load(Ordering::SeqCst)
    }

    /// Whether a call got a good answer.
    async fn call(&self) -> bool {
        let (target, number) = (self.target.clone(), self.number);
        let service = self.layer.layer(tower::service_fn(move |_: http::Request<_>| {
            target.attempts[number].fetch_add(1, Ordering::SeqCst);
            let status = if target.down.load(Ordering::SeqCst) {
                503
            } else {
                200
            };
            let response = http::Response::builder().status(status);
            std::future::ready(response.body(Full::<Bytes>::default()))
        }));
        let request = http::Request::get("http://target/").body(Full::<Bytes>::default());
        let answer = service.oneshot(request.unwrap()).await;
        answer.is_ok_and(|response| response.status() == 200)
    }

    async fn fail_until_open(&self) {
        for _ in 0..3 {
            assert!(!self.call().await);
        }
        assert_eq!(self.state(), State::Open);
    }
}

async fn until(what: &str, mut ready: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !ready().await {
            clock::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(AT_MOST, wait)
        .await
        .unwrap_or_else(|_| panic!("it does not come to pass: {what}"));
}

async fn all(replicas: &[Replica], state: State) {
    until(state.as_str(), async || {
        replicas.iter().all(|replica| replica.state() == state)
    })
    .await;
}

/// An observer of Redis that is not a replica.
struct Look(redis::aio::MultiplexedConnection);

impl Look {
    async fn at(redis: &Redis) -> Self {
        let client = redis::Client::open(redis.url()).unwrap();
        Self(client.get_multiplexed_async_connection().await.unwrap())
    }

    /// How often each of Redis's commands was carried out.
    async fn commands(&mut self, of: impl Fn(&str) -> bool) -> u64 {
        let text: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut self.0)
            .await
            .unwrap();
        let number = |line: &str, name: &str| -> u64 {
            let at = line.find(name).unwrap() + name.len();
            let digits: String = line[at..].chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        text.lines()
            .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'))
            .filter(|(command, _)| of(command))
            // A script that Redis does not know yet is refused once and sent again with its text.
            .map(|(_, line)| number(line, "calls=") - number(line, "failed_calls="))
            .sum()
    }

    async fn scripts(&mut self) -> u64 {
        self.commands(|command| command.starts_with("eval")).await
    }

    async fn subscribers(&mut self) -> u64 {
        let (_, count): (String, u64) = redis::cmd("PUBSUB")
            .arg("NUMSUB")
            .arg("retryguard:breaker:changes")
            .query_async(&mut self.0)
            .await
            .unwrap();
        count
    }

    /// Waits until every replica has subscribed and has asked what is so.
    async fn joined(&mut self, replicas: u64) {
        until("all subscribe", async || self.subscribers().await == replicas).await;
        until("all ask", async || self.scripts().await >= replicas).await;
    }
}

fn three(redis: &Redis, target: &Target, open_for: &str) -> Vec<Replica> {
    (0..3)
        .map(|number| Replica::start(number, redis, target, open_for))
        .collect()
}

/// One script for each of the two changes, none for two thousand good calls, and one replica that probes.
#[tokio::test]
#[ignore = "needs Redis"]
async fn one_opens_for_all_and_probes_for_all() {
    let redis = Redis::start();
    let target = Target::default();
    let replicas = three(&redis, &target, "400ms");
    let mut look = Look::at(&redis).await;
    look.joined(3).await;

    let others = |command: &str| !matches!(command, "ping" | "info");
    let before = look.commands(others).await;
    for _ in 0..700 {
        for replica in &replicas {
            assert!(replica.call().await);
        }
    }
    assert_eq!(
        look.commands(others).await,
        before,
        "nothing is said of what goes well"
    );

    let scripts = look.scripts().await;
    target.down.store(true, Ordering::SeqCst);
    replicas[0].fail_until_open().await;
    all(&replicas, State::Open).await;
    assert_eq!(look.scripts().await, scripts + 1, "one script for the opening");
    let attempts = [replicas[1].attempts(), replicas[2].attempts()];
    assert!(!replicas[1].call().await && !replicas[2].call().await);

    target.down.store(false, Ordering::SeqCst);
    until("the one that opened probes", async || replicas[0].call().await).await;
    all(&replicas, State::Closed).await;
    assert_eq!(look.scripts().await, scripts + 2, "one script for the closing");
    assert_eq!(
        [replicas[1].attempts(), replicas[2].attempts()],
        attempts,
        "the others sent the target nothing while it was down, and did not probe it"
    );
    assert!(replicas[1].call().await && replicas[2].call().await);
}

/// The replica that opened is gone: the others probe by themselves when the margin has passed.
#[tokio::test]
#[ignore = "needs Redis"]
async fn an_opening_does_not_outlive_its_replica_for_long() {
    let redis = Redis::start();
    let target = Target::default();
    let mut replicas = three(&redis, &target, "300ms");
    let mut look = Look::at(&redis).await;
    look.joined(3).await;
    target.down.store(true, Ordering::SeqCst);
    replicas[0].fail_until_open().await;
    all(&replicas, State::Open).await;
    let left: i64 = redis::cmd("PTTL")
        .arg("retryguard:breaker:target:payments")
        .query_async(&mut look.0)
        .await
        .unwrap();
    assert!((1..=2300).contains(&left), "nothing in Redis lasts: {left} ms");
    replicas.remove(0);
    target.down.store(false, Ordering::SeqCst);
    until("another probes", async || replicas[0].call().await).await;
    all(&replicas, State::Closed).await;
}

/// Redis is gone: each goes on alone, and no call is held up. It comes back empty: what is open is said again.
#[tokio::test]
#[ignore = "needs Redis"]
async fn without_redis_each_goes_on_alone_and_joins_again() {
    let mut redis = Redis::start();
    let target = Target::default();
    let replicas = three(&redis, &target, "1h");
    Look::at(&redis).await.joined(3).await;
    redis.process().kill();
    for replica in &replicas {
        assert!(replica.call().await, "calls do not need Redis");
    }
    target.down.store(true, Ordering::SeqCst);
    replicas[0].fail_until_open().await;
    assert_eq!(replicas[1].attempts(), 1);
    replicas[1].fail_until_open().await;
    assert_eq!(replicas[1].attempts(), 4, "the second has it from its own calls");
    redis.restart();
    all(&replicas, State::Open).await;
    assert_eq!(replicas[2].attempts(), 1, "the third has it from the others");
}

/// Redis is held still: a breaker opens without waiting for it, and the others receive it when it goes on.
#[tokio::test]
#[ignore = "needs Redis"]
async fn a_redis_that_does_not_answer_delays_no_call() {
    let mut redis = Redis::start();
    let target = Target::default();
    let replicas = three(&redis, &target, "1h");
    Look::at(&redis).await.joined(3).await;
    redis.process().pause();
    target.down.store(true, Ordering::SeqCst);
    replicas[0].fail_until_open().await;
    assert!(!replicas[0].call().await, "refused at once");
    assert_eq!(replicas[1].state(), State::Closed);
    // Longer than the client waits for an answer of Redis, so that the first message is given up.
    clock::sleep(Duration::from_secs(2)).await;
    redis.process().resume();
    all(&replicas, State::Open).await;
}

/// A breaker whose changes the test says itself.
#[derive(Clone, Default)]
struct Puppet(Arc<Strings>);

type Told = Box<dyn Fn(State) + Send + Sync>;

#[derive(Default)]
struct Strings {
    state: Mutex<Option<(State, Duration)>>,
    told: Mutex<Option<Told>>,
}

impl Puppet {
    fn change(&self, state: State, left: Duration) {
        *self.0.state.lock().unwrap() = Some((state, left));
        self.0.told.lock().unwrap().as_ref().unwrap()(state);
    }
}

impl Handle for Puppet {
    fn name(&self) -> &'static str {
        "payments"
    }

    fn state(&self) -> (State, Duration) {
        self.0
            .state
            .lock()
            .unwrap()
            .unwrap_or((State::Closed, Duration::ZERO))
    }

    fn hold_open(&self, span: Duration) {
        *self.0.state.lock().unwrap() = Some((State::Open, span));
    }

    fn close(&self) {
        *self.0.state.lock().unwrap() = None;
    }

    fn observe(&self, told: Box<dyn Fn(State) + Send + Sync>) -> bool {
        let mut known = self.0.told.lock().unwrap();
        let first = known.is_none();
        known.get_or_insert(told);
        first
    }
}

/// A closing that comes late meets a newer opening in Redis: it is refused, and the opening is adopted.
#[tokio::test]
#[ignore = "needs Redis"]
async fn a_stale_closing_does_not_close_a_newer_opening() {
    const KEY: &str = "retryguard:breaker:target:payments";
    let redis = Redis::start();
    let puppet = Puppet::default();
    let client = redis::Client::open(redis.url()).unwrap();
    let shared = SharedBreakers::start(client, settings()).unwrap();
    shared.join(puppet.clone()).unwrap();
    let mut look = Look::at(&redis).await;
    look.joined(1).await;
    puppet.change(State::Open, Duration::from_secs(60));
    let owner = async |look: &mut Look| -> Option<String> {
        let get = redis::cmd("HGET").arg(KEY).arg("owner").to_owned();
        get.query_async(&mut look.0).await.unwrap()
    };
    until("it is noted", async || owner(&mut look).await.is_some()).await;
    // Another replica's opening, which this one has not received.
    let () = redis::pipe()
        .cmd("HSET")
        .arg(KEY)
        .arg(&["epoch", "9000000000000000", "owner", "other"])
        .cmd("PEXPIRE")
        .arg(KEY)
        .arg(50_000)
        .query_async(&mut look.0)
        .await
        .unwrap();
    puppet.change(State::Closed, Duration::ZERO);
    until("the newer opening is adopted", async || {
        puppet.state().0 == State::Open
    })
    .await;
    assert!(puppet.state().1 <= Duration::from_secs(50));
    assert_eq!(owner(&mut look).await.as_deref(), Some("other"));
}

/// Names that Redis has to do with are checked before they come to it.
#[tokio::test]
async fn what_cannot_be_shared_is_refused() {
    let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
    let wrong = Settings {
        limit: Duration::ZERO,
        ..settings()
    };
    assert_eq!(
        SharedBreakers::start(client.clone(), wrong).unwrap_err(),
        JoinError::Zero("limit")
    );
    let shared = SharedBreakers::start(client, settings()).unwrap();
    let named = |length: usize| HttpLayer::new(&Policy::default(), &"a".repeat(length)).handle();
    shared.join(named(SharedBreakers::LONGEST_NAME)).unwrap();
    let error = shared.join(named(SharedBreakers::LONGEST_NAME + 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the target's name has 256 bytes, more than the 255 that may be shared"
    );
    let handle = named(1);
    shared.join(handle.clone()).unwrap();
    assert_eq!(shared.join(handle).unwrap_err(), JoinError::Twice("a".to_owned()));
    for _ in 2..SharedBreakers::MOST_TARGETS {
        shared.join(named(2)).unwrap();
    }
    assert!(matches!(shared.join(named(2)), Err(JoinError::TooMany(1000))));
}
