//! Sources, actuators and judges that do as a script says, under paused time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::clock::Clock;
use retryguard_controller::domain::counts::{Counts, Reading};
use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::state::{Change, Found, Loss, Observed, RetryState};
use retryguard_controller::domain::target::{TargetName, TargetSpec};
use retryguard_controller::reconcile::actuator::{Actuator, ActuatorError, Answer};
use retryguard_controller::reconcile::control_loop::{
    Components, Ended, MOST_QUERIES, Query, QuerySender, run,
};
use retryguard_controller::reconcile::election::{ElectionAnswer, ElectionError, LeaderElection, Leadership};
use retryguard_controller::reconcile::source::{Round, Source, SourceError};
use retryguard_core::guard::Settings;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
};

pub(crate) type Script = Box<dyn FnMut(u64) -> Result<Vec<Reading>, SourceError> + Send>;

/// Answers each round, a second apart, with what the script says for that second.
pub(crate) struct ScriptedSource {
    pub(crate) script: Script,
    pub(crate) second: u64,
}

impl Source for ScriptedSource {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn read(&mut self) -> Round<'_> {
        let result = (self.script)(self.second);
        self.second += 1;
        Box::pin(std::future::ready(result))
    }
}

/// 100 calls of which `rejected` were rejected.
pub(crate) fn reading(target: &str, rejected: u64) -> Reading {
    Reading {
        target: TargetName::new(target),
        counts: Counts {
            calls: 100,
            rejected: Some(rejected),
            retries: Some(0),
            ..Counts::default()
        },
        age: Duration::ZERO,
    }
}

pub(crate) fn down() -> SourceError {
    SourceError::Unreachable {
        address: "http://127.0.0.1:1".to_owned(),
        reason: "connection refused".to_owned(),
    }
}

/// A data plane in memory, which outlives the controllers that use it.
#[derive(Default)]
pub(crate) struct DataPlane {
    state: Mutex<State>,
    stirred: Notify,
    /// Where there is one, each change waits for it between what it would read and what it writes.
    answer: Mutex<Option<Arc<Notify>>>,
    begun: AtomicUsize,
}

#[derive(Default)]
struct State {
    held: BTreeMap<TargetName, Observed>,
    questions: usize,
    changes: Vec<(u64, Change)>,
    failing: Option<fn() -> ActuatorError>,
    /// Made although the answer is an error.
    deaf: bool,
    began: Option<Clock>,
}

impl DataPlane {
    pub(crate) fn new() -> Arc<Self> {
        let plane = Self::default();
        plane.state.lock().unwrap().began = Some(Clock::start());
        Arc::new(plane)
    }

    pub(crate) fn held(&self, target: &str) -> RetryState {
        match self.state.lock().unwrap().held.get(&TargetName::new(target)) {
            Some(Observed::Managed(desired)) => *desired,
            _ => RetryState::Original,
        }
    }

    pub(crate) fn set(&self, target: &str, held: Option<Observed>) {
        let mut state = self.state.lock().unwrap();
        let name = TargetName::new(target);
        match held {
            Some(held) => state.held.insert(name, held),
            None => state.held.remove(&name),
        };
    }

    /// From now on a change reads first, and goes on when it is answered.
    pub(crate) fn slow(&self) -> Arc<Notify> {
        let answer = Arc::new(Notify::new());
        *self.answer.lock().unwrap() = Some(Arc::clone(&answer));
        answer
    }

    /// How many changes have begun.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn make(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let mut state = self.state.lock().unwrap();
        if let Some(error) = state.failing {
            return Err(error());
        }
        let second = state.began.unwrap().now().as_nanos() / 1_000_000_000;
        state.changes.push((second, change.clone()));
        if change.desired == RetryState::Original {
            state.held.remove(&change.target);
        } else {
            state
                .held
                .insert(change.target.clone(), Observed::Managed(change.desired));
        }
        if state.deaf {
            Err(unreachable_plane())
        } else {
            Ok(Vec::new())
        }
    }

    /// Says that something has changed.
    pub(crate) fn stir(&self) {
        self.stirred.notify_one();
    }

    /// How often it was asked what it holds.
    pub(crate) fn questions(&self) -> usize {
        self.state.lock().unwrap().questions
    }

    pub(crate) fn fail(&self, failing: Option<fn() -> ActuatorError>) {
        self.state.lock().unwrap().failing = failing;
    }

    /// Makes what is asked and answers that it could not.
    pub(crate) fn lie(&self, deaf: bool) {
        self.state.lock().unwrap().deaf = deaf;
    }

    /// Every change so far: the second, the desired state, the reason.
    pub(crate) fn changes(&self) -> Vec<(u64, Change)> {
        self.state.lock().unwrap().changes.clone()
    }

    pub(crate) fn desired_states(&self) -> Vec<RetryState> {
        self.changes()
            .into_iter()
            .map(|(_, change)| change.desired)
            .collect()
    }
}

pub(crate) struct Plane(pub(crate) Arc<DataPlane>);

impl Actuator for Plane {
    fn name(&self) -> &'static str {
        "plane"
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        let mut state = self.0.state.lock().unwrap();
        state.questions += 1;
        let result = match state.failing {
            Some(error) => Err(error()),
            None => Ok(state
                .held
                .iter()
                .map(|(target, held)| Found {
                    target: target.clone(),
                    held: held.clone(),
                })
                .collect()),
        };
        Box::pin(std::future::ready(result))
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        let answer = self.0.answer.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(answer) = answer {
                answer.notified().await;
            }
            self.0.make(change)
        })
    }

    fn describe(&self, change: &Change) -> String {
        format!("{:?} for {}", change.desired, change.target)
    }

    fn notice<'a>(
        &'a self,
        changed: &'a (dyn Fn() + Send + Sync),
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            loop {
                self.0.stirred.notified().await;
                changed();
            }
        })
    }
}

pub(crate) fn unreachable_plane() -> ActuatorError {
    ActuatorError::Unreachable {
        address: "plane".to_owned(),
        reason: "connection refused".to_owned(),
    }
}

pub(crate) fn conflict() -> ActuatorError {
    ActuatorError::Conflict {
        what: "payments".to_owned(),
        reason: "changed by hand".to_owned(),
    }
}

/// A backend whose answers the test sets.
#[derive(Clone)]
pub(crate) struct Judge(pub(crate) Arc<Mutex<Result<Leadership, String>>>);

impl Judge {
    pub(crate) fn new(standing: Leadership) -> Self {
        Self(Arc::new(Mutex::new(Ok(standing))))
    }

    pub(crate) fn say(&self, standing: Result<Leadership, String>) {
        *self.0.lock().unwrap() = standing;
    }
}

impl LeaderElection for Judge {
    fn name(&self) -> &'static str {
        "judge"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn ask(&mut self, _asks: bool) {}

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        let said = self.0.lock().unwrap().clone();
        Box::pin(std::future::ready(said.map_err(|reason| ElectionError {
            backend: "judge",
            reason,
        })))
    }

    fn hand_over<'a>(&'a mut self, _to: &'a str) -> ElectionAnswer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn resign(&mut self) -> ElectionAnswer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A controller that runs.
pub(crate) struct Running {
    pub(crate) asks: QuerySender,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

/// What a test changes of the usual controller.
pub(crate) struct Setup {
    pub(crate) targets: Vec<&'static str>,
    pub(crate) guards: Vec<Settings>,
    pub(crate) limits: Limits,
    pub(crate) election: Box<dyn LeaderElection>,
    pub(crate) dry_run: bool,
    pub(crate) leave: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            targets: vec!["payments"],
            guards: vec![Settings::default()],
            limits: Limits::default(),
            election: Box::new(SingleInstance),
            dry_run: false,
            leave: false,
        }
    }
}

pub(crate) fn start(setup: Setup, plane: &Arc<DataPlane>, script: Script) -> Running {
    let (asks, questions) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel();
    let targets = setup
        .targets
        .iter()
        .map(|name| TargetSpec {
            name: TargetName::new(name),
            guards: setup.guards.clone(),
            price: retryguard_controller::domain::gain::PRICE,
            source: "scripted",
            actuators: vec![0],
        })
        .collect();
    let parts = Components {
        targets,
        sources: vec![Box::new(ScriptedSource { script, second: 0 })],
        actuators: vec![Arc::new(Plane(Arc::clone(plane)))],
        election: setup.election,
        limits: setup.limits,
        dry_run: setup.dry_run,
        leave: setup.leave,
    };
    let task = tokio::spawn(run(parts, questions, async {
        let _ = stopped.await;
    }));
    Running { asks, stop, task }
}

impl Running {
    pub(crate) async fn status(&self) -> serde_json::Value {
        let (send, answer) = oneshot::channel();
        self.asks.send(Query::Status(send)).await.unwrap();
        answer.await.unwrap()
    }

    pub(crate) async fn metrics(&self) -> String {
        let (send, answer) = oneshot::channel();
        self.asks.send(Query::Metrics(send)).await.unwrap();
        answer.await.unwrap()
    }

    /// Gracefully.
    pub(crate) async fn stop(self) -> Ended {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
    }

    /// How it ends by itself.
    pub(crate) async fn ended(self) -> Result<Ended, tokio::task::JoinError> {
        self.task.await
    }

    /// As a crash would.
    pub(crate) fn kill(self) {
        self.task.abort();
    }
}

/// Lets so many seconds of paused time pass.
pub(crate) async fn seconds(count: u64) {
    retryguard_controller::clock::sleep(Duration::from_secs(count)).await;
}
