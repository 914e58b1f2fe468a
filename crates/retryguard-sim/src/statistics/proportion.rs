//! How often something happened, and how often it may happen.

/// So many of so many independent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proportion {
    /// Runs in which it happened.
    pub count: u32,
    /// All runs.
    pub of: u32,
}

impl Proportion {
    /// The share.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.count) / f64::from(self.of.max(1))
    }

    /// The exact 95 % confidence interval of the probability (Clopper and Pearson 1934): also right where it happened in no run
    /// or in all of them, where an interval of plus and minus would be empty.
    #[must_use]
    pub fn interval(self) -> (f64, f64) {
        const TAIL: f64 = 0.025;
        if self.of == 0 {
            return (0.0, 1.0);
        }
        let low = match self.count {
            0 => 0.0,
            count => bisect(|p| 1.0 - at_most(count - 1, self.of, p) >= TAIL),
        };
        let high = match self.count == self.of {
            true => 1.0,
            false => bisect(|p| at_most(self.count, self.of, p) <= TAIL),
        };
        (low, high)
    }
}

/// The least probability from which on something is true.
fn bisect(is_reached: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if is_reached(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability of at most `count` of `of`, each of probability `p`. Summed in logarithms: the first terms of many runs are
/// below the smallest number.
fn at_most(count: u32, of: u32, p: f64) -> f64 {
    if p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return if count >= of { 1.0 } else { 0.0 };
    }
    let odds = p.ln() - (-p).ln_1p();
    let mut term = f64::from(of) * (-p).ln_1p();
    let mut sum = term.exp();
    for number in 0..count {
        term += (f64::from(of - number) / f64::from(number + 1)).ln() + odds;
        sum += term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Clopper and Pearson's interval as R's binom.test prints it.
        for (count, of, low, high) in [
            (0, 10, 0.0, 0.3085),
            (10, 10, 0.6915, 1.0),
            (1, 10, 0.0025, 0.4450),
            (5, 100, 0.0164, 0.1128),
            (50, 100, 0.3983, 0.6017),
        ] {
            let (found_low, found_high) = Proportion { count, of }.interval();
            assert!((found_low - low).abs() < 1e-4, "{count}/{of}: {found_low}");
            assert!((found_high - high).abs() < 1e-4, "{count}/{of}: {found_high}");
        }
    }

    #[test]
    fn many_runs_do_not_underflow() {
        let (low, high) = Proportion {
            count: 5000,
            of: 10_000,
        }
        .interval();
        assert!(
            low > 0.489 && low < 0.5 && high > 0.5 && high < 0.511,
            "{low} {high}"
        );
        // The rule of three: nothing in n runs means less than about 3.7 in n (two sides).
        let (_, high) = Proportion { count: 0, of: 10_000 }.interval();
        assert!((high * 10_000.0 - 3.69).abs() < 0.01, "{high}");
        assert_eq!(Proportion { count: 0, of: 0 }.interval(), (0.0, 1.0));
    }
}
