//! Carries changes of the reconciler to the actuators, and counts of the sources to the reconciler.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use retryguard_core::Instant;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::{JoinError, JoinSet},
    time::timeout,
};

use crate::clock::{Clock, sleep, unix_seconds};
use crate::domain::counts::Reading;
use crate::domain::limits::Limits;
use crate::domain::state::{Found, Loss, RetryState};
use crate::domain::target::TargetSpec;
use crate::reconcile::actuator::{Actuator, ActuatorError};
use crate::reconcile::balance::ShardBalance;
use crate::reconcile::election::{LeaderElection, Leadership};
use crate::reconcile::reconciler::{PlannedChange, Reconciler};
use crate::reconcile::source::Source;

/// What a controller is made of.
pub struct Components {
    /// The targets.
    pub targets: Vec<TargetSpec>,
    /// The sources.
    pub sources: Vec<Box<dyn Source>>,
    /// The actuators, in the order in which targets count them.
    pub actuators: Vec<Arc<dyn Actuator>>,
    /// Who decides whether we act.
    pub election: Box<dyn LeaderElection>,
    /// How long things hold, and how often they may change.
    pub limits: Limits,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
    /// Leaves the data plane as it is when stopped, for the next leader.
    pub leave: bool,
}

/// How long a polite stop may take to restore everything. Kubernetes kills after 30 s.
pub const STOP_WITHIN: Duration = Duration::from_secs(20);

/// How often time is looked at when nothing happens. The end of a decision is not waited for in such steps.
const TICK: Duration = Duration::from_millis(250);

/// The most changes of one actuator that are under way at once.
const AT_ONCE: usize = 64;

/// What is asked of a running controller.
#[derive(Debug)]
pub enum Query {
    /// The status.
    Status(oneshot::Sender<Value>),
    /// The metrics.
    Metrics(oneshot::Sender<String>),
    /// Whether the election and the sources have answered: ready to act, or to follow.
    Ready(oneshot::Sender<bool>),
}

/// A way to query a running controller. What is answered is answered by the loop itself, so a loop that hangs does
/// not look well.
pub type QuerySender = mpsc::Sender<Query>;

/// How many queries may wait.
pub const MOST_QUERIES: usize = 64;

/// What was left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything is as the user configured it.
    Restored,
    /// What was changed stays changed, as was asked.
    Left,
    /// Another controller leads: what is changed is its.
    Following,
    /// Something of ours is still there; the log says what.
    Incomplete,
}

/// What happens.
enum Event {
    Round(&'static str, Result<Vec<Reading>, String>),
    Found(usize, Result<Vec<Found>, String>),
    Done(PlannedChange, Result<Vec<Loss>, ActuatorError>),
    Leadership(Result<Leadership, String>, Instant),
    Changed(usize),
    /// The leadership is to be given to another controller. The answer is due when nothing of ours is under way any more.
    HandOver(String, oneshot::Sender<()>),
}

/// Runs until `stop`, then restores what it changed.
pub async fn run(
    components: Components,
    queries: mpsc::Receiver<Query>,
    stop: impl Future<Output = ()>,
) -> Ended {
    run_of_several(components, None, queries, stop).await
}

/// As [`run`], for one of several shards.
pub(crate) async fn run_of_several(
    components: Components,
    balance: Option<ShardBalance>,
    mut queries: mpsc::Receiver<Query>,
    stop: impl Future<Output = ()>,
) -> Ended {
    let clock = Clock::start();
    let Components {
        targets,
        sources,
        actuators,
        election,
        limits,
        dry_run,
        leave,
    } = components;
    let names: Vec<&'static str> = actuators.iter().map(|actuator| actuator.name()).collect();
    let reconciler = Reconciler::new(targets, &names, limits, clock.now());
    let (events, mut inbox) = mpsc::channel(AT_ONCE);
    let mut tasks = JoinSet::new();
    let (leading, leads) = watch::channel(false);
    for source in sources {
        tasks.spawn(poll_source(source, limits.timeout, leads.clone(), events.clone()));
    }
    for (actuator_index, actuator) in actuators.iter().enumerate() {
        let actuator = Arc::clone(actuator);
        tasks.spawn(watch_data_plane(
            actuator_index,
            actuator,
            leads.clone(),
            events.clone(),
        ));
    }
    let (resign, resigned) = oneshot::channel();
    let backend = tokio::spawn(hold_leadership(
        election,
        balance,
        limits.timeout,
        clock,
        events.clone(),
        resigned,
    ));
    let mut control_loop = ControlLoop {
        clock,
        reconciler,
        actuators,
        limits,
        dry_run,
        simulated: BTreeMap::new(),
        work: JoinSet::new(),
        leading,
        handing_over: None,
    };
    tokio::pin!(stop);
    loop {
        let pause = control_loop.pause();
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(event) = inbox.recv() => control_loop.take(event),
            Some(ended) = control_loop.work.join_next() => control_loop.take(not_panicked(ended)),
            Some(ended) = tasks.join_next() => not_panicked(ended),
            Some(query) = queries.recv() => control_loop.answer(query),
            () = sleep(pause) => {}
        }
        // To act is to look at every target: once for all that has happened, not once for each.
        while let Ok(event) = inbox.try_recv() {
            control_loop.take(event);
        }
        while let Some(ended) = control_loop.work.try_join_next() {
            control_loop.take(not_panicked(ended));
        }
        control_loop.act();
    }
    tasks.abort_all();
    let ended = control_loop.end(leave, &mut inbox).await;
    // The task has ended where the backend does not answer; the term then ends by itself.
    let _ = resign.send(());
    let _ = timeout(limits.timeout, backend).await;
    tracing::info!(target: "retryguard::controller", ended = ?ended, "stopped");
    ended
}

/// What a task came to. A panic in one of them ends the controller: without that task a source would never be read again, or a
/// target never changed again, and nothing would say so. The next controller goes on from what the data plane holds.
pub(crate) fn not_panicked<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

struct ControlLoop {
    clock: Clock,
    reconciler: Reconciler,
    actuators: Vec<Arc<dyn Actuator>>,
    limits: Limits,
    dry_run: bool,
    /// What a dry run would have changed, which the data plane does not know of, and how it would have done that.
    simulated: BTreeMap<(usize, crate::domain::target::TargetName), (RetryState, String)>,
    work: JoinSet<Event>,
    /// Whether we led when we last looked; tasks that are idle without leadership wait on it.
    leading: watch::Sender<bool>,
    /// Waits until nothing is under way, because another controller leads from then on.
    handing_over: Option<oneshot::Sender<()>>,
}

impl ControlLoop {
    fn take(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Round(source, result) => {
                if let Err(error) = &result {
                    tracing::warn!(target: "retryguard::controller", source, error, "no data");
                }
                for (target, decision) in self.reconciler.round(source, result, now) {
                    tracing::info!(
                        target: "retryguard::controller",
                        service = %target,
                        from = decision.from.as_str(),
                        to = decision.to.as_str(),
                        reason = %decision.reason,
                        "decided"
                    );
                }
            }
            Event::Found(actuator_index, result) => {
                if let Err(error) = &result {
                    let actuator = self.actuators[actuator_index].name();
                    tracing::warn!(target: "retryguard::controller", actuator, error, "does not say what it holds");
                }
                let result = result.map(|found| self.as_simulated(actuator_index, found));
                self.reconciler.found(actuator_index, result, now);
            }
            Event::Done(planned, result) => {
                audit(
                    self.actuators[planned.actuator].name(),
                    &planned,
                    &result,
                    self.dry_run,
                );
                if self.dry_run && result.is_ok() {
                    let actuator = &self.actuators[planned.actuator];
                    let would = actuator.describe(&planned.change);
                    tracing::info!(target: "retryguard::audit", actuator = actuator.name(), would, "dry run");
                    let key = (planned.actuator, planned.change.target.clone());
                    self.simulated.insert(key, (planned.change.desired, would));
                }
                self.reconciler.done(&planned, result, now);
            }
            Event::Leadership(result, asked) => {
                if let Err(error) = &result {
                    tracing::warn!(target: "retryguard::controller", error, "no leadership");
                }
                self.reconciler.leadership(result, asked, now);
            }
            Event::Changed(actuator_index) => self.reconciler.data_plane_changed(actuator_index, now),
            Event::HandOver(to, idle) => {
                let leader = Some(to);
                self.reconciler
                    .leadership(Ok(Leadership::Follower { leader }), now, now);
                self.handing_over = Some(idle);
            }
        }
    }

    /// Whether a leadership that is to be handed over still waits for changes to end.
    fn waits_to_hand_over(&mut self) -> bool {
        if self.work.is_empty()
            && let Some(idle) = self.handing_over.take()
        {
            // The election has ended where the controller stops.
            let _ = idle.send(());
        }
        self.handing_over.is_some()
    }

    /// A dry run sees the data plane as it would be.
    fn as_simulated(&self, actuator_index: usize, mut found: Vec<Found>) -> Vec<Found> {
        for ((simulated, target), (desired, _)) in &self.simulated {
            if *simulated == actuator_index {
                found.retain(|found| found.target != *target);
                if *desired != RetryState::Original {
                    let held = crate::domain::state::Observed::Managed(*desired);
                    found.push(Found {
                        target: target.clone(),
                        held,
                    });
                }
            }
        }
        found
    }

    fn answer(&mut self, query: Query) {
        let now = self.clock.now();
        // The other end may have gone.
        match query {
            // Who asked has given up: a page of thousands of targets would be made for nothing.
            Query::Status(answer) if answer.is_closed() => {}
            Query::Metrics(answer) if answer.is_closed() => {}
            Query::Status(answer) => drop(answer.send(self.status(now))),
            Query::Metrics(answer) => drop(answer.send(self.reconciler.metrics(now))),
            Query::Ready(answer) => drop(answer.send(self.reconciler.ready())),
        }
    }

    fn status(&self, now: Instant) -> Value {
        let mut status = self.reconciler.status(now, unix_seconds());
        status["dryRun"] = self.dry_run.into();
        if self.dry_run {
            let would = self
                .simulated
                .iter()
                .map(|((actuator_index, target), (_, would))| {
                    json!({
                        "target": target.as_str(),
                        "actuator": self.actuators[*actuator_index].name(),
                        "would": would,
                    })
                });
            status["would"] = would.collect();
        }
        for (place, actuator) in self.actuators.iter().enumerate() {
            status["actuators"][place]["details"] = actuator.details();
        }
        status
    }

    /// Tells the actuators when the leadership is lost: a data plane that listens to us must find the next one.
    fn note_leadership(&mut self, now: Instant) {
        let leads = self.reconciler.leads(now);
        if self.leading.send_replace(leads) == leads {
            return;
        }
        tracing::info!(target: "retryguard::controller", leads, "leadership");
        if !leads {
            for actuator in &self.actuators {
                actuator.stand_down();
            }
        }
    }

    /// How long nothing needs to be done if nothing happens.
    fn pause(&self) -> Duration {
        let now = self.clock.now();
        let expiry = self.reconciler.next_expiry();
        expiry.map_or(TICK, |expiry| now.until(expiry).min(TICK))
    }

    /// Does what is to be done now.
    fn act(&mut self) {
        let now = self.clock.now();
        for target in self.reconciler.tick(now) {
            tracing::warn!(
                target: "retryguard::controller",
                service = %target,
                "no fresh data for as long as a decision holds: the user's configuration is restored"
            );
        }
        self.note_leadership(now);
        for actuator_index in self.reconciler.due_observations(now) {
            let actuator = Arc::clone(&self.actuators[actuator_index]);
            let limit = self.limits.timeout;
            self.work.spawn(async move {
                let found = match timeout(limit, actuator.find()).await {
                    Ok(found) => found.map_err(|error| error.to_string()),
                    Err(_) => Err("no answer in time".to_owned()),
                };
                Event::Found(actuator_index, found)
            });
        }
        let planned_changes = self.reconciler.planned_changes(now, AT_ONCE);
        self.start(planned_changes, now);
        self.waits_to_hand_over();
    }

    /// What is not done within the limit is given up. It counts from when the reconciler said that we lead for longer than that,
    /// so a change ends within the term in which it was decided.
    fn start(&mut self, planned_changes: Vec<PlannedChange>, decided: Instant) {
        for planned in planned_changes {
            let actuator = Arc::clone(&self.actuators[planned.actuator]);
            let (limit, dry_run, clock) = (self.limits.timeout, self.dry_run, self.clock);
            self.work.spawn(async move {
                if dry_run {
                    return Event::Done(planned, Ok(Vec::new()));
                }
                let change = actuator.apply(&planned.change);
                let result = match clock.until(decided.after(limit), change).await {
                    Some(result) => result,
                    None => Err(ActuatorError::Unreachable {
                        address: actuator.name().to_owned(),
                        reason: format!("no answer within {} s", limit.as_secs()),
                    }),
                };
                Event::Done(planned, result)
            });
        }
    }

    /// Restores everything, trying again what fails, for as long as a stop may take.
    async fn end(&mut self, leave: bool, inbox: &mut mpsc::Receiver<Event>) -> Ended {
        let started = self.clock.now();
        loop {
            let now = self.clock.now();
            let handing_over = self.waits_to_hand_over();
            if !handing_over && !self.reconciler.leads(now) {
                return Ended::Following;
            }
            let waiting = self.work.is_empty();
            if leave && waiting && !handing_over {
                return Ended::Left;
            }
            if !leave && !handing_over {
                if self.reconciler.clean() {
                    return Ended::Restored;
                }
                let planned_changes = self.reconciler.restore_all(now, AT_ONCE);
                self.start(planned_changes, now);
            }
            if now.since(started) >= STOP_WITHIN {
                tracing::error!(target: "retryguard::controller", "not everything could be restored in time");
                return Ended::Incomplete;
            }
            tokio::select! {
                Some(Ok(event)) = self.work.join_next() => self.take(event),
                // The leadership must be kept while the last changes are made.
                Some(event) = inbox.recv() => if matches!(event, Event::Leadership(..)) { self.take(event) },
                () = sleep(TICK) => {}
            }
        }
    }
}

/// One source, round after round; while another controller leads only where it would have to begin anew.
async fn poll_source(
    mut source: Box<dyn Source>,
    limit: Duration,
    mut leads: watch::Receiver<bool>,
    events: mpsc::Sender<Event>,
) {
    let mut ticks = tokio::time::interval(source.every());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !source.compares() && leads.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        let result = match timeout(limit, source.read()).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
        };
        if events.send(Event::Round(source.name(), result)).await.is_err() {
            return;
        }
    }
}

/// Notices when one data plane changes, for as long as we lead. However often that is, one event waits at most.
async fn watch_data_plane(
    actuator_index: usize,
    actuator: Arc<dyn Actuator>,
    mut leads: watch::Receiver<bool>,
    events: mpsc::Sender<Event>,
) {
    let changed_signal = Notify::new();
    let changed = || changed_signal.notify_one();
    let tell = async {
        loop {
            changed_signal.notified().await;
            if events.send(Event::Changed(actuator_index)).await.is_err() {
                return;
            }
        }
    };
    tokio::pin!(tell);
    while leads.wait_for(|leads| *leads).await.is_ok() {
        tokio::select! {
            () = actuator.notice(&changed) => return,
            () = &mut tell => return,
            _ = leads.wait_for(|leads| !*leads) => {}
        }
    }
}

/// Campaigns again and again, until it is instructed to resign.
async fn hold_leadership(
    mut election: Box<dyn LeaderElection>,
    balance: Option<ShardBalance>,
    limit: Duration,
    clock: Clock,
    events: mpsc::Sender<Event>,
    mut resign: oneshot::Receiver<()>,
) {
    loop {
        let asked = clock.now();
        election.ask(balance.as_ref().is_some_and(ShardBalance::asks));
        let result = match timeout(limit, election.campaign()).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!(
                "{} does not answer within {} s",
                election.name(),
                limit.as_secs()
            )),
        };
        let answer = result.as_ref().ok();
        let next = answer.and_then(|answer| balance.as_ref()?.answered(answer));
        if events.send(Event::Leadership(result, asked)).await.is_err() {
            // The loop ended without an error: nothing was restored, so the term is left to end by itself.
            return;
        }
        if let Some(to) = next {
            let (idle, wait) = oneshot::channel();
            // A loop that stops does not answer: it resigns as usual.
            if events.send(Event::HandOver(to.clone(), idle)).await.is_ok() && wait.await.is_ok() {
                hand_over(&mut *election, &to, limit).await;
            }
        }
        tokio::select! {
            _ = &mut resign => break,
            () = sleep(election.every()) => {}
        }
    }
    if let Ok(Err(error)) = timeout(limit, election.resign()).await {
        tracing::warn!(target: "retryguard::controller", %error, "the term ends by itself");
    }
}

/// Gives the leadership to a controller that leads fewer shards. Where that fails, the next campaign says who leads.
async fn hand_over(election: &mut dyn LeaderElection, to: &str, limit: Duration) {
    let error = match timeout(limit, election.hand_over(to)).await {
        Ok(Ok(())) => {
            tracing::info!(target: "retryguard::controller", to, "handed over to a controller that leads fewer shards");
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("{} does not answer within {} s", election.name(), limit.as_secs()),
    };
    tracing::warn!(target: "retryguard::controller", to, error, "not handed over");
}

/// One line for every change, with the numbers that caused it.
fn audit(actuator: &str, planned: &PlannedChange, result: &Result<Vec<Loss>, ActuatorError>, dry_run: bool) {
    let change = &planned.change;
    let (desired, share) = match change.desired {
        RetryState::Original => ("original", 1.0),
        RetryState::Off => ("off", 0.0),
        RetryState::Part { share, .. } => ("part", share.as_f64()),
    };
    let losses = result.as_ref().map_or_else(
        |_| String::new(),
        |losses| {
            losses
                .iter()
                .map(|loss| loss.0.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        },
    );
    let error = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    tracing::info!(
        target: "retryguard::audit",
        service = %change.target,
        actuator,
        desired,
        share,
        why = change.why,
        term = change.term,
        dry_run,
        made = result.is_ok() && !dry_run,
        losses,
        error,
        "change"
    );
}
