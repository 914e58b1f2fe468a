//! The codes: what each means, why it matters, what to do, and a policy that shows it.
//!
//! A code is never given a second meaning and never used again once it is gone, because pipelines name them.

/// One kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Its name, such as `RG001`.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// How bad it is, and on what that depends.
    pub severity: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub cure: &'static str,
    /// A policy that has it.
    pub example: &'static str,
    /// The same policy without it.
    pub corrected: &'static str,
}

pub(super) const AMPLIFICATION: Code = Code {
    id: "RG001",
    title: "worst-case amplification",
    severity: "error above 10, warning above 4",
    why: "Attempts multiply along `calls`: three layers of three attempts are 27 at the lowest. The lowest service receives that factor just when it fails, and no service has capacity for it.",
    cure: "write `maxRetries: 2` or less, and retry at one layer only: `maxRetries: 0` on the layers above the lowest",
    example: "services:\n  frontend: {calls: [orders]}\n  orders: {calls: [store]}\n  store: {}\n",
    corrected: "services:\n  frontend: {maxRetries: 0, calls: [orders]}\n  orders: {maxRetries: 0, calls: [store]}\n  \
             store: {}\n",
};

pub(super) const LAYERS: Code = Code {
    id: "RG002",
    title: "retries at more than one layer",
    severity: "warning",
    why: "A layer that retries on top of another one repeats what has just been repeated. The mark on a failure that \
          was already retried stops this at run time, but only where both layers run RetryGuard and the failure is \
          not a timeout.",
    cure: "keep the retries of the lower layer and set `maxRetries: 0` on the upper one",
    example: "services:\n  orders: {calls: [store]}\n  store: {}\n",
    corrected: "services:\n  orders: {maxRetries: 0, calls: [store]}\n  store: {}\n",
};

pub(super) const CYCLE: Code = Code {
    id: "RG003",
    title: "calls in a circle",
    severity: "error",
    why: "Services that call each other in a circle have no lowest layer: an overload of one comes back to it as more \
          load, and no bound on the amplification can be given.",
    cure: "break the circle, or correct `calls` if it does not say what happens",
    example: "services:\n  a: {calls: [b]}\n  b: {calls: [a]}\n",
    corrected: "services:\n  a: {maxRetries: 0, calls: [b]}\n  b: {}\n",
};

pub(super) const GATEWAY: Code = Code {
    id: "RG004",
    title: "gateway retries over retrying services",
    severity: "error",
    why: "A gateway that retries multiplies the attempts of everything behind it, for every user at once, and no other layer knows less about whether a request is idempotent.",
    cure: "set `gatewayRetries: false`, or `maxRetries: 0` on every service behind it",
    example: "services:\n  orders: {}\ngatewayRetries: true\n",
    corrected: "services:\n  orders: {}\ngatewayRetries: false\n",
};

pub(super) const JITTER: Code = Code {
    id: "RG005",
    title: "retries without jitter",
    severity: "error without any, warning with less than a tenth",
    why: "Clients that failed together come back together, at every step of their back-off: the spike that brought the \
          target down is repeated for as long as it lasts.",
    cure: "remove `jitter` (full is the default), or write `jitterFactor: 0.5`",
    example: "defaults: {jitter: none}\n",
    corrected: "defaults: {jitter: full}\n",
};

pub(super) const CAP: Code = Code {
    id: "RG006",
    title: "delays without a cap",
    severity: "warning",
    why: "A delay that grows beyond a minute outlasts its caller. A call that still waits uses memory and a place for a result that is no longer needed.",
    cure: "write a `maxDelay` of some seconds, or `stopBeyond` for periodic work",
    example: "defaults: {maxRetries: 8, initialDelay: 1s, maxDelay: 1h, deadline: 1h, attemptTimeout: 1s}\n",
    corrected: "defaults: {maxRetries: 8, initialDelay: 1s, maxDelay: 10s, deadline: 1h, attemptTimeout: 1s}\n",
};

pub(super) const DEADLINE: Code = Code {
    id: "RG007",
    title: "retries that do not fit into the deadline",
    severity: "warning",
    why: "A retry that could only begin after the deadline is never sent. The policy promises more attempts than a \
          call can make, and capacity is planned for a number that is not the real one.",
    cure: "raise `deadline`, or lower `maxRetries`, `attemptTimeout` or the delays until all attempts fit",
    example: "defaults: {maxRetries: 2, attemptTimeout: 900ms, deadline: 1s}\n",
    corrected: "defaults: {maxRetries: 2, attemptTimeout: 200ms, deadline: 1s}\n",
};

pub(super) const CALLER_TIMEOUT: Code = Code {
    id: "RG008",
    title: "retries that do not fit into the caller's timeout",
    severity: "warning",
    why: "The caller gives up while its own service still retries: the last attempts are wasted work, just when capacity is short.",
    cure: "raise the caller's `attemptTimeout` or `deadline`, or lower the attempts and timeouts of what it calls",
    example: "services:\n  orders: {maxRetries: 0, deadline: 1s, calls: [store]}\n  \
              store: {maxRetries: 2, attemptTimeout: 400ms, deadline: 900ms, initialDelay: 10ms}\n",
    corrected: "services:\n  orders: {maxRetries: 0, deadline: 2s, calls: [store]}\n  \
             store: {maxRetries: 2, attemptTimeout: 400ms, deadline: 1500ms, initialDelay: 10ms}\n",
};

pub(super) const LADDER: Code = Code {
    id: "RG009",
    title: "the ladder of timeouts",
    severity: "warning",
    why: "Timeouts must shrink from the edge inwards. A service that waits for one attempt as long as its own caller waits answers a caller that has already given up, and occupies a place until then.",
    cure: "set `attemptTimeout` (or `deadline`) of what is called below that of its caller",
    example: "services:\n  orders: {maxRetries: 0, deadline: 1s, calls: [store]}\n  store: {deadline: 2s}\n",
    corrected: "services:\n  orders: {maxRetries: 0, deadline: 2s, calls: [store]}\n  store: {deadline: 1s}\n",
};

pub(super) const TIMEOUT_AT_DEADLINE: Code = Code {
    id: "RG010",
    title: "an attempt that may take the whole deadline",
    severity: "warning",
    why: "An attempt that times out at the deadline leaves nothing for a retry, so that retries help only against \
          failures that come fast. Overload mostly shows as slowness.",
    cure: "lower `attemptTimeout` so that at least two attempts fit into `deadline`",
    example: "defaults: {attemptTimeout: 2s, deadline: 2s}\n",
    corrected: "defaults: {attemptTimeout: 500ms, deadline: 2s}\n",
};

pub(super) const TWICE: Code = Code {
    id: "RG011",
    title: "non-idempotent retries without keys",
    severity: "error",
    why: "A request whose answer was lost may have been carried out. Sent again without a key it is carried out twice: \
          two payments, two orders.",
    cure: "remove it, or write `idempotency: {addKeys: true}` where the server honours keys",
    example: "defaults: {retryNonIdempotent: true}\n",
    corrected: "defaults: {idempotency: {addKeys: true}}\n",
};

pub(super) const BREAKER_BURST: Code = Code {
    id: "RG012",
    title: "a breaker that one call can open",
    severity: "warning",
    why: "Each retry of a call is another failure that the breaker counts. Where one call's attempts suffice to open \
          it, a single request that cannot succeed blocks all other calls.",
    cure: "raise `failures` or `minimumCalls` well above the attempts of one call, or use `trip: rate`",
    example: "defaults: {maxRetries: 4, breaker: {trip: consecutive, failures: 5}}\n",
    corrected: "defaults: {maxRetries: 2, breaker: {trip: consecutive, failures: 15}}\n",
};

pub(super) const HEDGE_BUDGET: Code = Code {
    id: "RG013",
    title: "hedging without a budget",
    severity: "error",
    why: "Hedges are sent because answers are slow. Under overload all answers are slow, so every call is hedged and the load doubles.",
    cure: "switch the budget on; hedges and retries share it",
    example: "defaults: {maxRetries: 0, hedge: on, budget: off}\n",
    corrected: "defaults: {maxRetries: 0, hedge: on, budget: on}\n",
};

pub(super) const CLIENT_ERROR: Code = Code {
    id: "RG014",
    title: "retries on client errors and used-up quotas",
    severity: "error for all of them, warning for a single status",
    why: "A 4xx means that the request itself is wrong, and a used-up quota that the caller has sent too many requests. The same request will fail again, and the retries are useless load. 408 and 429 are signs of slowness and load, and are treated so by default.",
    cure: "remove it from `retryOn`; where a single status has a reason of its own, keep that one and say why beside it",
    example: "defaults: {retryOn: [4xx]}\n",
    corrected: "defaults: {retryOn: [429]}\n",
};

pub(super) const NO_BUDGET: Code = Code {
    id: "RG015",
    title: "retries without a budget",
    severity: "error",
    why: "Limits on each call do not limit their sum: when everything fails, everything is retried. The budget is the \
          one part that bounds the sum.",
    cure: "remove `budget: off`",
    example: "defaults: {budget: off}\n",
    corrected: "defaults: {budget: {percent: 10%}}\n",
};

pub(super) const NO_GUARD: Code = Code {
    id: "RG016",
    title: "retries without a guard",
    severity: "warning",
    why: "A budget keeps sending its share to a target that is overloaded. The guard notices that rejections come from overload and switches retries off until they can help again.",
    cure: "remove `guard: off`",
    example: "defaults: {guard: off}\n",
    corrected: "defaults: {guard: on}\n",
};

pub(super) const RETRIED_AGAIN: Code = Code {
    id: "RG017",
    title: "failures that are retried again above",
    severity: "error where the layer below is declared, warning otherwise",
    why: "`retryRetried: true` lifts the rule that only the layer directly above a failure retries it. From then on the \
          attempts of all layers multiply, and the finding says to how many.",
    cure: "remove `retryRetried`",
    example: "services:\n  orders: {retryRetried: true, calls: [store]}\n  store: {}\n",
    corrected: "services:\n  orders: {maxRetries: 0, calls: [store]}\n  store: {}\n",
};

pub(super) const CAP_UNREACHED: Code = Code {
    id: "RG018",
    title: "a cap that is never reached",
    severity: "note",
    why: "The delays end before they have grown to `maxDelay`, so that changing it changes nothing. The author of the policy \
          believes that the service waits longer than it does.",
    cure: "remove `maxDelay`, or lower it to a delay that the retries reach",
    example: "defaults: {maxRetries: 2, initialDelay: 100ms, maxDelay: 30s}\n",
    corrected: "defaults: {maxRetries: 2, initialDelay: 100ms, maxDelay: 150ms}\n",
};

pub(super) const NO_ATTEMPT_TIMEOUT: Code = Code {
    id: "RG019",
    title: "no timeout of a single attempt",
    severity: "note",
    why: "Overload shows as slow answers before it shows as errors. Without a timeout of the single attempt a hanging \
          one is never replaced, and neither breaker nor guard see it before the deadline.",
    cure: "set `attemptTimeout` a little above the target's 99th percentile",
    example: "defaults: {deadline: 2s}\n",
    corrected: "defaults: {deadline: 2s, attemptTimeout: 500ms}\n",
};

pub(super) const UNLISTED: Code = Code {
    id: "RG020",
    title: "a call to a service that is not listed",
    severity: "warning where a listed name is nearly the same, note otherwise",
    why: "It takes the defaults, which is fine if it is meant. It is also what a misspelt name looks like.",
    cure: "list the service, even with nothing under it, or correct the name",
    example: "services:\n  orders: {maxRetries: 0, calls: [stroe]}\n",
    corrected: "services:\n  orders: {maxRetries: 0, calls: [store]}\n  store:\n",
};

pub(super) const WIDE_BUDGET: Code = Code {
    id: "RG021",
    title: "a budget that bounds little",
    severity: "warning",
    why: "A budget of 100% or more lets an outage double the load, which few services survive.",
    cure: "write 20% or less",
    example: "defaults: {budget: {percent: 100%}}\n",
    corrected: "defaults: {budget: {percent: 20%}}\n",
};

pub(super) const NO_DEADLINE: Code = Code {
    id: "RG022",
    title: "no deadline",
    severity: "warning",
    why: "Nothing ends a call whose target never answers. Such calls gather until something else runs out: memory, \
          connections, threads.",
    cure: "write a `deadline`; one that is too long is far better than none",
    example: "defaults: {deadline: off}\n",
    corrected: "defaults: {deadline: 30s}\n",
};

pub(super) const GATE: Code = Code {
    id: "RG023",
    title: "a Retry-After that only one call obeys",
    severity: "warning",
    why: "The target has asked its clients to stay away. With `scope: call` all other calls go on, and each costs the target another rejection.",
    cure: "remove `scope`, or write `scope: retries`",
    example: "defaults: {gate: {scope: call}}\n",
    corrected: "defaults: {gate: {scope: retries}}\n",
};

pub(super) const BAD_ALLOW: Code = Code {
    id: "RG024",
    title: "an allowance that cannot be used",
    severity: "error",
    why: "Reviewers of the next change read a comment that allows a finding. Without a reason they cannot judge whether it still holds, and with a misspelt code it has no effect.",
    cure: "write `# retryguard: allow RG016: the reason`, behind the key or on the line above it",
    example: "defaults: {guard: off} # retryguard: allow RG016\n",
    corrected: "defaults: {guard: off} # retryguard: allow RG016: this job makes one call a day\n",
};

pub(super) const IDLE_ALLOW: Code = Code {
    id: "RG025",
    title: "an allowance that allows nothing",
    severity: "note",
    why: "The allowed finding is gone, or the comment is on another line. It would hide the finding when it comes back.",
    cure: "remove the comment, or move it to the line of the finding",
    example: "defaults: {guard: on} # retryguard: allow RG016: this job makes one call a day\n",
    corrected: "defaults: {guard: on}\n",
};

/// Every code that a finding can have, for tools that explain or filter them.
#[must_use]
pub const fn lint_codes() -> &'static [Code] {
    CODES
}

/// Every code, in the order of the reference page.
pub(crate) const CODES: &[Code] = &[
    AMPLIFICATION,
    LAYERS,
    CYCLE,
    GATEWAY,
    JITTER,
    CAP,
    DEADLINE,
    CALLER_TIMEOUT,
    LADDER,
    TIMEOUT_AT_DEADLINE,
    TWICE,
    BREAKER_BURST,
    HEDGE_BUDGET,
    CLIENT_ERROR,
    NO_BUDGET,
    NO_GUARD,
    RETRIED_AGAIN,
    CAP_UNREACHED,
    NO_ATTEMPT_TIMEOUT,
    UNLISTED,
    WIDE_BUDGET,
    NO_DEADLINE,
    GATE,
    BAD_ALLOW,
    IDLE_ALLOW,
];
