//! Differences between policies over the same replications.
//!
//! Two policies get the same random numbers in a replication, so the difference of their results varies far less than each result does.
//! Its confidence interval is that of the mean of the differences (Law, *Simulation Modeling and Analysis*, 2015, section 10.2.1).

use super::{COLUMNS, Summary};
use crate::statistics::{Estimate, Tally};

/// A difference whose confidence interval does not hold zero is significant. A single replication has no interval, and two
/// policies with the same results in every replication do not differ.
#[must_use]
pub fn is_significant(difference: &Estimate) -> bool {
    difference
        .half_width
        .is_some_and(|half| difference.mean.abs() > half)
}

impl Summary {
    /// This policy's value of a column less another's, over the replications of both; `None` where the column says nothing.
    #[must_use]
    pub fn difference(&self, other: &Self, key: &str) -> Option<Estimate> {
        let index = COLUMNS.iter().position(|column| column.key == key)?;
        let pairs = self.values[index]
            .as_ref()?
            .iter()
            .zip(other.values[index].as_ref()?);
        Some(
            pairs
                .map(|(own, other)| own - other)
                .collect::<Tally>()
                .estimate(),
        )
    }
}

/// Whether every difference of a column between two policies is known to within this share of the larger of the two means.
#[must_use]
pub fn is_known_within(summaries: &[Summary], key: &str, share: f64) -> bool {
    summaries.iter().enumerate().all(|(index, one)| {
        let within = |estimate: Estimate, scale: f64| {
            estimate
                .half_width
                .is_some_and(|half| half <= share * scale.abs())
        };
        // One policy alone: its own mean.
        let own = one.get(key).is_none_or(|it| within(it, it.mean));
        let differences = summaries[index + 1..].iter().all(|other| {
            let scale = one.mean(key).abs().max(other.mean(key).abs());
            one.difference(other, key).is_none_or(|it| within(it, scale))
        });
        differences && (own || summaries.len() > 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client_policy::{ClientPolicy, named},
        comparison::{Plan, compare, compare_until},
        scenario::Scenario,
        streams::Seed,
    };

    fn scenario() -> Scenario {
        let text = "duration: 20s\nservices:\n  store: {workers: 4, queue: 8, time: {exponential: 100ms}, errors: 10%}\n\
                    clients:\n  people: {calls: store, rate: 30, deadline: 2s}\n";
        Scenario::parse(text, "small", &mut |path| Err(format!("{path} is not there"))).unwrap()
    }

    fn plan(replications: u32) -> Plan {
        Plan {
            seed: Seed(3),
            replications,
            threads: 2,
        }
    }

    fn policies() -> Vec<ClientPolicy> {
        let never =
            ClientPolicy::of_text("never", "defaults: {neverRetryOn: [fault, overload, timeout]}\n").unwrap();
        let mut same = never.clone();
        same.name = "same".to_owned();
        vec![named("none").unwrap(), named("immediate").unwrap(), never, same]
    }

    #[test]
    fn under_the_same_luck_a_difference_is_known_better_than_its_parts() {
        let scenario = scenario();
        let found = compare(&scenario.world, &policies(), &[], &plan(12), &|_| ());
        let [none, immediate, never, same] = found.as_slice() else {
            panic!("four policies");
        };
        // Replications differ most in how many calls come, and that is the same for both.
        let half = |it: &Summary| it.get("goodputPerSecond").unwrap().half_width.unwrap();
        let difference = immediate.difference(none, "goodputPerSecond").unwrap();
        let apart = half(none).hypot(half(immediate));
        assert!(
            difference.half_width.unwrap() < 0.8 * apart,
            "{difference:?} {apart}"
        );
        let means = immediate.mean("goodputPerSecond") - none.mean("goodputPerSecond");
        assert!((difference.mean - means).abs() < 1e-9);
        assert!(is_significant(
            &immediate.difference(none, "retriesPerCall").unwrap()
        ));
        // The same policy twice does not differ, and neither do a column that says nothing and a single run.
        assert!(!is_significant(
            &same.difference(never, "goodputPerSecond").unwrap()
        ));
        assert!(none.difference(immediate, "largestSize").is_none());
        let once = compare(&scenario.world, &policies(), &[], &plan(1), &|_| ());
        assert!(!is_significant(
            &once[1].difference(&once[0], "attempts").unwrap()
        ));
    }

    #[test]
    fn a_result_that_was_stopped_is_that_of_so_many_replications() {
        let scenario = scenario();
        let until = |share| compare_until(&scenario.world, &policies(), &[], &plan(40), share, &|_| ());
        let (coarse, few) = until(0.5);
        assert_eq!(few, 5, "the first look is enough");
        let (fine, many) = until(0.02);
        assert!(many > few && many < 40, "{many}");
        assert!(is_known_within(&fine, "goodputPerSecond", 0.02));
        assert!(!is_known_within(&coarse, "goodputPerSecond", 0.001));
        let whole = compare(&scenario.world, &policies(), &[], &plan(many), &|_| ());
        for (one, other) in fine.iter().zip(&whole) {
            assert_eq!(one.values, other.values);
        }
        let (_, all) = until(1e-9);
        assert_eq!(all, 40, "the limit of the plan");
    }
}
