//! What an attempt came to, in words that no protocol owns.

use std::time::Duration;

/// The result of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The target did what was asked.
    Success,
    /// It did not.
    Failure(Failure),
}

impl Outcome {
    /// Whether this is a success.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Success)
    }

    /// The failure, if it is one.
    #[inline]
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Success => None,
            Self::Failure(failure) => Some(failure),
        }
    }
}

/// A failed attempt: its kind, how the policy reads it, and what the target hinted.
///
/// The three readings are separate because they answer separate questions. A 500 may be worth a retry and
/// says the target is unwell, yet is no evidence about load; a 400 is none of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// Another attempt could succeed, by the policy's reading.
    pub retryable: bool,
    /// It is a sign of overload: the guard and the throttle count it as a rejection.
    pub rejection: bool,
    /// It is a sign of the target's health: the breaker counts it.
    pub unhealthy: bool,
    /// What the target, or the network, told us beside the failure.
    pub hints: Hints,
}

impl Failure {
    /// A failure read as its kind is read by default.
    #[must_use]
    pub const fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            retryable: kind.retryable(),
            rejection: kind.rejection(),
            unhealthy: kind.unhealthy(),
            hints: Hints {
                never_sent: matches!(kind, FailureKind::Unreachable),
                ..Hints::NONE
            },
        }
    }

    /// The same with other hints.
    #[must_use]
    pub const fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }
}

/// The kinds of failure, a closed list that is also a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The target said that it has too much to do: 429, 503, RESOURCE_EXHAUSTED, UNAVAILABLE.
    Overload,
    /// The caller's own allowance is used up. A retry cannot help and only adds load.
    Quota,
    /// The target failed at the request: 500, INTERNAL. Random faults are what retries are for.
    Fault,
    /// No connection could be made, so the request was certainly never sent.
    Unreachable,
    /// The connection broke while the request was under way: it may have been carried out.
    Disconnected,
    /// No answer came in time: it may have been carried out.
    Timeout,
    /// The request itself is at fault: 4xx, INVALID_ARGUMENT. It will fail again.
    Request,
    /// The caller gave up.
    Cancelled,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Overload,
        Self::Quota,
        Self::Fault,
        Self::Unreachable,
        Self::Disconnected,
        Self::Timeout,
        Self::Request,
        Self::Cancelled,
    ];

    /// Whether another attempt could succeed, by the rules for safe clients: server errors and network
    /// errors yes, timeouts yes (the caller has already been instructed to use them with care: budget, guard and
    /// idempotency decide), client errors and used-up quotas never.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(
            self,
            Self::Overload | Self::Fault | Self::Unreachable | Self::Disconnected | Self::Timeout
        )
    }

    /// Whether it is a sign of overload and not of a wrong request.
    #[must_use]
    pub const fn rejection(self) -> bool {
        matches!(
            self,
            Self::Overload | Self::Unreachable | Self::Disconnected | Self::Timeout
        )
    }

    /// Whether it says that the target is unwell. A quota and a bad request come from a healthy target.
    #[must_use]
    pub const fn unhealthy(self) -> bool {
        matches!(
            self,
            Self::Overload | Self::Fault | Self::Unreachable | Self::Disconnected | Self::Timeout
        )
    }

    /// The word used in policies and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Quota => "quota",
            Self::Fault => "fault",
            Self::Unreachable => "unreachable",
            Self::Disconnected => "disconnected",
            Self::Timeout => "timeout",
            Self::Request => "request",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What came with a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// The target asked to be left alone for this long.
    pub retry_after: Option<Duration>,
    /// The target is overloaded and asks that this is not retried by any layer.
    pub do_not_retry: bool,
    /// The hints concern this call, or this caller's own allowance, and not the target as a whole: other calls
    /// go on.
    pub caller_only: bool,
    /// The request certainly never reached the target, so that sending it again cannot do it twice.
    pub never_sent: bool,
    /// The failure was already retried this many layers below: the layers above pass it on. Zero where
    /// it comes from the target itself.
    pub retried_below: u8,
}

impl Hints {
    /// No hint at all.
    pub const NONE: Self = Self {
        retry_after: None,
        do_not_retry: false,
        caller_only: false,
        never_sent: false,
        retried_below: 0,
    };
}
