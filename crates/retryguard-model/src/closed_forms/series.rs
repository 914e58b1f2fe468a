//! The one sum that every form is made of.

/// 1 + r + … + r^(n−1) for r ≥ 0, to full precision also where r nears 1, which is where the textbook quotient
/// loses every digit: p̃ near ½ in a doubled wait, ρ near 1 in a queue.
pub(super) fn geometric(r: f64, n: u32) -> f64 {
    let beyond_one = r - 1.0;
    if n == 0 || beyond_one == 0.0 {
        f64::from(n)
    } else {
        (f64::from(n) * beyond_one.ln_1p()).exp_m1() / beyond_one
    }
}

/// r + … + r^(n−1) for r ≥ 0 and n ≥ 1: the retries among n attempts.
pub(super) fn without_the_first(r: f64, n: u32) -> f64 {
    r * geometric(r, n - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_added_up_one_by_one() {
        for r in [0.0, 1e-90, 0.3, 0.999_999_999, 1.0, 1.000_000_001, 1.6, 3.0] {
            assert_eq!(geometric(r, 0), 0.0);
            for n in [1, 2, 7, 60] {
                let (sum, _) = (0..n).fold((0.0, 1.0), |(sum, power), _| (sum + power, power * r));
                let ratio = geometric(r, n) / sum;
                assert!((ratio - 1.0).abs() < 1e-13, "r {r} n {n}: {ratio}");
            }
        }
    }
}
