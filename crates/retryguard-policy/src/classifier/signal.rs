//! The names under which a policy's lists speak of failures.

use retryguard_core::FailureKind;

use super::table;

/// One entry of `retryOn` and its sister lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// An HTTP status, 400 to 599.
    Status(u16),
    /// `4xx` or `5xx`.
    Class(u16),
    /// A gRPC code, by its number.
    Code(u8),
    /// Every failure of a kind, whatever it came as.
    Kind(usize),
}

/// gRPC's status codes in the order of their numbers, `OK` first.
pub const GRPC_STATUS: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Signal {
    /// What may be written, for messages.
    pub(crate) const VALUES: &str = "an HTTP status from 400 to 599, 4xx, 5xx, a gRPC code such as \
         UNAVAILABLE, or a kind: overload, quota, fault, unreachable, disconnected, timeout, request, cancelled";

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        if let Ok(status) = word.parse::<u16>() {
            return (400..600).contains(&status).then_some(Self::Status(status));
        }
        match word {
            "4xx" | "4XX" => return Some(Self::Class(4)),
            "5xx" | "5XX" => return Some(Self::Class(5)),
            _ => {}
        }
        // OK is not a failure, so it cannot be listed.
        let code = (1u8..)
            .zip(&GRPC_STATUS[1..])
            .find(|(_, name)| **name == word)
            .map(|(code, _)| Self::Code(code));
        let kind = || FailureKind::ALL.iter().position(|kind| kind.as_str() == word);
        code.or_else(|| kind().map(Self::Kind))
    }

    /// Every word that names a signal, for the nearest one to a mistyped word.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        GRPC_STATUS[1..]
            .iter()
            .copied()
            .chain(FailureKind::ALL.iter().map(|kind| kind.as_str()))
            .chain(["4xx", "5xx"])
    }

    /// Whether it names one status or code and not a whole class of them.
    pub(crate) fn is_single(self) -> bool {
        matches!(self, Self::Status(_) | Self::Code(_))
    }

    /// Whether it names what another attempt cannot help: a request at fault, a used-up quota, a caller that
    /// has gone. Not 408 and 429, which are signs of slowness and load.
    pub(crate) fn is_hopeless(self) -> bool {
        let kind = match self {
            Self::Status(status) => table::status_by_default(usize::from(status)).kind,
            Self::Class(class) => return class == 4,
            Self::Code(code) => table::code_by_default(usize::from(code)).kind,
            Self::Kind(kind) => FailureKind::ALL[kind],
        };
        matches!(
            kind,
            FailureKind::Request | FailureKind::Quota | FailureKind::Cancelled
        )
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Class(class) => write!(f, "{class}xx"),
            Self::Code(code) => f.write_str(GRPC_STATUS[usize::from(*code)]),
            Self::Kind(kind) => f.write_str(FailureKind::ALL[*kind].as_str()),
        }
    }
}
