//! Quantiles of durations in little memory.

/// A histogram of whole numbers (nanoseconds, mostly) whose buckets are at most 1/64 wide in proportion to
/// their value, so that a quantile is right to 1.6 % whatever the scale. The High Dynamic Range layout:
/// exact below 64, then 64 equal buckets for each doubling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    largest: u64,
}

const BITS: u32 = 6;
const STEPS: u64 = 1 << BITS;

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: Vec::new(),
            total: 0,
            sum: 0,
            largest: 0,
        }
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds a value `count` times.
    #[inline]
    pub fn add_many(&mut self, value: u64, count: u64) {
        let index = index_of(value);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
        self.total += count;
        self.sum += u128::from(value) * u128::from(count);
        self.largest = self.largest.max(value);
    }

    /// Adds everything that another histogram holds.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
    }

    /// How many values it holds.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The exact mean; `None` of nothing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean needs no more than a double")]
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// The value that a share of all values does not exceed; `None` of nothing. Never above the largest.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank lies between 1 and the count"
    )]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(upper_end(index).min(self.largest));
            }
        }
        Some(self.largest)
    }

    /// The largest value.
    #[must_use]
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
        self.sum = 0;
        self.largest = 0;
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "an index is below 64 × 59")]
const fn index_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    (((shift as u64 + 1) << BITS) + ((value >> shift) - STEPS)) as usize
}

/// The largest value of a bucket.
const fn upper_end(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index;
    }
    let shift = (index >> BITS) - 1;
    let low = (STEPS + (index & (STEPS - 1))) << shift;
    low + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quantile_is_right_to_a_sixty_fourth(
            mut values in prop::collection::vec(0_u64..1 << 50, 1..200),
            share in 0.0..1.0_f64,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&value| histogram.add(value));
            values.sort_unstable();
            let below = |value: u64| values.iter().filter(|&&it| it <= value).count() as f64;
            let exact = *values.iter().find(|&&value| below(value) >= values.len() as f64 * share).unwrap();
            let found = histogram.quantile(share).unwrap();
            prop_assert!(found >= exact && found <= exact + exact / STEPS, "{found} for {exact}");
        }

        #[test]
        fn every_value_lies_in_its_bucket(value: u64) {
            let index = index_of(value);
            prop_assert!(value <= upper_end(index));
            prop_assert!(index == 0 || value > upper_end(index - 1));
        }
    }

    #[test]
    fn merging_is_adding() {
        let (mut left, mut right, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in [3, 5_000, 70_000] {
            left.add(value);
            both.add(value);
        }
        for value in [9, 900_000_000] {
            right.add(value);
            both.add(value);
        }
        left.merge(&right);
        assert_eq!(left, both);
    }
}
