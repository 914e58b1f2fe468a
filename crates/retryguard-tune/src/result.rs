//! A found setting as text, JSON and picture.

use std::fmt::Write as _;

use serde_json::json;

use crate::{
    Lowered, picture,
    search::{Candidate, Found, Search, more},
};

impl Found {
    /// For a terminal.
    #[must_use]
    pub fn text(&self, lowered: &Lowered, search: &Search) -> String {
        let mut out = String::new();
        for loss in &lowered.losses {
            let _ = writeln!(out, "# {loss}");
        }
        let costs = |candidate: &Candidate| {
            format!(
                "total {:+.1} %, contention {:+.1} %",
                more(candidate.total, self.plain.total),
                more(candidate.contention, self.plain.contention)
            )
        };
        let _ = writeln!(out, "{}: {}", search.without.0, costs(&self.plain));
        for (name, candidate) in [("as written", &self.written), ("tuned", &self.tuned)] {
            let settings = (search.words)(&candidate.chosen, lowered.unit);
            let _ = writeln!(out, "{name}: {settings}: {}", costs(candidate));
        }
        let _ = writeln!(
            out,
            "# in the policy, under the service (it passes `retryguard lint`):"
        );
        for line in (search.advice)(&self.tuned.chosen, lowered.unit).lines() {
            let _ = writeln!(out, "    {line}");
        }
        let _ = writeln!(out, "\n{}", self.sentence());
        out
    }

    /// The tuned setting beside the written one.
    fn sentence(&self) -> String {
        let change = |tuned: f64, written: f64, what: &str| {
            let change = more(tuned, written);
            match change.abs() {
                slight if slight < 0.5 => format!("the same {what}"),
                percent if change < 0.0 => format!("{percent:.0} % less {what}"),
                percent => format!("{percent:.0} % more {what}"),
            }
        };
        format!(
            "Compared with the policy as written, the tuned one takes {} and causes {}.",
            change(self.tuned.total, self.written.total, "time"),
            change(self.tuned.contention, self.written.contention, "contention")
        )
    }

    /// For other programs.
    #[must_use]
    pub fn json(&self, lowered: &Lowered, search: &Search, more_time: f64) -> String {
        let one = |candidate: &Candidate| {
            let mut keys = (search.keys)(&candidate.chosen, lowered.unit);
            keys.insert("totalTime".to_owned(), json!(candidate.total));
            keys.insert("contentionTime".to_owned(), json!(candidate.contention));
            keys
        };
        let mut out = json!({
            "losses": lowered.losses,
            "moreTimePercent": more_time,
            "candidates": self.all.len(),
            "asWritten": one(&self.written),
            "tuned": one(&self.tuned),
            "policy": (search.advice)(&self.tuned.chosen, lowered.unit),
        });
        out[search.without.1] =
            json!({"totalTime": self.plain.total, "contentionTime": self.plain.contention});
        format!("{out:#}\n")
    }

    /// The trade-off as a picture.
    #[must_use]
    pub fn svg(&self, search: &Search, more_time: f64) -> String {
        picture::svg(self, more_time, search.without.0)
    }
}
