//! From what is wanted to what is done.

use std::time::Duration;

use retryguard_core::Instant;

use super::{Board, Way};
use crate::{
    actuator::{ActuatorError, Change, Held, Loss, Wish},
    plan::plan,
    target::TargetName,
};

/// A change, and who is to make it.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The actuator, by its place.
    pub hand: usize,
    /// What it shall do.
    pub change: Change,
}

/// Where a change belongs.
#[derive(Debug, Clone)]
enum Place {
    Row { row: usize, way: usize },
    Stray { hand: usize, name: TargetName },
}

/// The pause after so many failures in a row: doubling from a second to a minute. Without jitter, for there is
/// one leader and nobody to be in step with.
pub(super) fn pause(failures: u32) -> Duration {
    Duration::from_secs(1_u64 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

/// The shortest time between two questions to a data plane that says that it changes. Each question may be a list of
/// thousands of objects.
pub(super) const NOT_SOONER: Duration = Duration::from_secs(2);

impl Board {
    /// What is to be done now, within the caps and no more than `room`; each counts as under way from here on.
    pub fn orders(&mut self, now: Instant, room: usize) -> Vec<Order> {
        if !self.leads(now) {
            return Vec::new();
        }
        let mut orders = Vec::new();
        for (place, wish) in self.needed(now) {
            let full = orders.len() >= room;
            if full || !self.in_all.allows(self.limits.changes_per_minute_in_all, now) {
                break;
            }
            if let Place::Row { row, .. } = place {
                let cap = &mut self.rows[row].cap;
                if !cap.allows(self.limits.changes_per_minute, now) {
                    continue;
                }
                cap.note(now);
            }
            self.in_all.note(now);
            orders.push(self.order(&place, wish, None));
        }
        orders
    }

    /// Everything back to what the user configured, whatever the caps say: for a polite stop.
    pub fn farewell(&mut self, now: Instant, room: usize) -> Vec<Order> {
        if !self.leads(now) {
            return Vec::new();
        }
        let mut orders = Vec::new();
        for place in self.places() {
            let way = self.way(&place);
            if !way.clean() && !way.busy && way.not_before <= now && orders.len() < room {
                orders.push(self.order(&place, Wish::Original, Some("the controller stops")));
            }
        }
        orders
    }

    /// Whether anything of ours is still in a data plane, or may be.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.places().iter().all(|place| {
            let way = self.way(place);
            !way.busy && way.clean()
        })
    }

    /// What became of an order. Gives the actuator's losses where it was made.
    pub fn done(&mut self, order: &Order, result: Result<Vec<Loss>, ActuatorError>, now: Instant) {
        let hand = &mut self.hands[order.hand];
        hand.changes += 1;
        hand.changes_failed += u64::from(result.is_err());
        if result.is_err() {
            // Whether it was made is not known: ask.
            hand.next_question = hand.next_question.min(now.after(pause(1)));
        }
        let Some(way) = self.way_of(order) else {
            return;
        };
        way.busy = false;
        match result {
            Ok(losses) => {
                way.held = Some(Held::Ours(order.change.wish));
                way.unsure = false;
                way.losses = losses;
                way.failures = 0;
                way.error = None;
            }
            Err(error) => {
                way.failures = way.failures.saturating_add(1);
                way.not_before = now.after(pause(way.failures));
                way.error = Some(error.to_string());
                if matches!(error, ActuatorError::Conflict { .. }) {
                    way.held = Some(Held::Theirs(error.to_string()));
                } else {
                    way.unsure = true;
                }
            }
        }
        let gone = order.change.wish == Wish::Original;
        if gone && !self.index.contains_key(&order.change.target) {
            let strays = &mut self.hands[order.hand].strays;
            if strays
                .get(&order.change.target)
                .is_some_and(|way| way.error.is_none())
            {
                strays.remove(&order.change.target);
            }
        }
    }

    fn needed(&self, now: Instant) -> Vec<(Place, Wish)> {
        let free = |way: &Way| !way.busy && way.not_before <= now;
        let rows = self.rows.iter().enumerate().flat_map(|(row, watched)| {
            let wish = watched.watch.wish();
            let ways = watched.ways.iter().enumerate().filter(move |(_, way)| free(way));
            ways.map(move |(way, held)| (Place::Row { row, way }, wish, held.observed()))
        });
        let strays = self.hands.iter().enumerate().flat_map(|(hand, held)| {
            let strays = held.strays.iter().filter(move |(_, way)| free(way));
            strays.map(move |(name, way)| {
                let name = name.clone();
                (Place::Stray { hand, name }, Wish::Original, way.observed())
            })
        });
        plan(rows.chain(strays))
    }

    fn order(&mut self, place: &Place, wish: Wish, why: Option<&str>) -> Order {
        let term = self.lead.term.map_or(0, |term| term.number);
        let (hand, target, reason) = match place {
            Place::Row { row, way } => {
                let row = &self.rows[*row];
                (row.ways[*way].hand, row.name.clone(), row.watch.why())
            }
            Place::Stray { hand, name } => (*hand, name.clone(), "no target of this configuration"),
        };
        let why = why.unwrap_or(reason).to_owned();
        let way = match place {
            Place::Row { row, way } => Some(&mut self.rows[*row].ways[*way]),
            Place::Stray { hand, name } => self.hands[*hand].strays.get_mut(name),
        };
        if let Some(way) = way {
            way.busy = true;
        }
        Order {
            hand,
            change: Change {
                target,
                wish,
                why,
                term,
            },
        }
    }

    fn places(&self) -> Vec<Place> {
        let rows = self.rows.iter().enumerate();
        let rows =
            rows.flat_map(|(row, watched)| (0..watched.ways.len()).map(move |way| Place::Row { row, way }));
        let hands = self.hands.iter().enumerate();
        let strays = hands.flat_map(|(hand, held)| {
            let names = held.strays.keys().cloned();
            names.map(move |name| Place::Stray { hand, name })
        });
        rows.chain(strays).collect()
    }

    fn way(&self, place: &Place) -> &Way {
        match place {
            Place::Row { row, way } => &self.rows[*row].ways[*way],
            Place::Stray { hand, name } => &self.hands[*hand].strays[name],
        }
    }

    fn way_of(&mut self, order: &Order) -> Option<&mut Way> {
        if let Some(row) = self.index.get(&order.change.target) {
            let ways = &mut self.rows[*row].ways;
            return ways.iter_mut().find(|way| way.hand == order.hand);
        }
        self.hands[order.hand].strays.get_mut(&order.change.target)
    }
}
