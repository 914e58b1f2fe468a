//! The gate against the list of everything that the target ever asked.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Criticality, Instant, Ratio,
    chance::{Highest, Lowest},
    gate::{Gate, Scope, Settings},
    outcome::{Failure, FailureKind, Hints},
};

/// One hint: how much the call mattered that met it, whether by a retry, what it said, and how much time
/// passed before it.
type Hint = (usize, bool, Option<u64>, bool, u64);

fn hints() -> impl Strategy<Value = Vec<Hint>> {
    let wait = prop::option::of(0u64..60_000);
    prop::collection::vec(
        (0usize..4, any::<bool>(), wait, any::<bool>(), 0u64..20_000),
        0..30,
    )
}

proptest! {
    #[test]
    fn what_was_asked_holds_as_long_as_it_was_asked(
        scope in prop_oneof![Just(Scope::Target), Just(Scope::Retries), Just(Scope::Call)],
        hints in hints(),
        own in prop::option::of(0u64..60_000),
        delay in 0u64..40_000,
    ) {
        let settings = Settings { scope, ..Settings::default() };
        let mut gate = Gate::new(settings);
        let mut now = Instant::ZERO;
        let mut closed: Vec<(usize, bool, Instant)> = Vec::new();
        let mut forbidden: Vec<Instant> = Vec::new();
        let believed = |millis: u64| Duration::from_millis(millis).min(settings.at_most);
        for (level, again, wait, do_not_retry, passed) in hints {
            now = now.after(Duration::from_millis(passed));
            let hint = Hints { retry_after: wait.map(Duration::from_millis), do_not_retry, ..Hints::NONE };
            gate.on_failure(&Failure::new(FailureKind::Overload).with_hints(hint), Criticality::ALL[level], again, now);
            closed.extend(wait.map(|wait| (level, again, now.after(believed(wait)))));
            if do_not_retry {
                forbidden.push(now.after(wait.map_or(settings.no_retry_for, believed)));
            }
            prop_assert_eq!(gate.forbids_retries(now), forbidden.iter().any(|until| now < *until));
            for (index, level) in Criticality::ALL.into_iter().enumerate() {
                // A hint met by what matters as much or more; a retry's counts among its equals for retries
                // alone.
                let latest = |holds: &dyn Fn(usize, bool) -> bool| {
                    let met = closed.iter().filter(|asked| holds(asked.0, asked.1));
                    met.map(|asked| asked.2).max().filter(|until| now < *until)
                };
                let held = latest(&|at, again| at > index || (at == index && !again));
                let held = held.map(|until| now.until(until));
                let until = latest(&|at, _| at >= index);
                let shared = (scope != Scope::Call).then_some(until).flatten();
                prop_assert_eq!(gate.holds_first(level, now), held.filter(|_| scope == Scope::Target));
                prop_assert_eq!(gate.holds_again(level, now), shared.is_some());

                let wanted = now.after(Duration::from_millis(delay));
                let own_until = own.map(|own| now.after(believed(own)));
                let opens = shared.max(own_until).filter(|opens| *opens > wanted);
                let own = own.map(Duration::from_millis);
                let earliest = gate.retry_at(wanted, level, own, now, &mut Lowest);
                let latest = gate.retry_at(wanted, level, own, now, &mut Highest);
                prop_assert_eq!(earliest, opens.unwrap_or(wanted));
                let spread = opens.map_or(Duration::ZERO, |opens| Ratio::percent(50).of(now.until(opens)));
                prop_assert_eq!(latest, earliest.after(spread));
            }
        }
    }
}
