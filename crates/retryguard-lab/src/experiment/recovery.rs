//! When it was well again, as the described paper defines it.

/// So many seconds in a row must be well.
const SUSTAINED: usize = 10;

/// More than this share of the orders.
const WELL: f64 = 0.95;

/// From the second of the fault until more than 95 % succeeded over ten seconds, those ten included, in seconds. Zero
/// where it was never otherwise, none where it never came to that before the run ended.
///
/// `seconds` holds orders and successes.
#[must_use]
pub fn recovery(seconds: &[(u64, u64)], fault: usize) -> Option<f64> {
    let mut hurt = false;
    for at in fault..(seconds.len() + 1).saturating_sub(SUSTAINED) {
        let (all, well) = seconds[at..at + SUSTAINED]
            .iter()
            .fold((0, 0), |(all, well), second| (all + second.0, well + second.1));
        let is_well = well as f64 > WELL * all as f64;
        if !is_well {
            hurt = true;
        } else if hurt {
            return Some((at + SUSTAINED - fault) as f64);
        }
    }
    (!hurt).then_some(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(well: impl Fn(usize) -> bool) -> Vec<(u64, u64)> {
        (0..100)
            .map(|second| (10, if well(second) { 10 } else { 5 }))
            .collect()
    }

    #[test]
    fn counts_from_the_fault_to_ten_good_seconds() {
        // Ten seconds with one bad one are 95 % and not more; so the ten that end at 60 are the first.
        let seconds = line(|second| !(20..50).contains(&second));
        assert_eq!(recovery(&seconds, 20), Some(40.0));
    }

    #[test]
    fn nothing_happened_or_it_never_ended() {
        assert_eq!(recovery(&line(|_| true), 20), Some(0.0));
        assert_eq!(recovery(&line(|second| second < 20), 20), None);
    }
}
