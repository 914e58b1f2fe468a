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

use retryguard_controller::{
    actuator::{Actuator, ActuatorError, Answer, Change, Found, Held, Loss, Wish},
    board::Watched,
    clock::Clock,
    config::limits::Limits,
    counts::Counts,
    lead::{Alone, Lead, LeadError, Standing, Verdict},
    run::{Ask, Asking, Ended, Parts, QUESTIONS, run},
    source::{Reading, Round, Source, SourceError},
    target::TargetName,
};
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
    held: BTreeMap<TargetName, Held>,
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

    pub(crate) fn held(&self, target: &str) -> Wish {
        match self.state.lock().unwrap().held.get(&TargetName::new(target)) {
            Some(Held::Ours(wish)) => *wish,
            _ => Wish::Original,
        }
    }

    pub(crate) fn set(&self, target: &str, held: Option<Held>) {
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
        if change.wish == Wish::Original {
            state.held.remove(&change.target);
        } else {
            state.held.insert(change.target.clone(), Held::Ours(change.wish));
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

    /// Every change so far: the second, the wish, the reason.
    pub(crate) fn changes(&self) -> Vec<(u64, Change)> {
        self.state.lock().unwrap().changes.clone()
    }

    pub(crate) fn wishes(&self) -> Vec<Wish> {
        self.changes()
            .into_iter()
            .map(|(_, change)| change.wish)
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
        format!("{:?} for {}", change.wish, change.target)
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

/// A judge whose answers the test sets.
#[derive(Clone)]
pub(crate) struct Judge(pub(crate) Arc<Mutex<Result<Standing, String>>>);

impl Judge {
    pub(crate) fn new(standing: Standing) -> Self {
        Self(Arc::new(Mutex::new(Ok(standing))))
    }

    pub(crate) fn say(&self, standing: Result<Standing, String>) {
        *self.0.lock().unwrap() = standing;
    }
}

impl Lead for Judge {
    fn name(&self) -> &'static str {
        "judge"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn ask(&mut self) -> Verdict<'_, Standing> {
        let said = self.0.lock().unwrap().clone();
        Box::pin(std::future::ready(said.map_err(|reason| LeadError {
            judge: "judge",
            reason,
        })))
    }

    fn resign(&mut self) -> Verdict<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A controller that runs.
pub(crate) struct Running {
    pub(crate) asks: Asking,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

/// What a test changes of the usual controller.
pub(crate) struct Setup {
    pub(crate) targets: Vec<&'static str>,
    pub(crate) guards: Vec<Settings>,
    pub(crate) limits: Limits,
    pub(crate) lead: Box<dyn Lead>,
    pub(crate) dry_run: bool,
    pub(crate) leave: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            targets: vec!["payments"],
            guards: vec![Settings::default()],
            limits: Limits::default(),
            lead: Box::new(Alone),
            dry_run: false,
            leave: false,
        }
    }
}

pub(crate) fn start(setup: Setup, plane: &Arc<DataPlane>, script: Script) -> Running {
    let (asks, questions) = mpsc::channel(QUESTIONS);
    let (stop, stopped) = oneshot::channel();
    let watched = setup
        .targets
        .iter()
        .map(|name| Watched {
            name: TargetName::new(name),
            guards: setup.guards.clone(),
            source: "scripted",
            actuators: vec![0],
        })
        .collect();
    let parts = Parts {
        watched,
        sources: vec![Box::new(ScriptedSource { script, second: 0 })],
        actuators: vec![Arc::new(Plane(Arc::clone(plane)))],
        lead: setup.lead,
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
        self.asks.send(Ask::Status(send)).await.unwrap();
        answer.await.unwrap()
    }

    /// Politely.
    pub(crate) async fn stop(self) -> Ended {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
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
