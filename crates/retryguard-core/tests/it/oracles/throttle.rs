//! The throttle against its formula over lists.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Criticality, Instant, Ratio,
    chance::{Highest, Lowest},
    throttle::{Settings, Throttle},
};

use super::window::Moments;

const WINDOW: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A request, and whether its random draw lets it pass.
    Ask(bool),
    /// A request that was sent has ended, rejected or not.
    End(bool),
    Pass(u64),
}

proptest! {
    #[test]
    fn the_formula_over_the_window(
        k in prop_oneof![Just(1_000u64), Just(1_100), Just(1_500), Just(2_000), 1_000u64..4_000],
        events in prop::collection::vec((0usize..4, prop_oneof![
            4 => any::<bool>().prop_map(Event::Ask),
            4 => any::<bool>().prop_map(Event::End),
            1 => (0u64..40).prop_map(Event::Pass),
        ]), 1..200),
    ) {
        let settings = Settings { requests_per_accept: Ratio::from_parts(k * 1_000_000), window: WINDOW };
        let mut throttle = Throttle::new(settings, Instant::ZERO);
        let lists = || [(); 4].map(|()| Moments::new(WINDOW, Instant::ZERO));
        let (mut requests, mut accepts) = (lists(), lists());
        let mut now = Instant::ZERO;
        for (level, event) in events {
            let criticality = Criticality::ALL[level];
            let (asked, taken) = (requests[level].count(now), accepts[level].count(now));
            let beyond = (u128::from(asked) * 1000).saturating_sub(u128::from(k) * u128::from(taken));
            let expected = beyond * 1_000_000 / (u128::from(asked) + 1);
            prop_assert_eq!(u128::from(throttle.rejection(criticality, now).parts()), expected);
            match event {
                Event::Ask(lucky) => {
                    let answer = if lucky {
                        throttle.admits(criticality, now, &mut Lowest)
                    } else {
                        throttle.admits(criticality, now, &mut Highest)
                    };
                    prop_assert_eq!(answer, lucky || expected == 0);
                    requests[level].all.extend((!answer).then_some(now));
                }
                Event::End(rejected) => {
                    throttle.on_end(criticality, rejected, now);
                    requests[level].all.push(now);
                    accepts[level].all.extend((!rejected).then_some(now));
                }
                Event::Pass(seconds) => now = now.after(Duration::from_secs(seconds)),
            }
        }
    }
}
