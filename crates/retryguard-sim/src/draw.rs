//! Worlds drawn at random, for a judgement that nothing was tuned on.
//!
//! A drawn world is the text of a scenario file, so that it can be kept, read and run again alone. World number `i` of a
//! seed depends on the seed and on `i` only: a longer draw begins with the shorter one. Kinds take turns, so that every
//! kind has its share of any draw. The page `docs/scenarios.md` states the distribution.

mod ablate;
mod kinds;
mod parts;
mod report;

use crate::{
    scenario::Scenario,
    streams::{Purpose, Seed},
};

pub use ablate::{ABLATIONS, Ablation, ablations};
pub use kinds::{KINDS, Kind};
pub use report::{
    ABOVE, AHEAD, GOAL, MOST_COST, Overall, Report, Table, is_foreign, judge, judge_in, judge_some,
};

/// The most worlds of one draw.
pub const MOST_WORLDS: u32 = 100_000;

/// A world of a draw.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Its number and its kind, such as `0017-outage-long`.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// The scenario file.
    pub text: String,
}

/// The world of this number.
#[must_use]
pub fn world(seed: Seed, number: u32) -> Drawn {
    let kind = &KINDS[number as usize % KINDS.len()];
    let mut sketch = parts::Sketch::draw(seed.stream(u64::from(number), Purpose::World), kind.name);
    (kind.draw)(&mut sketch);
    let name = format!("{number:04}-{}", kind.name);
    Drawn {
        text: sketch.text(&name, kind.what),
        name,
        kind: kind.name,
    }
}

/// The first `count` worlds of a seed.
#[must_use]
pub fn worlds(seed: Seed, count: u32) -> Vec<Drawn> {
    (0..count).map(|number| world(seed, number)).collect()
}

impl Drawn {
    /// The scenario.
    ///
    /// # Panics
    ///
    /// Where the draw wrote a file that cannot be read, which a test excludes.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        crate::tournament::scenario(&self.name, &self.text)
    }
}

#[cfg(test)]
mod tests {
    use retryguard_core::Instant;

    use super::*;
    use crate::world::Arrivals;

    #[test]
    fn every_drawn_world_can_be_read_and_is_small() {
        for seed in [1, 2, 3] {
            for drawn in worlds(Seed(seed), 200) {
                let scenario = drawn.scenario();
                let world = &scenario.world;
                let seconds = 0..world.duration.as_secs();
                let calls: f64 = world
                    .clients
                    .iter()
                    .map(|client| match &client.arrivals {
                        Arrivals::Open { rate, .. } => {
                            seconds.clone().map(|at| rate.at(Instant::from_secs(at))).sum()
                        }
                        Arrivals::Closed { .. } => 0.0,
                    })
                    .sum();
                assert!(calls < 40_000.0, "{calls} calls\n{}", drawn.text);
                assert!((1..=3).contains(&world.services.len()), "{}", drawn.text);
            }
        }
    }

    #[test]
    fn a_longer_draw_begins_with_the_shorter_one() {
        let texts = |count| {
            worlds(Seed(7), count)
                .into_iter()
                .map(|it| it.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(12), texts(40)[..12]);
        assert_ne!(world(Seed(7), 3).text, world(Seed(8), 3).text);
    }

    #[test]
    fn the_parts_that_worlds_differ_in_all_occur() {
        let all: String = worlds(Seed(1), 200).into_iter().map(|it| it.text).collect();
        for part in [
            "shedding: layer",
            "shedding: off",
            "noticesCancel: true",
            "queue: unlimited",
            "blocking: false",
            "others:",
            "gateway:",
            "front:",
            "attemptTimeout",
            "network",
            "rejectionWork",
            "errorKind: overload",
            "errorKind: timeout",
            "errorKind: fault",
            "users:",
        ] {
            assert!(all.contains(part), "{part}");
        }
    }
}
