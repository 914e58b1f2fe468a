//! A commented policy to begin with.

use std::{fmt::Write as _, io};

use crate::{Policy, reading::span};

/// What is known of a system before its first policy is written.
///
/// ```
/// use retryguard_policy::{Draft, Policy};
///
/// let draft = Draft {
///     services: vec!["payments".to_owned()],
///     ..Draft::default()
/// };
/// assert!(Policy::parse(&draft.text()).is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct Draft {
    /// Services that others call.
    pub services: Vec<String>,
    /// Which service calls which.
    pub calls: Vec<(String, String)>,
    /// Services whose requests must not be done twice, and that honour idempotency keys.
    pub keys: Vec<String>,
    /// How long a call may take in all, as a policy writes it.
    pub deadline: String,
    /// How long one attempt may take, as a policy writes it.
    pub attempt_timeout: String,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            services: Vec::new(),
            calls: Vec::new(),
            keys: Vec::new(),
            deadline: "3s".to_owned(),
            attempt_timeout: "900ms".to_owned(),
        }
    }
}

impl Draft {
    /// Asks for what is known. `question` is given a question and the usual answer. What no policy can say is asked again; the
    /// question begins with what is wrong then.
    ///
    /// # Errors
    /// Where there is no answer.
    pub fn ask(&mut self, question: &mut dyn FnMut(&str, &str) -> io::Result<String>) -> io::Result<()> {
        let given = self.clone();
        self.services = names(&until_right(
            question,
            "Which services do you call? (names with commas)",
            "",
            |answer| Self {
                services: names(answer),
                ..Self::default()
            },
        )?);
        self.deadline = until_right(
            question,
            "How long may a call take in all?",
            &given.deadline,
            |answer| Self {
                deadline: answer.to_owned(),
                ..Self::default()
            },
        )?;
        self.attempt_timeout = until_right(
            question,
            "How long may one attempt take? (a little above the 99th percentile)",
            &given.attempt_timeout,
            |answer| Self {
                attempt_timeout: answer.to_owned(),
                ..Self::default()
            },
        )?;
        self.keys = names(&until_right(
            question,
            "Which of them must not do a request twice, and honour idempotency keys?",
            "",
            |answer| Self {
                keys: names(answer),
                ..Self::default()
            },
        )?);
        Ok(())
    }

    /// The policy. What was given is not checked; the reader of policies does that.
    #[must_use]
    pub fn text(&self) -> String {
        let mut names: Vec<&str> = self.services.iter().map(String::as_str).collect();
        let more = self.calls.iter().flat_map(|(from, to)| [from.as_str(), to]);
        for name in more.chain(self.keys.iter().map(String::as_str)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut out = format!(
            "# yaml-language-server: $schema={}/raw/main/docs/policy.schema.json\n\
             # Every key is explained by `retryguard explain KEY`; what is not written here has a safe default: retries\n\
             # under full jitter and paid from a budget, at most two for a call until it is measured that more help, and a breaker.\n\
             defaults:\n  \
             # How long a call may take in all, its retries included.\n  deadline: {}\n  \
             # How long one attempt may take: a little above the 99th percentile of what is called.\n  attemptTimeout: {}\n",
            env!("CARGO_PKG_REPOSITORY"),
            self.deadline,
            self.attempt_timeout
        );
        if !names.is_empty() {
            out.push_str("\nservices:\n");
        }
        for name in names {
            let called: Vec<&str> = self
                .calls
                .iter()
                .filter(|(from, _)| from == name)
                .map(|(_, to)| to.as_str())
                .collect();
            let _ = writeln!(out, "  {name}:");
            if called.is_empty() {
                out.push_str("    # The lowest layer retries; the layers above it pass failures on.\n    maxRetries: 2\n");
            } else {
                let outer = span(&self.deadline).map_or_else(
                    || "10s".to_owned(),
                    |own| format!("{}ms", own.as_millis().saturating_mul(2)),
                );
                let _ = writeln!(
                    out,
                    "    # It calls others, which retry for it: a second layer of retries would multiply theirs.\n    \
                     maxRetries: 0\n    # Timeouts grow towards the edge: it must outlast what it calls.\n    \
                     deadline: {outer}\n    attemptTimeout: off\n    calls: [{}]",
                    called.join(", ")
                );
            }
            if self.keys.iter().any(|key| key == name) {
                out.push_str(
                    "    # Requests that must not be done twice carry a key, which the service honours.\n    \
                     idempotency: {addKeys: true}\n",
                );
            }
        }
        out
    }
}

/// Asks until the answer makes a policy by itself.
fn until_right(
    question: &mut dyn FnMut(&str, &str) -> io::Result<String>,
    words: &str,
    usual: &str,
    draft: impl Fn(&str) -> Draft,
) -> io::Result<String> {
    let mut asked = words.to_owned();
    loop {
        let answer = question(&asked, usual)?;
        let Err(mistakes) = Policy::parse(&draft(&answer).text()) else {
            return Ok(answer);
        };
        asked = format!("{}\n{words}", mistakes.without_places());
    }
}

/// Names with commas between them.
fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_is_asked_again_and_the_others_are_kept() {
        let mut answers = [
            "orders payments",
            "orders, payments",
            "soon",
            "2s",
            "900ms",
            "payments\t",
        ]
        .into_iter();
        let mut asked = Vec::new();
        let mut draft = Draft::default();
        draft
            .ask(&mut |words, _| {
                asked.push(words.to_owned());
                Ok(answers.next().expect("no further question").to_owned())
            })
            .unwrap();
        assert_eq!(answers.next(), None);
        assert_eq!((draft.services.len(), draft.deadline.as_str()), (2, "2s"));
        assert_eq!(draft.keys, ["payments"]);
        let begins = [
            "Which",
            "the service name `orders payments`",
            "How",
            "`deadline` is `soon`",
        ];
        for (begin, asked) in begins.iter().zip(&asked) {
            assert!(asked.starts_with(begin), "{asked}");
            assert!(!asked.contains("line "), "{asked}");
        }
    }

    #[test]
    fn no_answer_ends_the_questions() {
        let none = &mut |_: &str, _: &str| Err(io::ErrorKind::UnexpectedEof.into());
        let error = Draft::default().ask(none).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
