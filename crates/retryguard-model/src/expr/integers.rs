//! Whole numbers that may leave 64 bits.
//!
//! `min(cap, base*pow(2, n))` is how authors write a capped back-off, and at n = 9999 its second argument has three
//! thousand digits. The value is still the cap. So a number too large is carried as "above every number", and is a
//! fault only where its size would matter: when it is stored, or compared with another one like it.

/// Above every number.
pub(super) const ABOVE: i64 = i64::MAX;
/// Below every number.
pub(super) const BELOW: i64 = i64::MIN;

pub(super) fn is_end(a: i64) -> bool {
    a == ABOVE || a == BELOW
}

fn end(positive: bool) -> i64 {
    if positive { ABOVE } else { BELOW }
}

pub(super) fn add(a: i64, b: i64) -> Option<i64> {
    match (is_end(a), is_end(b)) {
        (true, true) if a != b => None,
        (true, _) => Some(a),
        (_, true) => Some(b),
        _ => Some(a.saturating_add(b)),
    }
}

pub(super) fn negate(a: i64) -> i64 {
    match a {
        ABOVE => BELOW,
        BELOW => ABOVE,
        _ => -a,
    }
}

pub(super) fn multiply(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 {
        return 0;
    }
    if is_end(a) || is_end(b) {
        return end((a > 0) == (b > 0));
    }
    a.checked_mul(b).unwrap_or(end((a > 0) == (b > 0)))
}

/// `None` for a negative exponent, which has no whole result.
pub(super) fn power(base: i64, exponent: i64) -> Option<i64> {
    if exponent < 0 {
        return None;
    }
    if matches!(base, 0 | 1) || exponent == 0 {
        return Some(if exponent == 0 { 1 } else { base });
    }
    let odd = exponent % 2 == 1;
    if base == -1 {
        return Some(if odd { -1 } else { 1 });
    }
    let small = u32::try_from(exponent).ok().filter(|_| !is_end(base));
    Some(
        small
            .and_then(|exponent| base.checked_pow(exponent))
            .unwrap_or(end(base > 0 || !odd)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_keeps_its_side() {
        assert_eq!(power(2, 10), Some(1024));
        assert_eq!(power(2, 9999), Some(ABOVE));
        assert_eq!(power(-2, 9999), Some(BELOW));
        assert_eq!(power(-1, 9999), Some(-1));
        assert_eq!(power(2, -1), None);
        assert_eq!(multiply(5, ABOVE), ABOVE);
        assert_eq!(multiply(-5, ABOVE), BELOW);
        assert_eq!(multiply(0, ABOVE), 0);
        assert_eq!(add(ABOVE, -7), Some(ABOVE));
        assert_eq!(add(ABOVE, BELOW), None);
        assert_eq!(add(i64::MAX - 1, 5), Some(ABOVE));
        assert_eq!(negate(ABOVE), BELOW);
    }
}
