//! A result as text and JSON.

use std::fmt::Write as _;

use retryguard_report::table::aligned;
use retryguard_sim::comparison::{Summary, is_significant};
use serde_json::{Value, json};

use super::{Change, Improvement, Judged};

/// What is reported of a policy in replications that the search has not seen: key, title, digits.
const COLUMNS: [(&str, &str, usize); 5] = [
    ("goodputPerSecond", "goodput/s", 2),
    ("successRate", "success", 4),
    ("amplification", "requests/call", 3),
    ("bill", "bill", 4),
    ("p95Ms", "p95 ms", 1),
];

impl Improvement {
    /// The policy file, with where it comes from.
    #[must_use]
    pub fn file(&self) -> String {
        let world = self.judged.first().map_or("", |judged| judged.name.as_str());
        format!(
            "# Tuned by `retryguard tune --scenario` in the world `{}`, seed {}: {} settings in {} runs.\n{}",
            world.replace(['\n', '\r'], " "),
            self.seed.0,
            self.tried.len(),
            self.runs,
            self.policy
        )
    }

    /// The result for a terminal, with the policy file at its end where it is asked for.
    #[must_use]
    pub fn text(&self, with_file: bool) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{} settings in {} runs", self.tried.len(), self.runs);
        for judged in &self.judged {
            let _ = writeln!(
                out,
                "\n{}, in replications that the search has not seen:",
                judged.name
            );
            out.push_str(&aligned(&judged.rows(self.is_bill)));
            let _ = writeln!(out, "{}", judged.verdict());
        }
        out.push('\n');
        for Change { key, before, after } in &self.changes {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "not written".to_owned());
            let _ = writeln!(out, "{key}: {} -> {}", shown(before), shown(after));
        }
        if !self.left_out.is_empty() {
            let _ = writeln!(
                out,
                "not searched, because each called service writes it itself (give --service): {}",
                self.left_out.join(", ")
            );
        }
        for it in &self.findings {
            let _ = writeln!(
                out,
                "lint still reports {} {}: {}; {}",
                it.severity, it.code, it.message, it.cure
            );
        }
        let _ = writeln!(out, "\n{}", self.conclusion());
        if with_file {
            let _ = write!(out, "\n{}", self.file());
        }
        out
    }

    /// What to do with the result, in one sentence.
    fn conclusion(&self) -> String {
        if self.changes.is_empty() {
            return "Nothing better was found than the policy as it is.".to_owned();
        }
        let judged = self.judged.first();
        let gain = judged.and_then(|it| it.tuned.difference(&it.written, "goodputPerSecond"));
        match gain {
            Some(gain) if is_significant(&gain) && gain.mean > 0.0 => format!(
                "Tuned, the policy serves {:.1} calls a second more than as written.",
                gain.mean
            ),
            Some(gain) if is_significant(&gain) => {
                "In new replications the tuned policy serves fewer calls: keep the policy as it is.".to_owned()
            }
            _ => "In new replications the tuned policy serves no more calls than the written one, within the error: \
                  keep the policy as it is, unless the table shows another gain that you want."
                .to_owned(),
        }
    }

    /// The result for other programs.
    #[must_use]
    pub fn json(&self) -> String {
        let change = |it: &Change| json!({"key": it.key, "before": it.before, "after": it.after});
        let changes = |all: &[Change]| all.iter().map(change).collect::<Vec<_>>();
        let finite = |value: f64| value.is_finite().then_some(value);
        let out = json!({
            "policy": self.file(),
            "changes": changes(&self.changes),
            "cost": if self.is_bill { "bill" } else { "requestsPerSuccess" },
            "settings": self.tried.len(),
            "runs": self.runs,
            "notSearched": self.left_out,
            "findings": self.findings.iter()
                .map(|it| json!({"code": it.code, "message": it.message})).collect::<Vec<_>>(),
            "judged": self.judged.iter().map(Judged::json).collect::<Vec<_>>(),
            "tried": self.tried.iter().map(|it| json!({
                "changes": changes(&it.changes),
                "goodputPerSecond": it.figures.goodput,
                "cost": finite(it.figures.cost),
                "p95Ms": finite(it.figures.latency),
                "replications": it.replications,
            })).collect::<Vec<_>>(),
        });
        format!("{out:#}\n")
    }
}

impl Judged {
    fn rows(&self, is_bill: bool) -> Vec<Vec<String>> {
        let columns = || COLUMNS.iter().filter(|(key, ..)| is_bill || *key != "bill");
        let head = std::iter::once(String::new()).chain(columns().map(|(_, title, _)| (*title).to_owned()));
        let line = |name: &str, summary: &Summary| -> Vec<String> {
            let cells = columns().map(|(key, _, digits)| match summary.get(key) {
                None => "-".to_owned(),
                Some(it) => match it.half_width {
                    Some(half) => format!("{:.digits$} ±{half:.digits$}", it.mean),
                    None => format!("{:.digits$}", it.mean),
                },
            });
            std::iter::once(name.to_owned()).chain(cells).collect()
        };
        vec![
            head.collect(),
            line("as written", &self.written),
            line("tuned", &self.tuned),
        ]
    }

    /// Whether the difference of goodput is more than chance.
    fn verdict(&self) -> String {
        let Some(gain) = self.tuned.difference(&self.written, "goodputPerSecond") else {
            return String::new();
        };
        let Some(half) = gain.half_width else {
            return "one replication has no confidence interval: give --held-out 2 or more".to_owned();
        };
        let base = self.written.mean("goodputPerSecond");
        let share = match base > 0.0 {
            true => format!(" ({:+.1} %)", gain.mean / base * 100.0),
            false => String::new(),
        };
        if is_significant(&gain) {
            format!(
                "goodput {:+.2} ±{half:.2} a second{share}, with 95 % confidence",
                gain.mean
            )
        } else {
            format!("goodput {:+.2} ±{half:.2} a second: not significant", gain.mean)
        }
    }

    fn json(&self) -> Value {
        let summary = |summary: &Summary| -> serde_json::Map<String, Value> {
            COLUMNS
                .iter()
                .filter_map(|(key, ..)| Some(((*key).to_owned(), summary.get(key)?)))
                .map(|(key, it)| (key, json!({"mean": it.mean, "halfWidth": it.half_width})))
                .collect()
        };
        let gain = self.tuned.difference(&self.written, "goodputPerSecond");
        json!({
            "world": self.name,
            "asWritten": summary(&self.written),
            "tuned": summary(&self.tuned),
            "goodputGain": gain.map(|it| json!({
                "mean": it.mean, "halfWidth": it.half_width, "significant": is_significant(&it),
            })),
        })
    }
}
