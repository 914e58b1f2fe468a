//! The time scale: every duration of an experiment shortened by the same factor, so that two minutes of a fault
//! can be seen in twelve seconds without changing its effects.

use std::time::Duration;

/// A factor on all durations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeScale(f64);

/// Below this, the millisecond of a timer and the cost of a request would be what is measured.
pub const LEAST: f64 = 0.02;

/// Above this, an experiment of two minutes takes half an hour.
pub const MOST: f64 = 10.0;

impl TimeScale {
    /// As described: nothing is shortened.
    pub const ONE: Self = Self(1.0);

    /// A factor from 0.02 to 10.
    ///
    /// # Errors
    /// Where the factor lies outside.
    pub fn new(factor: f64) -> anyhow::Result<Self> {
        if !(LEAST..=MOST).contains(&factor) {
            anyhow::bail!("a time scale of {factor} does not work: choose one from {LEAST} to {MOST}");
        }
        Ok(Self(factor))
    }

    /// The factor.
    #[must_use]
    pub const fn factor(self) -> f64 {
        self.0
    }

    /// A described span as it passes here.
    #[must_use]
    pub fn span(self, described: Duration) -> Duration {
        described.mul_f64(self.0)
    }

    /// A span that passed here, as it would be described.
    #[must_use]
    pub fn described(self, span: Duration) -> Duration {
        span.div_f64(self.0)
    }

    /// A policy with every duration that it writes shortened. What it does not write stays at the default,
    /// which is why the laboratory's policies write all durations out.
    ///
    /// The text is changed and not the compiled form, so that what runs can be printed, read and linted.
    #[must_use]
    pub fn policy(self, text: &str) -> String {
        if self.0 == 1.0 {
            return text.to_owned();
        }
        text.lines()
            .map(|line| self.line(line))
            .collect::<Vec<_>>()
            .join("\n")
            + "\n"
    }

    fn line(self, line: &str) -> String {
        let (code, comment) = match line.find('#') {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        let mut out = String::new();
        let mut word = String::new();
        for letter in code.chars() {
            if letter.is_ascii_alphanumeric() || letter == '.' || letter == '%' || letter == '-' {
                word.push(letter);
            } else {
                out += &self.word(&word);
                word.clear();
                out.push(letter);
            }
        }
        out += &self.word(&word);
        out + comment
    }

    fn word(self, word: &str) -> String {
        // A bare number has no unit and is not a duration, except zero, which needs no scaling.
        let is_duration =
            word.ends_with(['s', 'm', 'h']) && word.starts_with(|first: char| first.is_ascii_digit());
        match retryguard_policy::reading::span(word).filter(|_| is_duration) {
            Some(span) if !span.is_zero() => written(self.span(span)),
            _ => word.to_owned(),
        }
    }
}

/// Microseconds are fine enough, and every duration of a policy may carry them.
fn written(span: Duration) -> String {
    format!("{}us", span.as_micros().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_shrink_and_nothing_else_does() {
        let scale = TimeScale::new(0.1).unwrap();
        let text = "a: {limit: 20, wait: 1s, percent: 20%, for: 1m30s} # 5s\nb: 250ms\nc: 0s\nd: sku-7s\n";
        assert_eq!(
            scale.policy(text),
            "a: {limit: 20, wait: 100000us, percent: 20%, for: 9000000us} # 5s\nb: 25000us\nc: 0s\nd: sku-7s\n"
        );
    }

    #[test]
    fn one_changes_no_byte() {
        assert_eq!(TimeScale::ONE.policy("a: 1s"), "a: 1s");
    }

    #[test]
    fn factors_outside_are_refused_with_the_bounds() {
        for factor in [0.0, -1.0, 0.019, 10.1, f64::NAN] {
            let error = TimeScale::new(factor).unwrap_err().to_string();
            assert!(error.contains("0.02") && error.contains("10"), "{error}");
        }
        assert!(TimeScale::new(LEAST).is_ok() && TimeScale::new(MOST).is_ok());
    }
}
