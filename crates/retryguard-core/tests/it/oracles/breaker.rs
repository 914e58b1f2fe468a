//! The breaker against a plain history of what happened.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Instant, Ratio, Refusal,
    breaker::{Breaker, End, Pass, Settings, Slow, State, Trip},
};

use super::window::Moments;

#[derive(Debug, Clone, Copy)]
enum Event {
    Ask,
    /// The attempt of this rank ends, well or not, slowly or not.
    End(usize, bool, bool),
    Abandon(usize),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Ask),
        5 => (0usize..4, any::<bool>(), any::<bool>()).prop_map(|(rank, well, slow)| Event::End(rank, well, slow)),
        1 => (0usize..4).prop_map(Event::Abandon),
        3 => (0u64..4000).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..300)
}

const WINDOW: Duration = Duration::from_secs(10);
/// Longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);

fn settings() -> impl Strategy<Value = Settings> {
    let trip = prop_oneof![
        (1u32..4).prop_map(Trip::Consecutive),
        (1u32..5).prop_map(|failures| Trip::Count {
            failures,
            window: WINDOW
        }),
        (0u32..=100, 1u32..6, prop::option::of(0u32..=100)).prop_map(|(percent, minimum_calls, slow)| {
            Trip::Rate {
                ratio: Ratio::percent(percent),
                minimum_calls,
                window: WINDOW,
                slow: slow.map(|percent| Slow {
                    above: SLOW,
                    ratio: Ratio::percent(percent),
                }),
            }
        }),
    ];
    (trip, 1u64..5, 0u64..20, 1u32..4, 1u32..4).prop_map(|(trip, open_for, most, probes, close_after)| {
        Settings {
            trip,
            open_for: Duration::from_secs(open_for),
            open_for_at_most: Duration::from_secs(most),
            probes,
            close_after,
            when_down: retryguard_core::breaker::WhenDown::Fail,
        }
    })
}

/// An era lasts from one change of state to the next.
struct Naive {
    settings: Settings,
    state: State,
    era: u32,
    /// Of this era while closed: the ends, in order, and whether they were good and slow.
    ends: Vec<(Instant, bool, bool)>,
    /// Of this era while half-open.
    probing: u32,
    good: u32,
    last_probe: Instant,
    /// Open times since it was last closed.
    opened: u32,
    until: Instant,
}

impl Naive {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Closed,
            era: 0,
            ends: Vec::new(),
            probing: 0,
            good: 0,
            last_probe: Instant::ZERO,
            opened: 0,
            until: Instant::ZERO,
        }
    }

    fn open_time(&self) -> Duration {
        let mut span = self.settings.open_for;
        for _ in 1..self.opened {
            span = (span * 2).min(self.settings.open_for_at_most.max(self.settings.open_for));
        }
        span
    }

    fn turn(&mut self, state: State) {
        self.state = state;
        self.era += 1;
        (self.probing, self.good) = (0, 0);
        self.ends.clear();
        if state == State::Closed {
            self.opened = 0;
        }
    }

    fn open(&mut self, now: Instant) {
        self.turn(State::Open);
        self.opened += 1;
        self.until = now.after(self.open_time());
    }

    /// The era that the attempt passes in.
    fn ask(&mut self, now: Instant) -> Result<u32, Refusal> {
        if self.state == State::Open && now >= self.until {
            self.turn(State::HalfOpen);
        }
        if self.state == State::HalfOpen {
            if self.probing > 0 && now >= self.last_probe.after(self.open_time()) {
                self.open(now);
                return Err(Refusal::BreakerOpen);
            }
            if self.probing >= self.settings.probes || self.probing + self.good >= self.settings.close_after {
                return Err(Refusal::ProbesBusy);
            }
            self.probing += 1;
            self.last_probe = now;
        }
        if self.state == State::Open {
            return Err(Refusal::BreakerOpen);
        }
        Ok(self.era)
    }

    fn end(&mut self, era: u32, well: bool, slow: bool, now: Instant) {
        match self.state {
            _ if era != self.era => {}
            State::Closed => {
                self.ends.push((now, well, slow));
                if (!well && self.trips(now)) || (slow && self.is_too_slow(now)) {
                    self.open(now);
                }
            }
            State::HalfOpen if well && !(slow && self.slow().is_some()) => {
                self.probing -= 1;
                self.good += 1;
                if self.good >= self.settings.close_after {
                    self.turn(State::Closed);
                }
            }
            State::HalfOpen => self.open(now),
            State::Open => unreachable!("nothing passes in an open era"),
        }
    }

    fn slow(&self) -> Option<(Slow, u32)> {
        match self.settings.trip {
            Trip::Rate {
                slow, minimum_calls, ..
            } => slow.map(|slow| (slow, minimum_calls)),
            _ => None,
        }
    }

    fn is_too_slow(&self, now: Instant) -> bool {
        let Some((slow, minimum_calls)) = self.slow() else {
            return false;
        };
        let count = |counts: fn(&(Instant, bool, bool)) -> bool| {
            let mut moments = Moments::new(WINDOW, Instant::ZERO);
            let counted = self.ends.iter().filter(|end| counts(end));
            moments.all.extend(counted.map(|end| end.0));
            moments.count(now)
        };
        let (all, bad) = (count(|_| true), count(|end| end.2));
        all >= minimum_calls.into() && bad * Ratio::PARTS >= all * slow.ratio.parts()
    }

    fn trips(&self, now: Instant) -> bool {
        let mut all = Moments::new(WINDOW, Instant::ZERO);
        let mut bad = Moments::new(WINDOW, Instant::ZERO);
        all.all.extend(self.ends.iter().map(|end| end.0));
        bad.all
            .extend(self.ends.iter().filter(|end| !end.1).map(|end| end.0));
        match self.settings.trip {
            Trip::Consecutive(limit) => {
                self.ends.iter().rev().take_while(|end| !end.1).count() >= limit as usize
            }
            Trip::Silence(_) => unreachable!("drawn by no strategy here; its own tests walk it"),
            Trip::Count { failures, .. } => bad.count(now) >= failures.into(),
            Trip::Rate {
                ratio, minimum_calls, ..
            } => {
                let (all, bad) = (all.count(now), bad.count(now));
                all >= minimum_calls.into() && bad * Ratio::PARTS >= all * ratio.parts()
            }
        }
    }
}

proptest! {
    #[test]
    fn every_trip_and_every_phase(settings in settings(), events in events()) {
        let mut breaker = Breaker::new(settings, Instant::ZERO);
        let mut naive = Naive::new(settings);
        let mut passes: Vec<(Pass, u32)> = Vec::new();
        let mut now = Instant::ZERO;
        for event in events {
            match event {
                Event::Ask => {
                    // To ask whether one would pass answers the same and takes nothing.
                    let look = breaker.clone().would_admit(now);
                    let (real, expected) = (breaker.admit(now), naive.ask(now));
                    prop_assert_eq!(look, real.map(drop));
                    prop_assert_eq!(real.map(drop), expected.map(drop));
                    passes.extend(real.ok().zip(expected.ok()));
                }
                Event::End(rank, well, slow) if rank < passes.len() => {
                    let (pass, era) = passes.remove(rank);
                    let end = if well { End::Healthy } else { End::Failed };
                    let took = u64::try_from(SLOW.as_nanos()).unwrap() + u64::from(slow);
                    breaker.on_end_as(pass, end, took, now);
                    naive.end(era, well, slow, now);
                }
                Event::Abandon(rank) if rank < passes.len() => {
                    let (pass, era) = passes.remove(rank);
                    breaker.on_abandon(pass);
                    if era == naive.era && naive.state == State::HalfOpen {
                        naive.probing -= 1;
                    }
                }
                Event::End(..) | Event::Abandon(_) => {}
                Event::Pass(millis) => now = now.after(Duration::from_millis(millis)),
            }
            prop_assert_eq!(breaker.state(), naive.state);
            let until = (naive.state == State::Open).then_some(naive.until);
            prop_assert_eq!(breaker.opens_until(), until);
        }
    }
}
