//! Budgets against lists of what was sent and taken.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Instant, Ratio,
    budget::{Budget, Charge, Reserve, Settings},
};

use super::window::Moments;

const WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Event {
    First,
    Withdraw,
    /// Gives the charge of this rank back, if there are so many.
    Refund(usize),
    Pass(u64),
    End(bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::First),
        4 => Just(Event::Withdraw),
        1 => (0usize..10).prop_map(Event::Refund),
        2 => (0u64..4000).prop_map(Event::Pass),
        2 => any::<bool>().prop_map(Event::End),
    ];
    prop::collection::vec(event, 1..200)
}

/// Where a naive charge came from: the place among the extras, or the reserve.
enum Paid {
    Ratio(Instant),
    Reserve,
}

struct Naive {
    firsts: Moments,
    extras: Moments,
    ended: Moments,
    succeeded: Moments,
    /// Thousandths of a retry.
    reserve: u64,
    accrued: Instant,
    per_second: u64,
    most: u64,
}

impl Naive {
    fn new(per_second: u64, most: u64) -> Self {
        let moments = || Moments::new(WINDOW, Instant::ZERO);
        Self {
            firsts: moments(),
            extras: moments(),
            ended: moments(),
            succeeded: moments(),
            // One retry from the start, in thousandths.
            reserve: 1000.min(most * 1000),
            accrued: Instant::ZERO,
            per_second,
            most,
        }
    }

    /// `ratio` as a fraction of two numbers.
    fn withdraw(&mut self, (above, below): (u128, u128), now: Instant) -> Option<Paid> {
        let millis = u64::try_from(now.since(self.accrued).as_millis()).expect("short");
        self.reserve = (self.reserve + millis * self.per_second).min(self.most * 1000);
        self.accrued = now;
        let extras = u128::from(self.extras.count(now));
        if (extras + 1) * below <= above * u128::from(self.firsts.count(now)) {
            self.extras.all.push(now);
            return Some(Paid::Ratio(now));
        }
        self.reserve = self.reserve.checked_sub(1000)?;
        Some(Paid::Reserve)
    }

    fn refund(&mut self, paid: Paid) {
        match paid {
            Paid::Ratio(moment) => {
                let index = self
                    .extras
                    .all
                    .iter()
                    .position(|extra| *extra == moment)
                    .expect("it was taken");
                self.extras.all.remove(index);
            }
            Paid::Reserve => self.reserve = (self.reserve + 1000).min(self.most * 1000),
        }
    }
}

proptest! {
    /// Every ratio that can be written, with a reserve and refunds: each answer is the one on paper.
    #[test]
    fn a_ratio_with_a_reserve(
        parts in prop_oneof![0u64..=2_000_000_000, (0u64..=200).prop_map(|percent| percent * 10_000_000)],
        per_second in 0u64..3,
        most in 0u32..4,
        events in events(),
    ) {
        let settings = Settings::Ratio {
            ratio: Ratio::from_parts(parts),
            window: WINDOW,
            reserve: Reserve { per_second: Ratio::percent(100 * u32::try_from(per_second).unwrap()), most },
        };
        let mut budget = Budget::new(settings, Instant::ZERO);
        let mut naive = Naive::new(per_second, most.into());
        let fraction = (u128::from(parts), u128::from(Ratio::PARTS));
        let mut taken: Vec<(Charge, Paid)> = Vec::new();
        let mut now = Instant::ZERO;
        for event in events {
            match event {
                Event::First => {
                    budget.on_first_attempt(now);
                    naive.firsts.all.push(now);
                }
                Event::Withdraw => {
                    let (real, expected) = (budget.withdraw(false, now), naive.withdraw(fraction, now));
                    prop_assert_eq!(real.is_some(), expected.is_some());
                    taken.extend(real.zip(expected));
                }
                Event::Refund(rank) if rank < taken.len() => {
                    let (charge, paid) = taken.remove(rank);
                    budget.refund(charge);
                    naive.refund(paid);
                }
                Event::Pass(millis) => now = now.after(Duration::from_millis(millis)),
                Event::Refund(_) | Event::End(_) => {}
            }
            // What it says it would allow is what it allows.
            let mut trial = budget.clone();
            let balance = trial.balance(now);
            let granted = (0..=balance).take_while(|_| trial.withdraw(false, now).is_some()).count();
            prop_assert_eq!(granted as u64, balance);
        }
    }

    /// The adaptive ratio is rounded down to billionths: it never allows more than the exact one, nor less than
    /// one that is two billionths smaller.
    #[test]
    fn an_adaptive_ratio(least in 0u64..=100, spread in 0u64..=100, events in events()) {
        let settings = Settings::Adaptive {
            least: Ratio::from_parts(least * 10_000_000),
            most: Ratio::from_parts((least + spread) * 10_000_000),
            window: WINDOW,
            reserve: Reserve::default(),
        };
        let mut budget = Budget::new(settings, Instant::ZERO);
        let mut naive = Naive::new(0, 0);
        let mut now = Instant::ZERO;
        for event in events {
            match event {
                Event::First => {
                    budget.on_first_attempt(now);
                    naive.firsts.all.push(now);
                }
                Event::End(success) => {
                    budget.on_attempt_end(success, now);
                    naive.ended.all.push(now);
                    naive.succeeded.all.extend(success.then_some(now));
                }
                Event::Withdraw => {
                    let (ended, succeeded) = match naive.ended.count(now) {
                        0 => (1, 1),
                        ended => (u128::from(ended), u128::from(naive.succeeded.count(now))),
                    };
                    let exact = u128::from(least) * ended + succeeded * u128::from(spread);
                    let (above, below) = (exact * 10_000_000, ended * 1_000_000_000);
                    let extras = u128::from(naive.extras.count(now)) + 1;
                    let firsts = u128::from(naive.firsts.count(now));
                    let allowed = budget.withdraw(false, now).is_some();
                    if allowed {
                        naive.extras.all.push(now);
                        prop_assert!(extras * below <= above * firsts);
                    } else {
                        prop_assert!(extras * below > above.saturating_sub(2 * ended) * firsts);
                    }
                }
                Event::Pass(millis) => now = now.after(Duration::from_millis(millis)),
                Event::Refund(_) => {}
            }
        }
    }

    /// A quota is a purse of tokens.
    #[test]
    fn a_quota(
        capacity in 0u32..60,
        costs in (0u32..7, 0u32..12, 0u32..3),
        events in prop::collection::vec((0u8..4, any::<bool>()), 1..200),
    ) {
        let (retry_cost, timeout_cost, success_gain) = costs;
        let settings = Settings::Quota { capacity, retry_cost, timeout_cost, success_gain };
        let mut budget = Budget::new(settings, Instant::ZERO);
        let mut purse = capacity;
        let mut last = 0;
        for (event, flag) in events {
            match event {
                0 | 1 => {
                    let cost = if flag { timeout_cost } else { retry_cost };
                    let charge = budget.withdraw(flag, Instant::ZERO);
                    prop_assert_eq!(charge.as_ref().map(Charge::tokens), (purse >= cost).then_some(cost));
                    if let Some(charge) = charge {
                        purse -= cost;
                        last = cost;
                        if event == 1 {
                            budget.refund(charge);
                            purse = (purse + cost).min(capacity);
                        }
                    }
                }
                _ => {
                    budget.on_call_end(flag, last);
                    if flag {
                        purse = (purse + if last == 0 { success_gain } else { last }).min(capacity);
                    }
                    last = 0;
                }
            }
            prop_assert_eq!(budget.balance(Instant::ZERO), u64::from(purse / retry_cost.max(1)));
        }
    }
}
