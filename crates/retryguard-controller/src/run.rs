//! Moves what the board wants into the world, and what the world says onto the board.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use retryguard_core::Instant;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    actuator::{Actuator, ActuatorError, Found, Loss, Wish},
    board::{Board, Order, Watched},
    clock::{Clock, sleep, unix_seconds},
    config::limits::Limits,
    lead::{Lead, Standing},
    source::{Reading, Source},
};

/// What a controller is made of.
pub struct Parts {
    /// The targets.
    pub watched: Vec<Watched>,
    /// The sources.
    pub sources: Vec<Box<dyn Source>>,
    /// The actuators, in the order that the targets count them.
    pub actuators: Vec<Arc<dyn Actuator>>,
    /// Who decides whether we act.
    pub lead: Box<dyn Lead>,
    /// How long things hold, and how often they may change.
    pub limits: Limits,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
    /// Leaves the data plane as it is when stopped, for whoever takes over.
    pub leave: bool,
}

/// How long a polite stop may take to restore everything. Kubernetes kills after 30 s.
pub const STOP_WITHIN: Duration = Duration::from_secs(20);

/// How often time is looked at when nothing happens.
const TICK: Duration = Duration::from_millis(250);

/// The most changes and questions that are under way at once.
const AT_ONCE: usize = 64;

/// What is asked of a running controller.
#[derive(Debug)]
pub enum Ask {
    /// The status.
    Status(oneshot::Sender<Value>),
    /// The metrics.
    Metrics(oneshot::Sender<String>),
    /// Whether it has heard from its judge and its sources: ready to act, or to follow.
    Ready(oneshot::Sender<bool>),
}

/// A way to ask a running controller. What is answered is answered by the loop itself, so a loop that hangs does
/// not look well.
pub type Asking = mpsc::Sender<Ask>;

/// How many questions may wait.
pub const QUESTIONS: usize = 64;

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
    Done(Order, Result<Vec<Loss>, ActuatorError>),
    Standing(Result<Standing, String>, Instant),
    Stirred(usize),
}

/// Runs until `stop`, then restores what it changed.
pub async fn run(parts: Parts, mut asks: mpsc::Receiver<Ask>, stop: impl Future<Output = ()>) -> Ended {
    let clock = Clock::start();
    let Parts {
        watched,
        sources,
        actuators,
        lead,
        limits,
        dry_run,
        leave,
    } = parts;
    let names: Vec<&'static str> = actuators.iter().map(|actuator| actuator.name()).collect();
    let board = Board::new(watched, &names, limits, clock.now());
    let (events, mut inbox) = mpsc::channel(AT_ONCE);
    let mut tasks = JoinSet::new();
    let (acting, acts) = watch::channel(false);
    for source in sources {
        tasks.spawn(follow(source, limits.timeout, acts.clone(), events.clone()));
    }
    for (hand, actuator) in actuators.iter().enumerate() {
        let actuator = Arc::clone(actuator);
        tasks.spawn(heed(hand, actuator, acts.clone(), events.clone()));
    }
    let (resign, resigned) = oneshot::channel();
    let judge = tokio::spawn(ask_judge(lead, limits.timeout, clock, events.clone(), resigned));
    let mut driver = Driver {
        clock,
        board,
        actuators,
        limits,
        dry_run,
        pretended: BTreeMap::new(),
        work: JoinSet::new(),
        acting,
    };
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(event) = inbox.recv() => driver.take(event),
            Some(Ok(event)) = driver.work.join_next() => driver.take(event),
            Some(ask) = asks.recv() => driver.answer(ask),
            _ = ticks.tick() => {}
        }
        // To act is to look at every target: once for all that has happened, not once for each.
        while let Ok(event) = inbox.try_recv() {
            driver.take(event);
        }
        while let Some(Ok(event)) = driver.work.try_join_next() {
            driver.take(event);
        }
        driver.act();
    }
    tasks.abort_all();
    let ended = driver.end(leave, &mut inbox).await;
    // Nobody waits on the other side where the judge does not answer; its term then ends by itself.
    let _ = resign.send(());
    let _ = timeout(limits.timeout, judge).await;
    tracing::info!(target: "retryguard::controller", ended = ?ended, "stopped");
    ended
}

struct Driver {
    clock: Clock,
    board: Board,
    actuators: Vec<Arc<dyn Actuator>>,
    limits: Limits,
    dry_run: bool,
    /// What a dry run has pretended to change, which the data plane does not know of, and how it would have done that.
    pretended: BTreeMap<(usize, crate::target::TargetName), (Wish, String)>,
    work: JoinSet<Event>,
    /// Whether we led when we last looked, for whoever need not work while we do not.
    acting: watch::Sender<bool>,
}

impl Driver {
    fn take(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Round(source, result) => {
                if let Err(error) = &result {
                    tracing::warn!(target: "retryguard::controller", source, error, "no data");
                }
                for (target, decision) in self.board.round(source, result, now) {
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
            Event::Found(hand, result) => {
                if let Err(error) = &result {
                    let actuator = self.actuators[hand].name();
                    tracing::warn!(target: "retryguard::controller", actuator, error, "does not say what it holds");
                }
                let result = result.map(|found| self.pretend(hand, found));
                self.board.found(hand, result, now);
            }
            Event::Done(order, result) => {
                audit(self.actuators[order.hand].name(), &order, &result, self.dry_run);
                if self.dry_run && result.is_ok() {
                    let actuator = &self.actuators[order.hand];
                    let would = actuator.describe(&order.change);
                    tracing::info!(target: "retryguard::audit", actuator = actuator.name(), would, "dry run");
                    let key = (order.hand, order.change.target.clone());
                    self.pretended.insert(key, (order.change.wish, would));
                }
                self.board.done(&order, result, now);
            }
            Event::Standing(result, asked) => {
                if let Err(error) = &result {
                    tracing::warn!(target: "retryguard::controller", error, "no verdict");
                }
                self.board.standing(result, asked, now);
            }
            Event::Stirred(hand) => self.board.stirred(hand, now),
        }
    }

    /// A dry run sees the data plane as it would be.
    fn pretend(&self, hand: usize, mut found: Vec<Found>) -> Vec<Found> {
        for ((pretended, target), (wish, _)) in &self.pretended {
            if *pretended == hand {
                found.retain(|found| found.target != *target);
                if *wish != Wish::Original {
                    let held = crate::actuator::Held::Ours(*wish);
                    found.push(Found {
                        target: target.clone(),
                        held,
                    });
                }
            }
        }
        found
    }

    fn answer(&mut self, ask: Ask) {
        let now = self.clock.now();
        // Whoever asked may have gone.
        match ask {
            Ask::Status(answer) => drop(answer.send(self.status(now))),
            Ask::Metrics(answer) => drop(answer.send(self.board.metrics(now))),
            Ask::Ready(answer) => drop(answer.send(self.board.ready())),
        }
    }

    fn status(&self, now: Instant) -> Value {
        let mut status = self.board.status(now, unix_seconds());
        status["dryRun"] = self.dry_run.into();
        if self.dry_run {
            let would = self.pretended.iter().map(|((hand, target), (_, would))| {
                json!({
                    "target": target.as_str(),
                    "actuator": self.actuators[*hand].name(),
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

    /// Tells the actuators when the lead is lost: a data plane that listens to us must find the next one.
    fn notice_lead(&mut self, now: Instant) {
        let leads = self.board.leads(now);
        if self.acting.send_replace(leads) == leads {
            return;
        }
        tracing::info!(target: "retryguard::controller", leads, "lead");
        if !leads {
            for actuator in &self.actuators {
                actuator.stand_down();
            }
        }
    }

    /// Does what is to be done now.
    fn act(&mut self) {
        let now = self.clock.now();
        for target in self.board.tick(now) {
            tracing::warn!(
                target: "retryguard::controller",
                service = %target,
                "no fresh data for as long as a decision holds: the user's configuration is restored"
            );
        }
        self.notice_lead(now);
        for hand in self.board.questions(now) {
            let actuator = Arc::clone(&self.actuators[hand]);
            let limit = self.limits.timeout;
            self.work.spawn(async move {
                let found = match timeout(limit, actuator.find()).await {
                    Ok(found) => found.map_err(|error| error.to_string()),
                    Err(_) => Err("no answer in time".to_owned()),
                };
                Event::Found(hand, found)
            });
        }
        if self.work.len() < AT_ONCE {
            let orders = self.board.orders(now, AT_ONCE - self.work.len());
            self.start(orders, now);
        }
    }

    /// What is not done within the limit is given up. It counts from when the board said that we lead for longer than that,
    /// so a change ends within the term in which it was decided.
    fn start(&mut self, orders: Vec<Order>, decided: Instant) {
        for order in orders {
            let actuator = Arc::clone(&self.actuators[order.hand]);
            let (limit, dry_run, clock) = (self.limits.timeout, self.dry_run, self.clock);
            self.work.spawn(async move {
                if dry_run {
                    return Event::Done(order, Ok(Vec::new()));
                }
                let change = actuator.apply(&order.change);
                let result = match clock.until(decided.after(limit), change).await {
                    Some(result) => result,
                    None => Err(ActuatorError::Unreachable {
                        address: actuator.name().to_owned(),
                        reason: format!("no answer within {} s", limit.as_secs()),
                    }),
                };
                Event::Done(order, result)
            });
        }
    }

    /// Restores everything, trying again what fails, for as long as a stop may take.
    async fn end(&mut self, leave: bool, inbox: &mut mpsc::Receiver<Event>) -> Ended {
        let started = self.clock.now();
        loop {
            let now = self.clock.now();
            if !self.board.leads(now) {
                return Ended::Following;
            }
            let waiting = self.work.is_empty();
            if leave && waiting {
                return Ended::Left;
            }
            if !leave {
                if self.board.clean() {
                    return Ended::Restored;
                }
                let room = AT_ONCE.saturating_sub(self.work.len());
                let orders = self.board.farewell(now, room);
                self.start(orders, now);
            }
            if now.since(started) >= STOP_WITHIN {
                tracing::error!(target: "retryguard::controller", "not everything could be restored in time");
                return Ended::Incomplete;
            }
            tokio::select! {
                Some(Ok(event)) = self.work.join_next() => self.take(event),
                // The lead must go on being kept while the last changes are made.
                Some(event) = inbox.recv() => if matches!(event, Event::Standing(..)) { self.take(event) },
                () = sleep(TICK) => {}
            }
        }
    }
}

/// One source, round after round; while another controller leads only where it would have to begin anew.
async fn follow(
    mut source: Box<dyn Source>,
    limit: Duration,
    mut acts: watch::Receiver<bool>,
    events: mpsc::Sender<Event>,
) {
    let mut ticks = tokio::time::interval(source.every());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !source.compares() && acts.wait_for(|acts| *acts).await.is_err() {
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

/// Hears when one data plane changes, for as long as we lead. However often that is, one event waits at most.
async fn heed(
    hand: usize,
    actuator: Arc<dyn Actuator>,
    mut acts: watch::Receiver<bool>,
    events: mpsc::Sender<Event>,
) {
    let stirred = Notify::new();
    let changed = || stirred.notify_one();
    let tell = async {
        loop {
            stirred.notified().await;
            if events.send(Event::Stirred(hand)).await.is_err() {
                return;
            }
        }
    };
    tokio::pin!(tell);
    while acts.wait_for(|acts| *acts).await.is_ok() {
        tokio::select! {
            () = actuator.notice(&changed) => return,
            () = &mut tell => return,
            _ = acts.wait_for(|acts| !*acts) => {}
        }
    }
}

/// The judge, again and again, until it is told to resign.
async fn ask_judge(
    mut lead: Box<dyn Lead>,
    limit: Duration,
    clock: Clock,
    events: mpsc::Sender<Event>,
    mut resign: oneshot::Receiver<()>,
) {
    loop {
        let asked = clock.now();
        let result = match timeout(limit, lead.ask()).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!(
                "{} does not answer within {} s",
                lead.name(),
                limit.as_secs()
            )),
        };
        if events.send(Event::Standing(result, asked)).await.is_err() {
            // The loop is gone without a word: nothing was restored, so the term is left to end by itself.
            return;
        }
        tokio::select! {
            _ = &mut resign => break,
            () = sleep(lead.every()) => {}
        }
    }
    if let Ok(Err(error)) = timeout(limit, lead.resign()).await {
        tracing::warn!(target: "retryguard::controller", %error, "the term ends by itself");
    }
}

/// One line for every change, with the numbers that caused it.
fn audit(actuator: &str, order: &Order, result: &Result<Vec<Loss>, ActuatorError>, dry_run: bool) {
    let change = &order.change;
    let (wish, share) = match change.wish {
        Wish::Original => ("original", 1.0),
        Wish::Off => ("off", 0.0),
        Wish::Part { share, .. } => ("part", share.as_f64()),
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
        wish,
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
