//! Calls from outside.

use std::{collections::HashMap, time::Duration};

use retryguard_core::Instant;

use super::{Engine, Event, Parent, calls::Origin, descend, nanos};
use crate::{
    streams::{Purpose, Seed, Stream},
    world::{Arrivals, Profile, World},
};

/// What a group of clients knows.
#[derive(Debug)]
pub(super) struct State {
    arrivals: CallArrivals,
    bound: Bound,
    begun: u64,
    /// Users that have ever been there, and which of them are there now.
    users: Vec<User>,
    present: usize,
    /// Of each user, whether a call or a thought is under way.
    busy: Vec<bool>,
    /// Of users who will send a request again, as an impatient person does: that request.
    replays: HashMap<u32, u64>,
}

/// The largest rate until the next stage, the mean time between two calls at that, and when the stage is: asked once a
/// stage and not once a call.
#[derive(Debug, Clone, Copy)]
struct Bound {
    most: f64,
    gap: f64,
    ends: Instant,
}

/// What decides when the next call begins.
#[derive(Debug)]
struct CallArrivals {
    chance: Stream,
    /// The next time between two calls, as a share of its mean, where it is known already: it is drawn ahead if nothing
    /// else is drawn in between, so that no event waits for a logarithm before it is known what happens next.
    ahead: Option<f64>,
}

impl Bound {
    /// Not asked yet.
    const NONE: Self = Self {
        most: 0.0,
        gap: f64::INFINITY,
        ends: Instant::ZERO,
    };
}

/// What every call of a user needs, and nothing else: a million users are met in any order, each by a miss of the cache.
#[derive(Debug)]
struct User {
    chance: Stream,
    calls: u64,
}

pub(super) fn states(world: &World, seed: Seed) -> Vec<State> {
    (0..world.clients.len() as u64)
        .map(|client| State {
            arrivals: CallArrivals {
                chance: seed.stream(client, Purpose::Arrival),
                ahead: None,
            },
            bound: Bound::NONE,
            begun: 0,
            users: Vec::new(),
            present: 0,
            busy: Vec::new(),
            replays: HashMap::new(),
        })
        .collect()
}

impl Engine<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a world has few groups of clients"
    )]
    pub(super) fn begin_clients(&mut self) {
        for client in 0..self.world.clients.len() {
            match &self.world.clients[client].arrivals {
                Arrivals::Open { .. } => self.schedule_arrival(client),
                Arrivals::Closed { .. } => self.queue.push(Instant::ZERO, Event::Stage(client as u32)),
            }
        }
    }

    /// The number of users has changed, or may have: missing users come, those beyond the number leave after
    /// the call that they are making.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of users is small and not negative"
    )]
    pub(super) fn stage(&mut self, client: u32) {
        /// Between the stages of a ramp users come one by one; a tenth of a second is fine enough.
        const LOOK: Duration = Duration::from_millis(100);
        let group = &self.world.clients[client as usize];
        let Arrivals::Closed {
            users: profile,
            think,
        } = &group.arrivals
        else {
            return;
        };
        let wanted = profile.at(self.now).round() as usize;
        let state = &mut self.callers[client as usize];
        while state.users.len() < wanted {
            let entity = u64::from(client) << 40 | state.users.len() as u64;
            state.users.push(User {
                chance: self.seed.stream(entity, Purpose::Think),
                calls: 0,
            });
        }
        state.busy.resize(state.users.len(), false);
        state.present = wanted;
        for (index, (user, busy)) in state
            .users
            .iter_mut()
            .zip(&mut state.busy)
            .enumerate()
            .take(wanted)
        {
            if !std::mem::replace(busy, true) {
                // People do not all press the button at the moment at which they come.
                let thought = think.draw(&mut user.chance).mul_f64(user.chance.uniform());
                self.queue.push(
                    self.now.after(thought),
                    Event::User {
                        client,
                        user: index as u32,
                    },
                );
            }
        }
        let ramps = profile.at(self.now.after(LOOK)).round() as usize != wanted;
        let next = if ramps {
            Some(self.now.after(LOOK))
        } else {
            profile.next_stage(self.now)
        };
        if let Some(next) = next.filter(|next| next.as_nanos() < nanos(self.world.duration)) {
            self.queue.push(next, Event::Stage(client));
        }
    }

    /// A user has thought enough.
    pub(super) fn user(&mut self, client: u32, user: u32) {
        let over = self.now.as_nanos() >= nanos(self.world.duration) || self.record.ended_early;
        let state = &mut self.callers[client as usize];
        let present = (user as usize) < state.present;
        if over || !present {
            state.busy[user as usize] = false;
            return;
        }
        let entry = &mut state.users[user as usize];
        let number = entry.calls;
        entry.calls += 1;
        let replay = if state.replays.is_empty() {
            None
        } else {
            state.replays.remove(&user)
        };
        let fresh = descend(descend(u64::from(client), u64::from(user)), number);
        if replay.is_none()
            && entry
                .chance
                .with_probability(self.world.clients[client as usize].replays)
        {
            state.replays.insert(user, fresh);
        }
        self.begin_call(client, user, user, replay.unwrap_or(fresh), fresh);
    }

    /// The user has an answer: thinks, and comes again.
    pub(super) fn user_answered(&mut self, client: u32, user: u32) {
        let Arrivals::Closed { think, .. } = &self.world.clients[client as usize].arrivals else {
            return;
        };
        let entry = &mut self.callers[client as usize].users[user as usize];
        let thought = think.draw_nanos(&mut entry.chance);
        let next = Instant::from_nanos(self.now.as_nanos().saturating_add(thought));
        self.queue.push(next, Event::User { client, user });
    }

    /// An open-loop call begins.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number of clients has 32 bits"
    )]
    pub(super) fn arrival(&mut self, client: u32) {
        self.schedule_arrival(client as usize);
        let group = &self.world.clients[client as usize];
        let state = &mut self.callers[client as usize];
        let number = state.begun;
        state.begun += 1;
        let peer = if group.clients > 1 {
            (number % u64::from(group.clients)) as u32
        } else {
            0
        };
        let fresh = descend(u64::from(client) << 32, number);
        self.begin_call(client, 0, peer, fresh, fresh);
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a world has few groups of clients"
    )]
    fn schedule_arrival(&mut self, client: usize) {
        let Arrivals::Open { rate, random } = &self.world.clients[client].arrivals else {
            return;
        };
        let State { arrivals, bound, .. } = &mut self.callers[client];
        let next = next_arrival(rate, *random, self.now, bound, arrivals);
        if next < self.ends && !self.record.ended_early {
            self.queue.push(next, Event::Arrival(client as u32));
        }
        if *random && rate.is_constant() && bound.ends == Instant::NEVER {
            arrivals.ahead = Some(arrivals.chance.exponential(1.0));
        }
    }

    fn begin_call(&mut self, client: u32, user: u32, peer: u32, key: u64, lineage: u64) {
        let group = &self.world.clients[client as usize];
        let counted = self.record.on_call(self.now);
        let deadline = group.deadline.map_or(Instant::NEVER, |span| self.now.after(span));
        self.start_call(Origin {
            edge: group.edge,
            peer,
            parent: Parent::Client { client, user },
            key,
            lineage,
            deadline,
            criticality: group.criticality,
            counted,
            original: true,
            idempotent: group.idempotent,
            pool: None,
        });
    }
}

/// So many seconds later, and never at the same time.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
fn later(than: Instant, seconds: f64) -> Instant {
    Instant::from_nanos(than.as_nanos().saturating_add(((seconds * 1e9) as u64).max(1)))
}

/// When the next call begins, under a rate that changes: drawn at the largest rate until the next stage and
/// thinned to the true one.
fn next_arrival(
    rate: &Profile,
    random: bool,
    now: Instant,
    bound: &mut Bound,
    CallArrivals { chance, ahead }: &mut CallArrivals,
) -> Instant {
    // A rate that never changes has a bound that never ends, and nothing to be thinned.
    if let Some(unit) = ahead.take() {
        return later(now, bound.gap * unit);
    }
    let mut at = now;
    loop {
        if at >= bound.ends {
            let (most, ends) = rate.bound(at);
            *bound = Bound {
                most,
                gap: 1.0 / most,
                ends,
            };
        }
        let Bound { most, gap, ends } = *bound;
        if most <= 0.0 {
            if ends == Instant::NEVER {
                return Instant::NEVER;
            }
            at = ends;
            continue;
        }
        let gap = if random { chance.exponential(gap) } else { gap };
        let next = later(at, gap);
        if next > ends {
            at = ends;
            continue;
        }
        at = next;
        let level = if rate.is_constant() { most } else { rate.at(at) };
        if level >= most || chance.with_probability(level / most) {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals() -> CallArrivals {
        CallArrivals {
            chance: Seed(1).stream(0, Purpose::Arrival),
            ahead: None,
        }
    }

    #[test]
    fn arrivals_follow_their_rate() {
        let rate = Profile::constant(50.0)
            .then(Instant::from_secs(100), 200.0, Duration::ZERO)
            .then(Instant::from_secs(200), 0.0, Duration::from_secs(100));
        let mut chance = arrivals();
        let (mut at, mut counts) = (Instant::ZERO, [0_u32; 4]);
        let mut bound = Bound::NONE;
        loop {
            at = next_arrival(&rate, true, at, &mut bound, &mut chance);
            if at >= Instant::from_secs(400) {
                break;
            }
            counts[(at.as_nanos() / 100_000_000_000) as usize] += 1;
        }
        assert!((4700..5300).contains(&counts[0]), "{counts:?}");
        assert!((19_500..20_500).contains(&counts[1]), "{counts:?}");
        assert!((9500..10_500).contains(&counts[2]), "{counts:?}");
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn even_arrivals_are_even() {
        let mut chance = arrivals();
        let rate = Profile::constant(4.0);
        let mut bound = Bound::NONE;
        assert_eq!(
            next_arrival(&rate, false, Instant::from_secs(1), &mut bound, &mut chance),
            Instant::from_millis(1250)
        );
    }
}
