//! Why something was not sent.

/// Why an attempt, a retry or a hedge was not sent. A closed list: every value is a metric label, and its
/// text says what an operator can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The failure is of a kind that another attempt cannot help (a bad request, a used-up quota).
    /// Next step: correct the request; retrying it would only add load.
    NotRetryable,
    /// The request may not be done twice: it is not idempotent and carries no idempotency key.
    /// Next step: give it a key (the client layer can add one) if the server honours keys.
    NotIdempotent,
    /// The request's body could not be kept for a second sending.
    /// Next step: raise the replay limit, or send a body that can be cloned.
    NotReplayable,
    /// All attempts that the policy allows were made. Next step: none; this is the normal end.
    AttemptsUsed,
    /// The target asked that this is not retried. Next step: look at the target's load.
    TargetForbids,
    /// A layer below has already retried this failure. Next step: none; retries at one layer are enough.
    RetriedBelow,
    /// No attempt that starts now could end before the deadline.
    /// Next step: raise the deadline or lower the delays and timeouts, so that the retries fit.
    Deadline,
    /// The next delay would be longer than the policy waits. Next step: none; the schedule has ended.
    DelayTooLong,
    /// The guard has switched retries off, or lets only a share of them through.
    /// Next step: the target is overloaded; retries come back by themselves when it recovers.
    Guard,
    /// The budget for retries and hedges is used up.
    /// Next step: look at the failure rate; a larger ratio adds load to a failing target.
    Budget,
    /// The breaker is open. Next step: look at the target; calls flow again after a successful probe.
    BreakerOpen,
    /// The breaker is half-open and all its probes are under way. Next step: none; wait for their result.
    ProbesBusy,
    /// The throttle rejected the call locally, as the target rejects most of what it gets.
    /// Next step: lower the load, or raise the criticality of what matters.
    Throttled,
    /// All slots of the bulkhead are taken and no call may wait, or too many wait already.
    /// Next step: raise the limit if the target has room; otherwise lower the load.
    BulkheadFull,
    /// No slot of the bulkhead came free within the allowed wait. Next step: as for a full bulkhead.
    BulkheadTimeout,
    /// The target asked to be left alone until later. Next step: come back after the time given.
    RetryAfter,
    /// The feature that this request belongs to is switched off. Next step: the policy says which are.
    FeatureOff,
    /// The rate of calls is used up. Next step: come back after the time given, or raise the rate.
    RateLimited,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 18] = [
        Self::NotRetryable,
        Self::NotIdempotent,
        Self::NotReplayable,
        Self::AttemptsUsed,
        Self::TargetForbids,
        Self::RetriedBelow,
        Self::Deadline,
        Self::DelayTooLong,
        Self::Guard,
        Self::Budget,
        Self::BreakerOpen,
        Self::ProbesBusy,
        Self::Throttled,
        Self::BulkheadFull,
        Self::BulkheadTimeout,
        Self::RetryAfter,
        Self::FeatureOff,
        Self::RateLimited,
    ];

    /// The position in [`Refusal::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the target itself is the reason: it is down, or has asked to be left alone. A caller above that retries
    /// would meet the same refusal.
    #[must_use]
    pub const fn is_of_target(self) -> bool {
        matches!(
            self,
            Self::TargetForbids | Self::BreakerOpen | Self::ProbesBusy | Self::RetryAfter
        )
    }

    /// The metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRetryable => "not-retryable",
            Self::NotIdempotent => "not-idempotent",
            Self::NotReplayable => "not-replayable",
            Self::AttemptsUsed => "attempts-used",
            Self::TargetForbids => "target-forbids",
            Self::RetriedBelow => "retried-below",
            Self::Deadline => "deadline",
            Self::DelayTooLong => "delay-too-long",
            Self::Guard => "guard",
            Self::Budget => "budget",
            Self::BreakerOpen => "breaker-open",
            Self::ProbesBusy => "probes-busy",
            Self::Throttled => "throttled",
            Self::BulkheadFull => "bulkhead-full",
            Self::BulkheadTimeout => "bulkhead-timeout",
            Self::RetryAfter => "retry-after",
            Self::FeatureOff => "feature-off",
            Self::RateLimited => "rate-limited",
        }
    }

    /// What an operator can do about it, in one sentence.
    #[must_use]
    pub const fn next_step(self) -> &'static str {
        match self {
            Self::NotRetryable => "correct the request; sending it again would fail again",
            Self::NotIdempotent => "give the request an idempotency key if the server honours them",
            Self::NotReplayable => "raise the replay limit or send a body that can be kept",
            Self::AttemptsUsed => "every allowed attempt was made; look at the target's failures",
            Self::TargetForbids => "the target is overloaded and asked for no retry; look at its load",
            Self::RetriedBelow => "a layer below has already retried it; look at the lowest target",
            Self::Deadline => "raise the deadline or shorten timeouts and delays so that attempts fit",
            Self::DelayTooLong => "the retry schedule has ended; try again later",
            Self::Guard => "the target is overloaded; retries come back by themselves when it recovers",
            Self::Budget => "too many calls fail for retries to help; look at the target",
            Self::BreakerOpen => "look at the target; calls flow again after a successful probe",
            Self::ProbesBusy => "wait for the probes that are under way",
            Self::Throttled => "the target rejects most calls; lower the load",
            Self::BulkheadFull => "lower the load, or raise the limit if the target has room",
            Self::BulkheadTimeout => "lower the load, or raise the limit if the target has room",
            Self::RetryAfter => "come back after the time that the target gave",
            Self::FeatureOff => "the policy has switched this feature off",
            Self::RateLimited => "come back after the time given, or raise the rate",
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_position() {
        for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal.index(), index);
        }
    }
}
