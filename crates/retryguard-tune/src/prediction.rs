//! What retries do to a target, from closed forms, before anything is built.

use retryguard_model::closed_forms::{
    Attempts, BadInput, Below, Buffer, Delay, Feedback, Load, Overload, Threshold,
};
use serde_json::{Value, json};

/// Algorithm 1 of Tavori et al. 2025 has one threshold and must hold it exactly; the other modes do not use this number.
const GUARD_MODE: &str = "it is the `threshold` of `guard: {mode: algorithm1}`; the other modes have two thresholds with a gap \
                          between them, or none, and need no such number";

/// Rejection, retries, load and delay from closed forms, and where to set the guard.
///
/// Above capacity (load > 1) the forms are those of pure overload; up to capacity rejections come from a full
/// buffer (M/M/1/m). Delays are in units of the first wait, which doubles with every retry.
#[derive(Debug)]
pub struct Prediction {
    load: Load,
    attempts: Attempts,
    buffer: Buffer,
    rejection: f64,
    retries_per_call: f64,
    total_load: f64,
    delay: Delay,
    feedback: Feedback,
    threshold: Threshold,
}

impl Prediction {
    /// Of the offered calls over the capacity, the attempts that a call may make, and the calls that the target holds at once.
    ///
    /// # Errors
    /// Where a number is out of its bounds.
    pub fn new(load: f64, attempts: u32, buffer: u32) -> Result<Self, BadInput> {
        let load = Load::new(load)?;
        let attempts = Attempts::new(attempts)?;
        let buffer = Buffer::new(buffer)?;
        let below = Below::new(load, attempts, buffer);
        let (rejection, retries_per_call, total_load, delay) = match Overload::new(load, attempts) {
            Ok(storm) => (
                storm.rejection(),
                storm.retries_per_call(),
                storm.total_load(),
                storm.delay(),
            ),
            Err(_) => (
                below.rejection(),
                below.retries_per_call(),
                below.total_load(),
                below.delay(),
            ),
        };
        Ok(Self {
            load,
            attempts,
            buffer,
            rejection,
            retries_per_call,
            total_load,
            delay,
            feedback: below.with_feedback(),
            threshold: Threshold::new(load, attempts, buffer),
        })
    }

    fn overloaded(&self) -> bool {
        self.load > Load::CAPACITY
    }

    fn model(&self) -> String {
        if self.overloaded() {
            "overload: the target serves its capacity and rejects the rest".to_owned()
        } else {
            let m = self.buffer.get();
            format!("up to capacity: M/M/1/{m}, a call is rejected when the buffer is full")
        }
    }

    /// To a tenth of a per cent where that lies between the two: a threshold cannot be measured more finely.
    fn guard_threshold(&self) -> Option<f64> {
        let exact = self.threshold.value()?;
        let rounded = (exact * 1000.0).round() / 1000.0;
        let fits = rounded > self.threshold.above && rounded < self.threshold.below;
        Some(if fits { rounded } else { exact })
    }

    fn guard_reason(&self) -> String {
        let Threshold {
            above,
            below,
            normal,
            overload,
        } = self.threshold;
        let (quiet, loud) = (percent(above), percent(below));
        let (normal, overload) = (percent(normal.get()), percent(overload.get()));
        match self.guard_threshold() {
            Some(_) => format!(
                "with retries on, {quiet} of attempts are rejected at {normal} load: a lower threshold switches retries off at normal load; with retries off, {loud} are rejected at {overload} load: with a higher one, the effect of switching off looks like a recovery, and the guard flaps"
            ),
            None => format!(
                "no threshold tells {normal} load with retries ({quiet} rejected) from {overload} load without \
                 ({loud}): give the target a larger buffer or calls fewer attempts"
            ),
        }
    }

    /// One JSON object.
    #[must_use]
    pub fn as_json(&self) -> Value {
        json!({
            "load": self.load.get(),
            "attempts": self.attempts.get(),
            "buffer": self.buffer.get(),
            "model": if self.overloaded() { "overload" } else { "M/M/1/m" },
            "rejection": self.rejection,
            "retriesPerCall": self.retries_per_call,
            "totalLoad": self.total_load,
            "expectedDelay": self.delay.expected(),
            "expectedDelayLastWaitOmitted": self.delay.last_wait_omitted(),
            "expectedDelayPaperEq8": self.delay.printed(),
            "withFeedback": {
                "rejection": self.feedback.rejection,
                "retriesPerCall": self.feedback.retries_per_call,
                "totalLoad": self.feedback.total_load,
            },
            "guardThreshold": self.guard_threshold(),
            "guardThresholdReason": self.guard_reason(),
            "guardThresholdOf": GUARD_MODE,
        })
    }

    /// Lines for people; the last one says what it comes to.
    #[must_use]
    pub fn as_text(&self) -> String {
        let k = self.attempts.get();
        let mut lines = vec![
            format!(
                "load {}, {}; {}",
                plain(self.load.get()),
                counted(k),
                self.model()
            ),
            line("rejection", &percent(self.rejection), "of attempts"),
            line("retries", &number(self.retries_per_call), "a call"),
            line("total load", &number(self.total_load), "times the capacity"),
            line(
                "expected delay",
                &number(self.delay.expected()),
                &format!(
                    "first waits, as Tavori et al. 2025 define it: a wait after each of {k} (Eqs. 6 and 7)"
                ),
            ),
            line(
                "",
                &number(self.delay.last_wait_omitted()),
                &format!(
                    "first waits without the last, which no attempt follows: between {}",
                    counted(k)
                ),
            ),
            line(
                "",
                &number(self.delay.printed()),
                "first waits as Tavori et al. 2025 print it (Eq. 8, not the sum of Eqs. 6 and 7)",
            ),
        ];
        lines.push(line(
            "with feedback",
            &percent(self.feedback.rejection),
            &format!(
                "rejected, {} retries a call, once retries fill the buffer of {} too",
                number(self.feedback.retries_per_call),
                self.buffer.get()
            ),
        ));
        let threshold = self.guard_threshold().map_or_else(|| "none".to_owned(), percent);
        lines.push(line("guard threshold", &threshold, &self.guard_reason()));
        lines.push(line("", "", GUARD_MODE));
        lines.push(String::new());
        lines.push(self.verdict());
        lines.join("\n") + "\n"
    }

    /// What it comes to, in one sentence.
    fn verdict(&self) -> String {
        let (load, total) = (self.load.get(), self.total_load);
        if self.attempts.get() == 1 {
            return format!(
                "Without retries {} of the calls are rejected.",
                percent(self.rejection)
            );
        }
        if self.overloaded() {
            return format!(
                "Retries raise the load from {load:.2} to {total:.2} times the capacity and serve no call more: suspend them."
            );
        }
        format!(
            "Retries add {} to the load and hide the rejection of {} of the attempts: keep them, within a budget.",
            percent(self.retries_per_call),
            percent(self.rejection)
        )
    }
}

/// A name, a value and its meaning, folded below itself so that a line has at most 100 columns.
fn line(name: &str, value: &str, meaning: &str) -> String {
    const BEFORE: usize = 28;
    const WIDTH: usize = 100 - BEFORE;
    let mut out = format!("{name:<16}{value:>10}  ");
    let mut column = 0;
    for word in meaning.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(BEFORE));
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn counted(attempts: u32) -> String {
    format!("{attempts} attempt{}", if attempts == 1 { "" } else { "s" })
}

/// As it was given, unless that is a line of zeros.
fn plain(value: f64) -> String {
    if (1e-4..1e6).contains(&value) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

fn number(value: f64) -> String {
    if value == 0.0 || (1e-4..1e6).contains(&value) {
        format!("{value:.4}")
    } else {
        format!("{value:.3e}")
    }
}

fn percent(share: f64) -> String {
    if share == 0.0 || share >= 1e-4 {
        let text = format!("{:.2}", share * 100.0);
        format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
    } else {
        format!("{:.2e} %", share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_scripts_read() {
        let json = Prediction::new(1.5, 5, 50).unwrap().as_json();
        for (key, expected) in [
            ("rejection", "0.8027"),
            ("retriesPerCall", "2.3797"),
            ("totalLoad", "5.0695"),
            ("expectedDelay", "12.8159"),
            ("expectedDelayLastWaitOmitted", "7.4826"),
            ("expectedDelayPaperEq8", "14.8543"),
        ] {
            assert_eq!(format!("{:.4}", json[key].as_f64().unwrap()), expected, "{key}");
        }
        assert_eq!(json["model"], "overload");
        let threshold = json["guardThreshold"].as_f64().unwrap();
        assert!((0.005..0.0909).contains(&threshold), "{threshold}");
    }

    #[test]
    fn up_to_capacity_the_buffer_decides_and_the_text_says_so() {
        let prediction = Prediction::new(0.8, 3, 10).unwrap();
        let rejection = 0.2 * 0.8_f64.powi(10) / (1.0 - 0.8_f64.powi(11));
        assert!((prediction.rejection - rejection).abs() < 1e-12);
        assert_eq!(prediction.as_json()["model"], "M/M/1/m");
        assert!(prediction.as_text().contains("M/M/1/10"));
        // At capacity too: 1/(m + 1).
        assert!((Prediction::new(1.0, 3, 10).unwrap().rejection - 1.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn without_a_threshold_the_reason_says_what_to_change() {
        let prediction = Prediction::new(1.5, 5, 1).unwrap();
        assert_eq!(prediction.as_json()["guardThreshold"], Value::Null);
        assert!(prediction.guard_reason().contains("larger buffer"));
        // A hair of overload has a threshold too, too fine to be rounded.
        let slight = Prediction::new(1.000_001, 5, 1_000_000)
            .unwrap()
            .guard_threshold()
            .unwrap();
        assert!(slight > 0.0 && slight < 1e-5, "{slight}");
    }

    #[test]
    fn lines_fit_a_hundred_columns() {
        for (load, attempts, buffer) in [(1.5, 5, 50), (0.8, 3, 10), (1.5, 5, 1), (1.0, 1, 1_000_000)] {
            let text = Prediction::new(load, attempts, buffer).unwrap().as_text();
            // The last line is a sentence.
            for line in text.lines().rev().skip(1) {
                assert!(line.chars().count() <= 100, "{line}");
            }
        }
    }

    #[test]
    fn numbers_that_cannot_be_used() {
        assert!(Prediction::new(-1.0, 5, 50).is_err());
        assert!(Prediction::new(1.5, 0, 50).is_err());
        assert!(Prediction::new(1.5, 5, 0).is_err());
    }

    #[test]
    fn small_shares_are_not_shown_as_nothing() {
        assert_eq!(percent(2.85e-6), "2.85e-4 %");
        assert_eq!(percent(0.2), "20 %");
        assert_eq!(number(0.0), "0.0000");
    }
}
