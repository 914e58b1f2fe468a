//! How many of many: exact binomial draws in constant time.

use crate::streams::Stream;

/// The number of successes among `n` independent trials of probability `p`.
///
/// Where few are expected, by inversion, which walks up from zero; otherwise by Hörmann's transformed rejection
/// (BTRS, 1993), whose cost does not grow with `n`. Both are exact, not a normal approximation: a cohort's tail is
/// where spikes come from.
#[must_use]
pub fn draw(n: u64, p: f64, stream: &mut Stream) -> u64 {
    if n == 0 || p <= 0.0 {
        0
    } else if p >= 1.0 {
        n
    } else if p > 0.5 {
        n - at_most_half(n, 1.0 - p, stream)
    } else {
        at_most_half(n, p, stream)
    }
}

/// Below this mean inversion is the faster one, and the bounds of the rejection do not hold.
const FEW: f64 = 10.0;

#[expect(clippy::cast_precision_loss, reason = "fleets are far below 2⁵³")]
fn at_most_half(n: u64, p: f64, stream: &mut Stream) -> u64 {
    if n as f64 * p < FEW {
        inversion(n, p, stream)
    } else {
        rejection(n, p, stream)
    }
}

#[expect(clippy::cast_precision_loss, reason = "fleets are far below 2⁵³")]
fn inversion(n: u64, p: f64, stream: &mut Stream) -> u64 {
    let odds = p / (1.0 - p);
    // At least e^-20 with a mean below 10 and p at most one half.
    let mut mass = (n as f64 * (-p).ln_1p()).exp();
    let mut left = stream.uniform();
    for successes in 0..n {
        if left < mass {
            return successes;
        }
        left -= mass;
        mass *= odds * (n - successes) as f64 / (successes + 1) as f64;
        // Rounding has eaten what was left: the rest of the tail is below one in 2⁵³.
        if mass < f64::MIN_POSITIVE {
            return successes;
        }
    }
    n
}

#[expect(
    clippy::many_single_char_names,
    reason = "the names of the published algorithm"
)]
#[expect(clippy::cast_precision_loss, reason = "fleets are far below 2⁵³")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the candidate was found to lie between 0 and n"
)]
fn rejection(count: u64, p: f64, stream: &mut Stream) -> u64 {
    let n = count as f64;
    let deviation = (n * p * (1.0 - p)).sqrt();
    let b = 2.53_f64.mul_add(deviation, 1.15);
    let a = 0.01_f64.mul_add(p, 0.0248_f64.mul_add(b, -0.0873));
    let c = n.mul_add(p, 0.5);
    let sure = 0.92 - 4.2 / b;
    loop {
        let u = stream.uniform() - 0.5;
        let v = stream.uniform();
        let from_edge = 0.5 - u.abs();
        let k = (2.0 * a / from_edge + b).mul_add(u, c).floor();
        if !(0.0..=n).contains(&k) {
            continue;
        }
        if from_edge >= 0.07 && v <= sure {
            return k as u64;
        }
        let alpha = (2.83 + 5.1 / b) * deviation;
        let height = (v * alpha / (a / (from_edge * from_edge) + b)).ln();
        if height <= log_mass_over_mode(n, p, k) {
            return k as u64;
        }
    }
}

/// The logarithm of P(k) over P(mode).
fn log_mass_over_mode(n: f64, p: f64, k: f64) -> f64 {
    let mode = ((n + 1.0) * p).floor();
    let odds = p / (1.0 - p);
    (mode + 0.5) * ((mode + 1.0) / (odds * (n - mode + 1.0))).ln()
        + (n + 1.0) * ((n - mode + 1.0) / (n - k + 1.0)).ln()
        + (k + 0.5) * (odds * (n - k + 1.0) / (k + 1.0)).ln()
        + stirling_rest(mode)
        + stirling_rest(n - mode)
        - stirling_rest(k)
        - stirling_rest(n - k)
}

/// ln k! − [ln √(2π) + (k + ½) ln(k + 1) − (k + 1)].
fn stirling_rest(k: f64) -> f64 {
    const SMALL: [f64; 10] = [
        0.081_061_466_795_327_26,
        0.041_340_695_955_409_29,
        0.027_677_925_684_998_34,
        0.020_790_672_103_765_09,
        0.016_644_691_189_821_19,
        0.013_876_128_823_070_75,
        0.011_896_709_945_891_77,
        0.010_411_265_261_972_09,
        0.009_255_462_182_712_733,
        0.008_330_563_433_362_87,
    ];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number below ten"
    )]
    if k < 10.0 {
        return SMALL[k as usize];
    }
    let next = k + 1.0;
    let square = next * next;
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / next
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small whole numbers that were made as floats"
)]
mod tests {
    use super::*;
    use crate::streams::{Purpose, Seed};

    /// Chi-square against the exact probabilities, in both methods and on both sides of one half.
    #[test]
    fn the_draws_have_the_masses_of_the_distribution() {
        for (n, p) in [
            (7, 0.3),
            (40, 0.1),
            (40, 0.5),
            (60, 0.85),
            (1000, 0.02),
            (100_000, 0.3),
        ] {
            let mut stream = Seed(5).stream(n, Purpose::Cohort);
            let draws = 200_000_u32;
            let deviation = (n as f64 * p * (1.0 - p)).sqrt();
            let lowest = (n as f64 * p - 4.0 * deviation).max(0.0).floor();
            let width = (deviation / 4.0).max(1.0).floor();
            let cells = (8.0 * deviation / width).ceil() as usize + 1;
            let cell = |k: f64| (((k - lowest) / width).floor().max(0.0) as usize).min(cells - 1);
            let mut expected = vec![0.0; cells];
            for k in 0..=n {
                expected[cell(k as f64)] += log_mass(n as f64, p, k as f64).exp() * f64::from(draws);
            }
            let mut found = vec![0.0; cells];
            for _ in 0..draws {
                found[cell(draw(n, p, &mut stream) as f64)] += 1.0;
            }
            let (mut square, mut freedom) = (0.0, -1.0);
            for (found, expected) in found
                .iter()
                .zip(&expected)
                .filter(|(_, expected)| **expected > 5.0)
            {
                square += (found - expected) * (found - expected) / expected;
                freedom += 1.0;
            }
            // Five deviations of a chi-square.
            assert!(
                square < freedom + 5.0 * (2.0_f64 * freedom).sqrt() + 10.0,
                "{n} {p}: {square} of {freedom}"
            );
        }
    }

    #[test]
    fn two_billion_at_once() {
        let mut stream = Seed(6).stream(0, Purpose::Cohort);
        let (n, p, draws) = (2_000_000_000_u64, 1.0 / 300.0, 20_000);
        let (mean, deviation) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let off = (draw(n, p, &mut stream) as f64 - mean) / deviation;
            sum += off;
            squares += off * off;
        }
        let draws = f64::from(draws);
        assert!((sum / draws).abs() < 4.0 / draws.sqrt(), "{}", sum / draws);
        assert!(
            (squares / draws - 1.0).abs() < 4.0 * (2.0 / draws).sqrt(),
            "{}",
            squares / draws
        );
    }

    #[test]
    fn none_and_all() {
        let mut stream = Seed(1).stream(0, Purpose::Cohort);
        assert_eq!(draw(0, 0.5, &mut stream), 0);
        assert_eq!(draw(9, 0.0, &mut stream), 0);
        assert_eq!(draw(9, 1.0, &mut stream), 9);
        assert_eq!(draw(u64::from(u32::MAX), 1e-300, &mut stream), 0);
    }

    fn log_mass(n: f64, p: f64, k: f64) -> f64 {
        log_factorial(n) - log_factorial(k) - log_factorial(n - k) + k * p.ln() + (n - k) * (1.0 - p).ln()
    }

    /// Added up, so that it shares nothing with the expansion above.
    fn log_factorial(k: f64) -> f64 {
        thread_local! {
            static TABLE: Vec<f64> = (0..=100_000).scan(0.0, |sum, k| {
                *sum += f64::from(k.max(1)).ln();
                Some(*sum)
            }).collect();
        }
        TABLE.with(|table| table[k as usize])
    }
}
