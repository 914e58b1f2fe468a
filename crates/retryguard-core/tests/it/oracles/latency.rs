//! Quantiles against a sorted list.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{Ratio, latency::Latencies};

proptest! {
    /// Never low, and at most an eighth high, for latencies between a microsecond and an hour.
    #[test]
    fn a_quantile_of_the_sorted_list(
        values in prop::collection::vec(prop_oneof![1_024u64..2_000_000, 1_024u64..3_600_000_000_000], 1..300),
        parts in prop_oneof![0u64..=1_000_000_000, (0u64..=100).prop_map(|percent| percent * 10_000_000)],
    ) {
        let mut latencies = Latencies::default();
        values.iter().for_each(|nanos| latencies.add(Duration::from_nanos(*nanos)));
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = (sorted.len() as u64 * parts).div_ceil(Ratio::PARTS).max(1);
        let exact = sorted[usize::try_from(rank).unwrap() - 1];
        let got = latencies.quantile(Ratio::from_parts(parts)).unwrap().as_nanos();
        prop_assert!(got >= u128::from(exact), "{got} below {exact}");
        prop_assert!(got * 8 <= u128::from(exact) * 9 + 8, "{got} far above {exact}");
    }
}
