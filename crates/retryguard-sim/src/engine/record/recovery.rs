//! How long it took until things were well again.

use retryguard_core::Instant;

/// Ends of calls in each second.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    ends: Vec<(u32, u32)>,
    /// Where the second after the last one begins, in nanoseconds.
    next: u64,
}

const SECOND: u64 = 1_000_000_000;

/// So many seconds in a row must be well.
const SUSTAINED: usize = 10;
const WELL: f64 = 0.95;

impl Seconds {
    /// Time only goes forward, so a call ends in the last second or in a new one.
    #[inline]
    pub(super) fn add(&mut self, now: Instant, success: bool) {
        if now.as_nanos() >= self.next {
            let second = now.as_nanos() / SECOND;
            self.next = (second + 1) * SECOND;
            self.ends
                .resize(usize::try_from(second).unwrap_or(usize::MAX) + 1, (0, 0));
        }
        if let Some(last) = self.ends.last_mut() {
            last.0 += 1;
            last.1 += u32::from(success);
        }
    }

    /// From `fault` until more than 95 % succeeded over ten seconds, those ten seconds included; zero where
    /// it was never otherwise, `None` where it never came to that again before `ends`.
    pub(super) fn recovery(&self, fault: Instant, ends: Instant) -> Option<f64> {
        let second = |at: Instant| usize::try_from(at.as_nanos() / SECOND).unwrap_or(usize::MAX);
        let (first, last) = (second(fault), second(ends).min(self.ends.len()));
        let mut hurt = false;
        for at in first..last.saturating_sub(SUSTAINED - 1) {
            let (all, well) = self.ends[at..at + SUSTAINED]
                .iter()
                .fold((0, 0), |(all, well), second| (all + second.0, well + second.1));
            let is_well = f64::from(well) > WELL * f64::from(all);
            if !is_well {
                hurt = true;
            } else if hurt {
                #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
                return Some((at + SUSTAINED - first) as f64);
            }
        }
        (!hurt).then_some(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_counts_from_the_fault_to_ten_good_seconds() {
        let mut seconds = Seconds::default();
        for second in 0..200 {
            for call in 0..10 {
                let broken = (50..80).contains(&second) && call < 5;
                seconds.add(Instant::from_secs(second), !broken);
            }
        }
        let ends = Instant::from_secs(200);
        assert_eq!(seconds.recovery(Instant::from_secs(50), ends), Some(40.0));
        assert_eq!(seconds.recovery(Instant::from_secs(100), ends), Some(0.0));
        assert_eq!(
            seconds.recovery(Instant::from_secs(50), Instant::from_secs(85)),
            None
        );
    }
}
