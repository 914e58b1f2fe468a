//! Poisson weights, after Fox and Glynn: from the mode outwards, scaled so that nothing under- or overflows, and cut where
//! the tails hold less than the wanted error.

/// Weights for the counts `left..=left + weights.len() - 1`, summing to one.
pub(super) struct Poisson {
    pub(super) left: u64,
    pub(super) weights: Vec<f64>,
}

impl Poisson {
    /// For the mean `mean`, with both tails below `error`.
    pub(super) fn new(mean: f64, error: f64) -> Poisson {
        if mean <= 0.0 {
            return Poisson {
                left: 0,
                weights: vec![1.0],
            };
        }
        let mode = whole(mean.floor());
        // Tails of a Poisson variable fall faster than those of a normal one times a small factor; ten deviations and a
        // logarithmic margin hold 1e-20.
        let width =
            whole((mean.sqrt() * (2.0 * (1.0 / error).ln()).sqrt()).ceil() + (1.0 / error).ln() + 2.0);
        let left = mode.saturating_sub(width);
        let right = mode + width;
        let mut upper = vec![1.0f64];
        for count in mode + 1..=right {
            let last = upper[upper.len() - 1];
            upper.push(last * mean / count as f64);
        }
        let mut lower = Vec::new();
        let mut weight = 1.0f64;
        for count in (left..mode).rev() {
            weight *= (count + 1) as f64 / mean;
            lower.push(weight);
        }
        // Small ones first, so that none is lost.
        let total: f64 = upper.iter().rev().chain(lower.iter().rev()).sum();
        let weights = lower.iter().rev().chain(&upper).map(|w| w / total).collect();
        Poisson { left, weights }
    }

    #[cfg(test)]
    fn weight(&self, count: u64) -> f64 {
        usize::try_from(count.wrapping_sub(self.left))
            .ok()
            .and_then(|place| self.weights.get(place))
            .copied()
            .unwrap_or(0.0)
    }

    /// The probabilities of more than each count of the weights. Of more than any count before them it is one.
    pub(super) fn tails(&self) -> Vec<f64> {
        let mut tails = Vec::with_capacity(self.weights.len());
        let mut sum = 0.0;
        for weight in self.weights.iter().rev() {
            tails.push(sum);
            sum += weight;
        }
        tails.reverse();
        tails
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the caller bounds the mean; the value is positive"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_definition() {
        for mean in [0.3, 1.0, 7.5, 40.0] {
            let poisson = Poisson::new(mean, 1e-14);
            let mut exact = f64::exp(-mean);
            for count in 0..60u64 {
                assert!((poisson.weight(count) - exact).abs() < 1e-13, "{mean} {count}");
                exact *= mean / (count + 1) as f64;
            }
        }
    }

    #[test]
    fn large_means_keep_mean_and_sum() {
        for mean in [1e3, 1e5, 1e7] {
            let poisson = Poisson::new(mean, 1e-12);
            let sum: f64 = poisson.weights.iter().sum();
            let first: f64 = poisson
                .weights
                .iter()
                .enumerate()
                .map(|(k, w)| (poisson.left + k as u64) as f64 * w)
                .sum();
            assert!((sum - 1.0).abs() < 1e-12);
            assert!((first / mean - 1.0).abs() < 1e-9);
        }
    }
}
