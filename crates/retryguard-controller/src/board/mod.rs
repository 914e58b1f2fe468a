//! All targets at once: what is known of each, what is wanted, and what the data planes hold.
//!
//! A pure machine like those of the core: everything that happens comes in with the time at which it happened,
//! and what is to be done comes out as orders. [`crate::run`] moves them between this and the world.

mod orders;
mod status;

use std::collections::{BTreeMap, HashMap};

use retryguard_core::{
    Instant,
    guard::{self, Decision},
};

use crate::{
    actuator::{Found, Held, Loss, Wish},
    cap::Cap,
    config::limits::Limits,
    lead::Standing,
    plan::Observed,
    source::Reading,
    target::TargetName,
    watch::{Taken, Watch},
};

pub use orders::Order;

/// A target, as the board needs it.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Its name.
    pub name: TargetName,
    /// The guards that it can have, in the order in which they are wanted.
    pub guards: Vec<guard::Settings>,
    /// The word of its source.
    pub source: &'static str,
    /// Its actuators, by their place in the list given to [`Board::new`].
    pub actuators: Vec<usize>,
}

/// The board.
#[derive(Debug)]
pub struct Board {
    limits: Limits,
    rows: Vec<Row>,
    index: HashMap<TargetName, usize>,
    hands: Vec<Hand>,
    feeds: BTreeMap<&'static str, Feed>,
    lead: Leading,
    in_all: Cap,
    started: Instant,
}

/// A target.
#[derive(Debug)]
struct Row {
    name: TargetName,
    source: &'static str,
    watch: Watch,
    ways: Vec<Way>,
    cap: Cap,
    decided: u64,
}

/// One actuator's hold on one target.
#[derive(Debug)]
struct Way {
    hand: usize,
    /// What the data plane holds, as far as we know.
    held: Option<Held>,
    /// A change failed, and whether it was made all the same is not known.
    unsure: bool,
    /// A change is under way.
    busy: bool,
    failures: u32,
    not_before: Instant,
    losses: Vec<Loss>,
    error: Option<String>,
}

/// An actuator.
#[derive(Debug)]
struct Hand {
    name: &'static str,
    /// A question is under way.
    asked: bool,
    next_question: Instant,
    /// When it last said what it holds.
    answered: Option<Instant>,
    /// It has changed since the question that is under way was put.
    stirred: bool,
    failures: u32,
    error: Option<String>,
    /// Targets of a former configuration that are still changed.
    strays: BTreeMap<TargetName, Way>,
    changes: u64,
    changes_failed: u64,
}

/// A source.
#[derive(Debug, Default)]
struct Feed {
    rounds: u64,
    rounds_failed: u64,
    refused: BTreeMap<&'static str, u64>,
    last_round: Option<Instant>,
    error: Option<String>,
}

/// Whether we may act.
#[derive(Debug, Default)]
struct Leading {
    term: Option<Term>,
    leader: Option<String>,
    error: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Term {
    number: u64,
    until: Instant,
}

impl Board {
    /// Knows nothing and leads nobody.
    #[must_use]
    pub fn new(watched: Vec<Watched>, actuators: &[&'static str], limits: Limits, now: Instant) -> Self {
        let rows: Vec<Row> = watched
            .into_iter()
            .map(|target| Row {
                name: target.name,
                source: target.source,
                watch: Watch::new(target.guards, now),
                ways: target
                    .actuators
                    .into_iter()
                    .map(|hand| Way::new(hand, now))
                    .collect(),
                cap: Cap::default(),
                decided: 0,
            })
            .collect();
        let index = rows
            .iter()
            .enumerate()
            .map(|(place, row)| (row.name.clone(), place))
            .collect();
        let hands = actuators.iter().map(|name| Hand::new(name, now)).collect();
        let feeds = rows.iter().map(|row| (row.source, Feed::default())).collect();
        Self {
            limits,
            rows,
            index,
            hands,
            feeds,
            lead: Leading::default(),
            in_all: Cap::default(),
            started: now,
        }
    }

    /// What a source said, or why it said nothing. Gives the decisions that came of it.
    pub fn round(
        &mut self,
        source: &'static str,
        result: Result<Vec<Reading>, String>,
        now: Instant,
    ) -> Vec<(TargetName, Decision)> {
        let feed = self.feeds.entry(source).or_default();
        feed.rounds += 1;
        let readings = match result {
            Ok(readings) => {
                feed.error = None;
                feed.last_round = Some(now);
                readings
            }
            Err(error) => {
                feed.rounds_failed += 1;
                feed.error = Some(error);
                return Vec::new();
            }
        };
        if self.lead.term.is_none() {
            return Vec::new();
        }
        let mut decisions = Vec::new();
        for reading in readings {
            let Some(row) = self
                .index
                .get(&reading.target)
                .map(|place| &mut self.rows[*place])
            else {
                continue;
            };
            if row.source != source {
                continue;
            }
            match row.watch.read(&reading, &self.limits, now) {
                Taken::Noted => {}
                Taken::Decided(decision) => {
                    row.decided += 1;
                    decisions.push((reading.target, decision));
                }
                Taken::Refused(why) => *feed.refused.entry(why.as_str()).or_default() += 1,
            }
        }
        decisions
    }

    /// Time passes. Gives the targets whose last decision has held for as long as it may without data.
    pub fn tick(&mut self, now: Instant) -> Vec<TargetName> {
        if self.lead.term.is_some_and(|term| term.until <= now) {
            self.step_down(now);
        }
        let mut expired = Vec::new();
        for row in &mut self.rows {
            if row.watch.tick(&self.limits, now) {
                expired.push(row.name.clone());
            }
        }
        expired
    }

    /// What the judge said; `asked` is when the question was put.
    pub fn standing(&mut self, result: Result<Standing, String>, asked: Instant, now: Instant) {
        match result {
            // The term that we have goes on until its end, and no longer.
            Err(error) => self.lead.error = Some(error),
            Ok(Standing::Following { leader }) => {
                self.lead.error = None;
                self.step_down(now);
                self.lead.leader = leader;
            }
            Ok(Standing::Leading { term, lasts }) => {
                self.lead.error = None;
                self.lead.leader = None;
                let same = self.lead.term.is_some_and(|before| before.number == term);
                if !same {
                    self.step_down(now);
                }
                let until = asked.after(lasts);
                self.lead.term = (until > now).then_some(Term { number: term, until });
            }
        }
    }

    /// Another one leads, or nobody: what we know grows old from here on.
    fn step_down(&mut self, now: Instant) {
        if self.lead.term.take().is_none() {
            return;
        }
        for row in &mut self.rows {
            row.watch.forget(now);
            for way in &mut row.ways {
                *way = Way::new(way.hand, now);
            }
        }
        for hand in &mut self.hands {
            hand.strays.clear();
            hand.next_question = now;
        }
    }

    /// Whether we lead, so that a change which begins now is certain to end within the term.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.lead
            .term
            .is_some_and(|term| now.until(term.until) > self.limits.timeout)
    }

    /// Whether this controller follows another, or leads and has asked every source once.
    #[must_use]
    pub fn ready(&self) -> bool {
        let asked = self.feeds.values().all(|feed| feed.rounds > 0);
        self.lead.leader.is_some() || (self.lead.term.is_some() && asked)
    }

    /// The actuators that are to be asked what they hold; each counts as asked from here on.
    pub fn questions(&mut self, now: Instant) -> Vec<usize> {
        if !self.leads(now) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (place, hand) in self.hands.iter_mut().enumerate() {
            if !hand.asked && hand.next_question <= now {
                hand.asked = true;
                hand.stirred = false;
                due.push(place);
            }
        }
        due
    }

    /// An actuator's data plane may hold something else than it did: it is asked at once, though not again and again while
    /// somebody changes it all the time, and not before the pause after a failure is over.
    pub fn stirred(&mut self, hand: usize, now: Instant) {
        let hand = &mut self.hands[hand];
        // What is under way may be answered from before the change.
        hand.stirred = true;
        if hand.failures == 0 {
            let soonest = hand
                .answered
                .map_or(now, |answered| answered.after(orders::NOT_SOONER));
            hand.next_question = hand.next_question.min(soonest.max(now));
        }
    }

    /// What an actuator's data plane holds, or why it does not say.
    pub fn found(&mut self, hand: usize, result: Result<Vec<Found>, String>, now: Instant) {
        self.hands[hand].asked = false;
        let found = match result {
            Ok(found) => found,
            Err(error) => {
                let hand = &mut self.hands[hand];
                hand.failures = hand.failures.saturating_add(1);
                hand.error = Some(error);
                hand.next_question = now.after(orders::pause(hand.failures));
                return;
            }
        };
        self.hands[hand].failures = 0;
        self.hands[hand].error = None;
        self.hands[hand].answered = Some(now);
        let next = if self.hands[hand].stirred {
            orders::NOT_SOONER
        } else {
            self.limits.resync
        };
        self.hands[hand].next_question = now.after(next.min(self.limits.resync));
        if self.lead.term.is_none() {
            return;
        }
        let mut found: HashMap<TargetName, Held> = found
            .into_iter()
            .map(|found| (found.target, found.held))
            .collect();
        for row in &mut self.rows {
            let Some(way) = row.ways.iter_mut().find(|way| way.hand == hand) else {
                continue;
            };
            let held = found.remove(&row.name);
            // The answer may be older than the change that is under way.
            if way.busy {
                continue;
            }
            let first = way.held.is_none();
            way.unsure = false;
            way.held = Some(match (held, &way.held) {
                (Some(held), _) => held,
                (None, Some(theirs @ Held::Theirs(_))) => theirs.clone(),
                (None, _) => Held::Ours(Wish::Original),
            });
            if let (true, Some(Held::Ours(wish))) = (first, &way.held) {
                row.watch.adopt(*wish, now);
            }
        }
        self.strays(hand, found, now);
    }

    /// What is left belongs to no target of this configuration.
    fn strays(&mut self, hand: usize, found: HashMap<TargetName, Held>, now: Instant) {
        let strays = &mut self.hands[hand].strays;
        strays.retain(|name, way| way.busy || found.contains_key(name));
        for (name, held) in found {
            let way = strays.entry(name).or_insert_with(|| Way::new(hand, now));
            if !way.busy {
                way.held = Some(held);
                way.unsure = false;
            }
        }
    }
}

impl Way {
    /// What the plan may take for true.
    fn observed(&self) -> Observed<'_> {
        match &self.held {
            _ if self.unsure => Observed::Unsure,
            None => Observed::Unknown,
            Some(held) => Observed::Known(held),
        }
    }

    /// Whether nothing of ours can be there. A data plane that has not said what it holds may hold what a controller
    /// before this one left there when it was killed.
    fn clean(&self) -> bool {
        matches!(self.observed(), Observed::Known(Held::Ours(Wish::Original)))
    }

    fn new(hand: usize, now: Instant) -> Self {
        Self {
            hand,
            held: None,
            unsure: false,
            busy: false,
            failures: 0,
            not_before: now,
            losses: Vec::new(),
            error: None,
        }
    }
}

impl Hand {
    fn new(name: &'static str, now: Instant) -> Self {
        Self {
            name,
            asked: false,
            next_question: now,
            answered: None,
            stirred: false,
            failures: 0,
            error: None,
            strays: BTreeMap::new(),
            changes: 0,
            changes_failed: 0,
        }
    }
}
