//! The guard: Algorithm 1 against the paper's pseudo-code, the default against a plain history.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Instant, Ratio,
    guard::{Guard, Hysteresis, Mode, Sample, Settings, Signal, State},
};

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    // Runs of alike samples, or nothing would ever last long enough.
    let sample = (
        prop_oneof![0u64..60, (0u64..6).prop_map(|tens| tens * 10)],
        0u64..=10,
        0u64..=20,
        prop::option::of(0u64..500),
    )
        .prop_map(|(calls, bad, again, delay)| Sample {
            calls,
            rejected: calls * bad / 10,
            retries: calls * again / 10,
            retries_succeeded: 0,
            delay: delay.map(Duration::from_millis),
        });
    prop::collection::vec((sample, 1usize..12), 1..30).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(sample, times)| vec![sample; times])
            .collect()
    })
}

fn signal() -> impl Strategy<Value = Signal> {
    prop_oneof![
        Just(Signal::Rejections),
        Just(Signal::RetriesPerCall),
        Just(Signal::Delay)
    ]
}

/// A reading in billionths, with retries scaled back to what was wanted; nothing where there is nothing to read.
fn read(signal: Signal, sample: &Sample, share: f64) -> Option<u64> {
    let ratio = |part: u64, whole: u64| part * Ratio::PARTS / whole;
    match signal {
        Signal::Rejections => (sample.calls > 0).then(|| ratio(sample.rejected, sample.calls)),
        Signal::RetriesPerCall => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let calls = (sample.calls as f64 * share).floor() as u64;
            (calls > 0).then(|| ratio(sample.retries, calls))
        }
        Signal::Delay => sample
            .delay
            .map(|delay| u64::try_from(delay.as_nanos()).expect("short")),
    }
}

/// The default mode as its documentation tells it.
struct Plain {
    rules: Hysteresis,
    state: State,
    since: Instant,
    /// Samples since the state was entered.
    seen: Vec<Sample>,
    relapses: u32,
}

impl Plain {
    fn pooled(&self) -> Sample {
        let mut sum = Sample::default();
        for sample in self.seen.iter().rev().take(self.rules.samples.into()) {
            sum.calls += sample.calls;
            sum.rejected += sample.rejected;
            sum.retries += sample.retries;
            sum.delay = sum.delay.max(sample.delay);
        }
        sum
    }

    fn share(&self) -> f64 {
        match self.state {
            State::On => 1.0,
            State::Off => 0.0,
            State::Ramping { step } => 0.5f64.powi(i32::from(self.rules.ramp_steps - step)),
        }
    }

    fn feed(&mut self, sample: Sample, signal: Signal, now: Instant) {
        self.seen.push(sample);
        let pooled = self.pooled();
        let few = pooled.calls < self.rules.minimum_calls.into();
        // Nothing to read is nothing to complain of.
        let reading = read(signal, &pooled, self.share());
        let above = !few && reading.is_some_and(|reading| reading > self.rules.off_above.parts());
        let below = !few && reading.is_none_or(|reading| reading < self.rules.on_below.parts());
        let age = now.since(self.since);
        let quiet = few && age >= self.rules.quiet_after;
        let next = match self.state {
            State::Off | State::Ramping { .. } if !(above || below || quiet) => return,
            State::On | State::Ramping { .. } if above => {
                self.relapses += u32::from(self.state != State::On);
                State::Off
            }
            State::On => return,
            State::Off if above || age < self.cool_down() => return,
            State::Off if self.rules.ramp_steps == 0 => State::On,
            State::Off => State::Ramping { step: 0 },
            State::Ramping { .. } if age < self.rules.step_for => return,
            State::Ramping { step } if step + 1 == self.rules.ramp_steps => State::On,
            State::Ramping { step } => State::Ramping { step: step + 1 },
        };
        if next == State::On {
            self.relapses = 0;
        }
        self.state = next;
        self.since = now;
        self.seen.clear();
    }

    fn cool_down(&self) -> Duration {
        let doubled = (0..self.relapses).fold(self.rules.cool_down, |span, _| {
            (span * 2).min(self.rules.cool_down_at_most.max(self.rules.cool_down))
        });
        doubled.min(self.rules.cool_down_at_most.max(self.rules.cool_down))
    }
}

fn rules() -> impl Strategy<Value = Hysteresis> {
    let times = (0u64..8, 0u64..20, 0u64..5, 1u64..20);
    (0u32..60, 0u32..60, 1u8..=16, 0u32..40, times, 0u8..4).prop_map(
        |(off, on, samples, calls, times, steps)| Hysteresis {
            off_above: Ratio::percent(off.max(on)),
            on_below: Ratio::percent(off.min(on)),
            samples,
            minimum_calls: calls,
            cool_down: Duration::from_secs(times.0),
            cool_down_at_most: Duration::from_secs(times.1),
            ramp_steps: steps,
            step_for: Duration::from_secs(times.2),
            quiet_after: Duration::from_secs(times.3),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The paper: low = high = 0, retries off. f < T: low + 1, high = 0; f > T: high + 1, low = 0; equal: both
    /// zero. low ≥ I: on; else high ≥ I: off.
    #[test]
    fn algorithm_1_is_the_papers(
        threshold in prop_oneof![0u32..=100, (0u32..=10).prop_map(|tenths| tenths * 10)],
        interval in 1u32..6,
        samples in samples(),
    ) {
        let mode = Mode::Algorithm1 { threshold: Ratio::percent(threshold), samples: interval };
        let mut guard = Guard::new(Settings { mode, ..Settings::default() }, Instant::ZERO);
        let (mut low, mut high, mut on) = (0, 0, false);
        for sample in samples {
            guard.feed(&sample, Instant::ZERO);
            let (f, t) = (sample.rejected * 100, sample.calls * u64::from(threshold));
            // Without calls there are no rejections: below every threshold but zero.
            let below = if sample.calls == 0 { threshold > 0 } else { f < t };
            if below {
                (low, high) = (low + 1, 0);
            } else if f > t {
                (low, high) = (0, high + 1);
            } else {
                (low, high) = (0, 0);
            }
            if low >= interval {
                on = true;
            } else if high >= interval {
                on = false;
            }
            prop_assert_eq!(guard.state(), if on { State::On } else { State::Off });
        }
    }

    #[test]
    fn hysteresis_is_a_plain_history(rules in rules(), signal in signal(), samples in samples()) {
        let settings = Settings { signal, mode: Mode::Hysteresis(rules), ..Settings::default() };
        let mut guard = Guard::new(settings, Instant::ZERO);
        let mut plain =
            Plain { rules, state: State::On, since: Instant::ZERO, seen: Vec::new(), relapses: 0 };
        for (second, sample) in (1..).zip(samples) {
            let now = Instant::from_secs(second);
            let before = guard.state();
            let decision = guard.feed(&sample, now);
            plain.feed(sample, signal, now);
            prop_assert_eq!(guard.state(), plain.state, "second {}", second);
            prop_assert_eq!(decision.map(|it| (it.from, it.to)), (before != plain.state).then_some((before, plain.state)));
            prop_assert!((guard.share().as_f64() - plain.share()).abs() < 1e-8);
        }
    }
}
