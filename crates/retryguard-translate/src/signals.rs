//! Which failures are retried: a set that every system's words can be turned into, and a policy's lists.

use std::collections::BTreeSet;

use retryguard_core::outcome::{Hints, Outcome};
use retryguard_policy::{Classifier, NetworkError};

/// gRPC's codes that a list may name, with their numbers.
pub(crate) const CODES: [(&str, u8); 16] = [
    ("CANCELLED", 1),
    ("UNKNOWN", 2),
    ("INVALID_ARGUMENT", 3),
    ("DEADLINE_EXCEEDED", 4),
    ("NOT_FOUND", 5),
    ("ALREADY_EXISTS", 6),
    ("PERMISSION_DENIED", 7),
    ("RESOURCE_EXHAUSTED", 8),
    ("FAILED_PRECONDITION", 9),
    ("ABORTED", 10),
    ("OUT_OF_RANGE", 11),
    ("UNIMPLEMENTED", 12),
    ("INTERNAL", 13),
    ("UNAVAILABLE", 14),
    ("DATA_LOSS", 15),
    ("UNAUTHENTICATED", 16),
];

/// A failure of the network, by the kind that a policy calls it.
const NETWORK: [(&str, NetworkError); 3] = [
    ("unreachable", NetworkError::Connect),
    ("disconnected", NetworkError::Reset),
    ("timeout", NetworkError::Timeout),
];

/// The kinds of a policy with the statuses and codes that are read as them by default. `fault` has further statuses,
/// which no system names one by one.
const KINDS: [(&str, &[u16], &[&str]); 5] = [
    ("overload", &[429, 503], &["RESOURCE_EXHAUSTED", "UNAVAILABLE"]),
    ("fault", &[500], &["INTERNAL", "UNKNOWN", "DATA_LOSS", "ABORTED"]),
    ("timeout", &[408, 504], &["DEADLINE_EXCEEDED"]),
    ("disconnected", &[502], &[]),
    ("unreachable", &[], &[]),
];

/// What is retried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// HTTP statuses.
    pub(crate) statuses: BTreeSet<u16>,
    /// Every 5xx.
    pub(crate) all_5xx: bool,
    /// gRPC codes by name.
    pub(crate) codes: BTreeSet<&'static str>,
    /// `unreachable`, `disconnected` and `timeout`.
    pub(crate) network: BTreeSet<&'static str>,
}

impl Signals {
    pub(crate) fn network(mut self, kinds: &[&'static str]) -> Self {
        self.network.extend(kinds);
        self
    }

    fn has(&self, status: u16) -> bool {
        self.statuses.contains(&status) || (self.all_5xx && (500..600).contains(&status))
    }

    /// The lists `retryOn` and `neverRetryOn` that turn a policy's own reading into this set, and what they cannot say.
    pub(crate) fn lists(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let (mut retry, mut never, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, statuses, codes) in KINDS {
            let kept: Vec<u16> = statuses.iter().copied().filter(|it| self.has(*it)).collect();
            let kept_codes: Vec<&str> = codes
                .iter()
                .copied()
                .filter(|it| self.codes.contains(it))
                .collect();
            let network = NETWORK.iter().any(|(name, _)| *name == kind);
            let own = self.network.contains(kind);
            // A kind in a list stands for its statuses and codes, too.
            if !own && kept.is_empty() && kept_codes.is_empty() {
                never.push(kind.to_owned());
                continue;
            }
            if network && !own {
                lost.push(format!(
                    "{} is retried and the network's own {kind} is not: the policy retries both",
                    kept.first()
                        .map(ToString::to_string)
                        .or_else(|| kept_codes.first().map(ToString::to_string))
                        .unwrap_or_default()
                ));
            }
            never.extend(
                statuses
                    .iter()
                    .filter(|it| !self.has(**it))
                    .map(ToString::to_string),
            );
            never.extend(
                codes
                    .iter()
                    .filter(|it| !self.codes.contains(**it))
                    .map(ToString::to_string),
            );
        }
        if self.all_5xx {
            retry.push("5xx".to_owned());
        }
        let by_default = Classifier::default();
        let single = self.statuses.iter().filter(|status| {
            let covered = self.all_5xx && (500..600).contains(*status);
            !covered && !retried(&by_default.http(**status, Hints::NONE))
        });
        retry.extend(single.map(ToString::to_string));
        retry.extend(
            CODES
                .iter()
                .filter(|(name, code)| {
                    self.codes.contains(name) && !retried(&by_default.grpc(*code, Hints::NONE))
                })
                .map(|(name, _)| (*name).to_owned()),
        );
        (retry, never, lost)
    }

    /// What a policy retries. `all_5xx` only where no 5xx is left out.
    pub(crate) fn of(classifier: &Classifier) -> Self {
        let http = |status: &u16| retried(&classifier.http(*status, Hints::NONE));
        let all_5xx = (500..600).all(|status| http(&status));
        let known = KINDS.iter().flat_map(|(_, statuses, _)| statuses.iter().copied());
        // Statuses that no policy retries by default: those that are retried were asked for.
        let by_default = Classifier::default();
        let asked =
            (400..600).filter(|status| http(status) && !retried(&by_default.http(*status, Hints::NONE)));
        Self {
            statuses: known
                .chain(asked)
                .filter(|status| http(status) && !(all_5xx && *status >= 500))
                .collect(),
            all_5xx,
            codes: CODES
                .iter()
                .filter(|(_, code)| retried(&classifier.grpc(*code, Hints::NONE)))
                .map(|(name, _)| *name)
                .collect(),
            network: NETWORK
                .iter()
                .filter(|(_, error)| retried(&classifier.network(*error)))
                .map(|(name, _)| *name)
                .collect(),
        }
    }
}

fn retried(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failure(failure) if failure.retryable)
}

/// The gRPC code of this name, in any spelling: `unavailable`, `resource-exhausted`, `RESOURCE_EXHAUSTED`, `14`.
pub(crate) fn code(word: &str) -> Option<&'static str> {
    let plain = word.trim().to_uppercase().replace('-', "_");
    CODES
        .iter()
        .find(|(name, number)| *name == plain || number.to_string() == plain)
        .map(|(name, _)| *name)
}

/// Envoy's `retry_on` (and Istio's, whose list may hold statuses): what is retried, and which words are not known.
pub(crate) fn envoy(words: &str, retriable: &[u16]) -> (Signals, Vec<String>) {
    let mut found = Signals::default();
    let mut strange = Vec::new();
    for word in words
        .split([',', ' '])
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        match word {
            // A reset counts as a 5xx, and so does a per-try timeout.
            "5xx" => {
                found.all_5xx = true;
                found = found.network(&["unreachable", "disconnected", "timeout"]);
            }
            "gateway-error" => {
                found.statuses.extend([502, 503, 504]);
                found = found.network(&["unreachable", "disconnected", "timeout"]);
            }
            "reset" => found = found.network(&["disconnected", "timeout"]),
            "connect-failure" | "refused-stream" | "reset-before-request" => {
                found = found.network(&["unreachable"]);
            }
            "retriable-4xx" => {
                found.statuses.insert(409);
            }
            "retriable-status-codes" => found.statuses.extend(retriable),
            "cancelled" | "deadline-exceeded" | "internal" | "resource-exhausted" | "unavailable" => {
                found.codes.extend(code(word));
            }
            _ => match word.parse::<u16>() {
                Ok(status) if (400..600).contains(&status) => {
                    found.statuses.insert(status);
                }
                _ => strange.push(word.to_owned()),
            },
        }
    }
    (found, strange)
}

/// The same set in Envoy's words, with the statuses for `retriable_status_codes`, and what they cannot say.
pub(crate) fn to_envoy(signals: &Signals) -> (String, Vec<u16>, Vec<String>) {
    let mut words = Vec::new();
    let mut lost = Vec::new();
    let network = |kind: &str| signals.network.contains(kind);
    if network("unreachable") {
        words.extend(["connect-failure", "refused-stream"]);
    }
    if network("disconnected") || network("timeout") {
        words.push("reset");
        if !(network("disconnected") && network("timeout")) {
            lost.push("`reset` retries broken connections and per-try timeouts alike".to_owned());
        }
    }
    if signals.all_5xx {
        words.push("5xx");
        if signals.network.len() != NETWORK.len() {
            lost.push("`5xx` retries failures of the network, too".to_owned());
        }
    }
    let statuses: Vec<u16> = signals.statuses.iter().copied().collect();
    if !statuses.is_empty() {
        words.push("retriable-status-codes");
    }
    for name in &signals.codes {
        match *name {
            "CANCELLED" => words.push("cancelled"),
            "DEADLINE_EXCEEDED" => words.push("deadline-exceeded"),
            "INTERNAL" => words.push("internal"),
            "RESOURCE_EXHAUSTED" => words.push("resource-exhausted"),
            "UNAVAILABLE" => words.push("unavailable"),
            other => lost.push(format!("the gRPC code {other} cannot be retried there")),
        }
    }
    (words.join(","), statuses, lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retryguard_policy::Policy;

    /// The set that a policy with these lists retries.
    fn through(signals: &Signals) -> Signals {
        let (retry, never, _) = signals.lists();
        let text = format!(
            "defaults: {{retryOn: [{}], neverRetryOn: [{}]}}",
            retry.join(", "),
            never.join(", ")
        );
        let policy = Policy::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        Signals::of(&policy.service("any").classifier)
    }

    #[test]
    fn a_set_survives_the_lists_of_a_policy() {
        for (words, codes) in [
            ("5xx", &[][..]),
            ("gateway-error", &[]),
            ("reset,connect-failure", &[]),
            ("connect-failure,refused-stream", &[]),
            ("connect-failure,refused-stream,unavailable,cancelled", &[]),
            ("gateway-error,retriable-4xx,retriable-status-codes", &[429, 500]),
            ("", &[]),
        ] {
            let (signals, strange) = envoy(words, codes);
            assert_eq!(strange, Vec::<String>::new());
            let mut expected = signals.clone();
            if expected.all_5xx {
                expected.statuses.retain(|status| *status < 500);
            }
            assert_eq!(through(&signals), expected, "{words}");
        }
    }

    #[test]
    fn envoys_words_survive_and_unknown_ones_are_named() {
        let (signals, _) = envoy("gateway-error,retriable-status-codes,unavailable", &[429]);
        let (words, statuses, lost) = to_envoy(&signals);
        assert_eq!(lost, Vec::<String>::new());
        assert_eq!(envoy(&words, &statuses).0, signals);
        let (_, strange) = envoy("5xx,http3-post-connect-failure", &[]);
        assert_eq!(strange, ["http3-post-connect-failure"]);
    }

    /// The policy cannot retry a 504 and not a timeout of its own; it says so.
    #[test]
    fn what_the_lists_cannot_say_is_said() {
        let (signals, _) = envoy("retriable-status-codes", &[504]);
        assert_eq!(signals.lists().2.len(), 1);
    }
}
