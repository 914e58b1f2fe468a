//! The sections of a service: one for each part of the composition.

use std::time::Duration;

use retryguard_core::{Ratio, gate::Scope, guard::Signal};

use crate::policy::Trust;

use super::{
    Factor, Level, List, OrAdaptive, OrOff, Share, Text, TextRule, Word,
    section::{limits, section},
    value::{word_is_written, words},
};

const TICK: Duration = Duration::from_nanos(1);
const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const MANY: u32 = 1_000_000;

words! {
    /// How a budget is kept.
    BudgetForm { "ratio" Ratio, "adaptive" Adaptive, "quota" Quota }
}

section! {
    /// The share of attempts that may be retries or hedges. It bounds the additional load on a failing target, whatever the
    /// limits of single calls are.
    Budget in "`budget`" {
        /// `ratio` is a fixed share of the first attempts of an interval; `adaptive` lets the share follow the
        /// success rate; `quota` is the token bucket of the AWS SDKs, which only successes refill.
        "form" form: BudgetForm => "ratio", "the only form whose bound can be stated in one sentence; Envoy, Istio and Finagle use it too";
        /// Retries and hedges per first attempt (`ratio`).
        "percent" percent: Share where Ratio::ZERO..=Ratio::percent(1000) => "20%", "the extra load of an outage \
            stays at a fifth, which a service provisioned with the usual head-room survives; random faults of up to \
            a fifth of all calls are still all retried. The value of Envoy, Istio and Finagle; Google's rule of 10% \
            is stricter";
        /// The interval over which first attempts, retries and hedges are counted.
        "interval" interval: Duration where Duration::from_millis(100)..=HOUR => "10s", "long enough that a service with one call a second can retry at all, short enough that calls from before an outage do not pay for retries during it";
        /// What may be spent beyond the share, so that a client with few calls can retry at all.
        "minRetryRate" min_retry_rate: RetryRate => "", "see its keys";
        /// The share while nothing succeeds (`adaptive`).
        "minPercent" min_percent: Share where Ratio::ZERO..=Ratio::percent(1000) => "10%", "the least at which \
            recovery is still noticed";
        /// The share while everything succeeds (`adaptive`).
        "maxPercent" max_percent: Share where Ratio::ZERO..=Ratio::percent(1000) => "30%", "while nearly everything \
            succeeds, few retries are asked for, so a generous share costs little";
        /// Tokens at the start and at most (`quota`).
        "capacity" capacity: u32 where 1..=MANY => "500", "the AWS SDKs' value";
        /// What a retry takes (`quota`).
        "retryCost" retry_cost: u32 where 1..=MANY => "5", "the AWS SDKs' value";
        /// What a retry after a timeout takes (`quota`).
        "timeoutCost" timeout_cost: u32 where 1..=MANY => "10", "the AWS SDKs' value: a timeout has cost the target \
            most";
        /// What a success without a retry gives back (`quota`).
        "successGain" success_gain: u32 where 0..=MANY => "1", "the AWS SDKs' value";
    }
}

section! {
    /// A minimum rate of retries. The allowance starts empty and grows with time: a bucket that starts full would allow a burst
    /// when a fleet has just been started against a failing target.
    RetryRate in "`minRetryRate`" {
        /// How many retries in the interval, and how many can be saved up. 0 for none.
        "count" count: u32 where 0..=MANY => "1", "one retry in ten seconds lets a nearly idle client recover from a random failure, and a thousand such clients together send at most 100 retries a second";
        /// The interval.
        "interval" interval: Duration where Duration::from_millis(100)..=HOUR => "10s", "see `count`";
    }
}

words! {
    /// What opens a breaker.
    Trip { "silence" Silence, "rate" Rate, "count" Count, "consecutive" Consecutive }
}

words! {
    /// What becomes of calls to a target that is down.
    WhenDown { "wait" Wait, "fail" Fail }
}

section! {
    /// The circuit breaker: calls to a target that is down fail at once.
    Breaker in "`breaker`" {
        /// What opens it: failures without any success between them (`silence`), a share of failures (`rate`), a number of
        /// failures in the window (`count`), or in a row (`consecutive`). `rate` where keys of it are written, and where the
        /// guard does not measure.
        "trip" trip: Trip => "silence", "a breaker is for a target that is down, and such a target has no successes at all. More failures are needed where random failures are common, so that a chance run of them is not taken for an outage. A share or a count also opens for targets that still serve most of their requests";
        /// Calls to a target that is down wait for its recovery, as long as their deadline allows, or fail at once
        /// (`silence`). A call that is made while another request is served waits only beside few others, because it holds
        /// that request's worker.
        "whenDown" when_down: WhenDown => "wait", "an outage that is shorter than the deadline then costs nothing, and \
            a waiting call costs its target nothing. Choose `fail` where callers have a fallback or few threads";
        /// How many calls may wait (`silence`).
        "waiting" waiting: u32 where 1..=MANY => "1000", "a bound on memory: more than a busy process has under way";
        /// The share of failures that opens it (`rate`).
        "ratio" ratio: Share where Ratio::percent(1)..=Ratio::ONE => "80%", "a breaker is for a target that \
            is down: one that still answers every third call is better left to budget and guard. In the tournament, \
            opening at 50% loses nearly all of the goodput that 60% random errors leave, and at 80% none of it";
        /// The calls that must have ended in the window before a share means anything (`rate`).
        "minimumCalls" minimum_calls: u32 where 1..=MANY => "20", "with fewer, a few failed calls look like an outage; it is also well above the attempts of a single call";
        /// An attempt that takes longer than this is slow, whether it succeeds or not (`rate`).
        "slowCall" slow_call: OrOff<Duration> where MILLI..=HOUR => "off", "what is slow depends on the target. A breaker that opens for slow answers refuses work that would have succeeded. It is for targets whose late answers have no use; `attemptTimeout` does the same for single calls";
        /// The share of slow attempts that opens it, once there are `minimumCalls` of them all (`rate` with `slowCall`). A
        /// probe that is slow has failed.
        "slowCallRatio" slow_call_ratio: Share where Ratio::percent(1)..=Ratio::ONE => "80%", "the same reason as for `ratio`";
        /// The failures that open it (`count`, `consecutive`), and 10 of them under `silence`, where a timeout counts as half
        /// of one and a rejection as a quarter.
        "failures" failures: u32 where 1..=MANY => "5", "the value that both `count` and `consecutive` breakers in the \
            field most often carry. Ten without any success are enough evidence, and take a fraction of a second on a busy client";
        /// The window in which calls and failures are counted (`rate`, `count`).
        "window" window: Duration where Duration::from_millis(100)..=HOUR => "10s", "the budget's interval, so that \
            both look at the same stretch of time";
        /// How long it stays open the first time (`rate`, `count`, `consecutive`). Under `silence` the shortest time between
        /// two probes, 50ms; they come once in four usual gaps between attempts.
        "openFor" open_for: Duration where MILLI..=HOUR => "5s", "a restart takes about that long; a shorter pause \
            probes a target that cannot have changed";
        /// Each failed probe doubles the time, up to this (`rate`, `count`, `consecutive`). Under `silence` the longest time
        /// between two probes, 1s, and ten times that after timeouts, so that a queue of abandoned work can empty.
        "openForAtMost" open_for_at_most: Duration where MILLI..=HOUR => "10s", "a target that is back is noticed within \
            ten seconds; one probe every ten seconds costs nothing";
        /// How many probes may be under way at once while it is half-open (`rate`, `count`, `consecutive`; `silence` too).
        "probes" probes: u32 where 1..=1000 => "1", "a target that has just come back gets one call and not all that \
            have queued up";
        /// How many probes must succeed before it closes (`rate`, `count`, `consecutive`); one under `silence`, because
        /// a target that answers is not down.
        "closeAfter" close_after: u32 where 1..=1000 => "2", "one success may be chance";
    }
}

section! {
    /// Adaptive client throttling: a client whose requests are mostly rejected sends fewer of them. Off by default: it refuses
    /// first attempts by chance, and budget, guard and breaker already bound what retries add.
    Throttle in "`throttle`" {
        /// Requests per accepted one before some are rejected locally.
        "requestsPerAccept" requests_per_accept: Factor where Ratio::ONE..=Ratio::percent(10_000) => "2", "Google's value: the target receives twice as many requests as it accepts, enough to see that there is demand";
        /// The window over which both are counted.
        "window" window: Duration where Duration::from_secs(1)..=HOUR => "2m", "Google's value";
    }
}

words! {
    /// How a concurrency limit is chosen.
    LimitForm { "adaptive" Adaptive, "fixed" Fixed, "gradient" Gradient }
}

section! {
    /// How many attempts to the target may be in flight. Without this section, and beside a guard that measures, the form is
    /// `adaptive` (there is no limit beside another guard): it limits only while answers come too late, or slowly and beside
    /// rejections, or while it is seen that fewer attempts at a time serve more calls. Up to 1000 calls then wait in
    /// the client until their deadline, where they cost nothing, instead of in the target's queue. A call that is made while
    /// another request is served does not wait, because it would block that request's worker: beyond the usual number in flight
    /// it is refused.
    Bulkhead in "`bulkhead`" {
        /// `fixed`; `adaptive`; or `gradient`, a limit that follows the target's latency.
        "form" form: LimitForm => "fixed", "a block with a limit asks for a fixed limit. Without this section the form is `adaptive`, which reads latency from successes only, so that random failures and timeouts are not taken for load";
        /// The share of an attempt's time that answers may take before they are called late (`adaptive`).
        "late" late: Share where Ratio::percent(5)..=Ratio::ONE => "40%", "work times vary: where answers take 40 % of \
            the time on average, some take all of it";
        /// The limit (`fixed`).
        "limit" limit: u32 where 1..=MANY => "100", "at 50 ms an answer that is 2000 calls a second, more than most \
            processes make";
        /// The limit at the start (`gradient`).
        "initial" initial: u32 where 1..=MANY => "20", "low enough for a cold target, and it grows within seconds";
        /// Never below this (`gradient`).
        "least" least: u32 where 1..=MANY => "1", "one attempt is needed to learn that the target is back";
        /// Never above this (`gradient`).
        "most" most: u32 where 1..=MANY => "1000", "a bound, not a target";
        /// How much slower than usual answers may be before the limit shrinks (`gradient`); under `adaptive` twice.
        "tolerance" tolerance: Factor where Ratio::ONE..=Ratio::percent(1000) => "1.5", "a healthy target's answers rarely take one and a half times as long as usual";
        /// How long an attempt may wait for a place. 0 for not at all; until the deadline under `adaptive`.
        "wait" wait: Duration where Duration::ZERO..=HOUR => "0", "a queue turns overload into latency; use one where bursts are short";
        /// How many may wait at once.
        "waiting" waiting: u32 where 0..=MANY => "0", "see `wait`; a queue without a bound grows without end";
    }
}

section! {
    /// Extra attempts against a slow tail, paid from the same budget as retries; the losers are cancelled. Off by
    /// default: a hedge is additional load without a failure.
    Hedge in "`hedge`" {
        /// How long the previous attempt may take: a duration, or a percentile of the latency.
        "after" after: Level where (Ratio::percent(50)..=Ratio::from_parts(999_000_000), MILLI..=HOUR) => "95%", "only \
            the slowest twentieth is hedged, so hedges add at most 5% of load";
        /// With a share: never sooner than this, and this until enough answers are known.
        "atLeast" at_least: Duration where MILLI..=HOUR => "50ms", "a lower bound, so that a fast target is not hedged because of noise";
        /// Hedges of one call.
        "most" most: u32 where 1..=3 => "1", "a second hedge gains little and costs as much as the first";
    }
}

section! {
    /// Which of several endpoints an attempt goes to. It acts only where a client knows the endpoints of the service
    /// (`Endpoints` in the library, `endpoints: known` in a scenario): of two random endpoints the less busy one is used, a
    /// retry goes to an endpoint that the call has not tried, and an endpoint that fails far more than the others is ejected
    /// for a while. Afterwards single attempts test it. If the others begin to fail as well, all are used again.
    Endpoints in "`endpoints`" {
        /// Failures in a row after which an endpoint is ejected, if so many in a row are unlikely at the failure share of the
        /// others.
        "inARow" in_a_row: u32 where 1..=1000 => "5", "the value of Envoy and Finagle; where all endpoints fail at random, more failures in a row are needed";
        /// An endpoint is ejected if its failure share is this many times that of the others.
        "factor" factor: Factor where Ratio::ONE..=Ratio::percent(10_000) => "3", "unequal requests alone can double the share";
        /// The attempts after which an endpoint's failure share is used.
        "attempts" attempts: u32 where 1..=MANY => "10", "with fewer, two failures would be a share of a quarter";
        /// How long an endpoint is ejected. The time doubles with each ejection.
        "outFor" out_for: Duration where MILLI..=HOUR => "3s", "a restart is over by then, and a failed trial costs one \
            attempt that is retried elsewhere";
        /// The longest time that an endpoint is ejected.
        "outForAtMost" out_for_at_most: Duration where MILLI..=HOUR => "30s", "an endpoint that has recovered is used again within half a minute";
        /// The share of the endpoints that may be ejected at the same time, rounded down: a single endpoint is never ejected.
        "mostOut" most_out: Share where Ratio::ZERO..=Ratio::percent(90) => "50%", "the rest must carry the load; with Envoy's 10% only one of a few endpoints would be ejected";
    }
}

words! {
    /// How the guard decides.
    GuardMode { "response" Response, "hysteresis" Hysteresis, "algorithm1" Algorithm1 }
}

impl Word for Signal {
    const ALL: &'static [(&'static str, Self)] = &[
        (Self::Rejections.as_str(), Self::Rejections),
        (Self::RetriesPerCall.as_str(), Self::RetriesPerCall),
        (Self::Delay.as_str(), Self::Delay),
    ];
}
word_is_written!(Signal);

section! {
    /// Switches the retries to a target off while they do harm, and brings them back by a ramp.
    Guard in "`guard`" {
        /// `response` measures what retries add; `hysteresis` compares a signal with two thresholds; `algorithm1` is the
        /// published algorithm to the letter, kept for comparison. `hysteresis` where keys of it are written.
        "mode" mode: GuardMode => "response", "random failures and overload both answer 503, so no threshold on a rejection rate can tell them apart; the number of additional successes that retries bring can";
        /// The least gain, in additional successes per additional attempt, for which a retry is worth sending (`response`).
        "price" price: Share where Ratio::ZERO..=Ratio::ONE => "15%", "most users accept seven retries for one additional success; raise it where requests are expensive";
        /// The retries of one call while it is unclear whether they help (`response`); `maxRetries` bounds them always.
        "limitedRetries" limited_retries: u32 where 0..=20 => "2", "the budget bounds the additional load";
        /// The shortest slot of the measurement (`response`). Slots follow the latency.
        "slot" slot: Duration where Duration::from_millis(10)..=HOUR => "250ms", "a retry waits for about a slot during the measurement; shorter slots are within the error of clocks";
        /// The longest slot (`response`).
        "slotAtMost" slot_at_most: Duration where Duration::from_millis(10)..=HOUR => "4s", "with longer slots, too few retries have a deadline that allows the wait";
        /// What is watched: the share of first attempts rejected for load, the retries per call, or the delay (`hysteresis`,
        /// `algorithm1`).
        "signal" signal: Signal => "rejections", "it can still be measured while retries are off, and random failures do not change it";
        /// How much time one sample covers (`hysteresis`, `algorithm1`).
        "interval" interval: Duration where Duration::from_millis(10)..=HOUR => "1s", "five samples make the reaction \
            about five seconds, which the published results need";
        /// Retries go off above this: a share, less than 100% for `signal: rejections`, or a duration for `signal: delay`
        /// (`hysteresis`).
        "offAbove" off_above: Level where (Ratio::ZERO..=Ratio::percent(1000), TICK..=HOUR) => "20%", "the published \
            threshold";
        /// They begin to come back below this (`hysteresis`).
        "onBelow" on_below: Level where (Ratio::ZERO..=Ratio::percent(1000), TICK..=HOUR) => "10%", "the gap to `offAbove` prevents flapping; half of `offAbove` was found to be enough";
        /// How many samples are pooled into one reading (`hysteresis`, at most 16), or must agree in a row (`algorithm1`, at most
        /// 3600).
        "samples" samples: u32 where 1..=3600 => "5", "see `interval`";
        /// The calls that the pool must hold before it means anything (`hysteresis`).
        "minimumCalls" minimum_calls: u32 where 1..=MANY => "20", "with fewer, a single failed call is 5 %";
        /// How long retries stay off at the least (`hysteresis`).
        "coolDown" cool_down: Duration where Duration::ZERO..=HOUR => "5s", "one full pool of samples without retries \
            must be seen before their absence can be judged";
        /// Each relapse from the ramp doubles the cool-down, up to this (`hysteresis`).
        "coolDownAtMost" cool_down_at_most: Duration where Duration::ZERO..=HOUR => "1m", "a target that has recovered gets its retries back within a minute";
        /// Steps of the ramp, each letting through twice the share of the one before; 0 for none (`hysteresis`).
        "rampSteps" ramp_steps: u32 where 0..=10 => "3", "an eighth, a quarter, a half: if all retries come back at once, the overload comes back too";
        /// How long each step lasts at the least (`hysteresis`).
        "stepFor" step_for: Duration where Duration::ZERO..=HOUR => "3s", "the time that a pool needs to show a step's \
            effect";
        /// A target with too few calls for a decision counts as recovered after this time (`hysteresis`).
        "quietAfter" quiet_after: Duration where MILLI..=HOUR => "30s", "so few calls cannot be the cause of an overload";
        /// The one threshold of `algorithm1`.
        "threshold" threshold: Level where (Ratio::ZERO..=Ratio::percent(1000), TICK..=HOUR) => "20%", "the published \
            value";
    }
}

impl Word for Scope {
    const ALL: &'static [(&'static str, Self)] = &[
        ("target", Self::Target),
        ("retries", Self::Retries),
        ("call", Self::Call),
    ];
}
word_is_written!(Scope);

impl Word for Trust {
    const ALL: &'static [(&'static str, Self)] = &[
        ("edge", Self::Edge),
        ("modest", Self::Modest),
        ("internal", Self::Internal),
    ];
}
word_is_written!(Trust);

section! {
    /// How the client obeys a target's Retry-After and its do-not-retry mark.
    Gate in "`gate`" {
        /// What a Retry-After holds back: every call to the target of the same or a lower criticality, retries only, or only
        /// the call that received it.
        "scope" scope: Scope => "retries", "a server that sheds load wants fewer requests, not none: if all calls stop at the first refusal, it is idle until they all come back together";
        /// The longest Retry-After that is obeyed.
        "atMost" at_most: Duration where Duration::ZERO..=HOUR => "30s", "a target that answers with a day must not stop its clients for a day";
        /// How far the calls that were held back are spread afterwards, as a share of the wait.
        "spread" spread: Share where Ratio::ZERO..=Ratio::percent(1000) => "50%", "calls that were held back together must not come back together";
        /// How long a mark without a Retry-After holds retries back.
        "noRetryFor" no_retry_for: Duration where Duration::ZERO..=HOUR => "1s", "one sample of the guard; after that the guard has its own measurement";
    }
}

section! {
    /// Which requests may be sent twice.
    Idempotency in "`idempotency`" {
        /// HTTP methods that are idempotent by nature.
        "methods" methods: List<Text> where TextRule::Method => "[GET, HEAD, OPTIONS, TRACE, PUT, DELETE]", "RFC 9110's list";
        /// The header that carries an idempotency key; a request that has it may be sent twice.
        "keyHeader" key_header: Text where TextRule::Header => "idempotency-key", "the name of the IETF draft and of \
            the payment interfaces that made it common";
        /// Whether the client layer adds a key to requests that need one and have none.
        "addKeys" add_keys: bool => "false", "a key helps only where the server honours it, which the client cannot \
            see";
    }
}

section! {
    /// How the service behaves under load as a server.
    Server in "`server`" {
        /// Requests that are in progress or wait, together. Critical-plus may use a tenth more. `adaptive` lets the bound
        /// follow the time that requests take: it starts at 200, shrinks to no less than 20 where they take twice as long as
        /// usual, and grows up to 1000 while it is used and they do not.
        "inFlight" in_flight: OrAdaptive<u32> where 1..=MANY => "200", "at 50 ms a request that is 4000 a second, more than one \
            process usually serves; with more in flight, requests only wait longer";
        /// Requests that are worked on at once while the others wait.
        "working" working: OrOff<u32> where 1..=MANY => "off", "a server that runs on an executor has a queue already";
        /// The queue is too long when every request of an interval waited longer than this.
        "queueTime" queue_time: Duration where Duration::ZERO..=HOUR => "20ms", "as in CoDel: a standing queue, and not a burst, is the sign of overload";
        /// That interval.
        "queueInterval" queue_interval: Duration where MILLI..=HOUR => "100ms", "CoDel's value";
        /// The processor is too busy above this share.
        "processor" processor: OrOff<Share> where Ratio::percent(1)..=Ratio::ONE => "off", "in a container the figure \
            is easily that of the host";
        /// The Retry-After that refused clients get.
        "retryAfter" retry_after: Duration where Duration::ZERO..=HOUR => "1s", "long enough to relieve the server, short enough that a person may still be waiting";
        /// How far these waits are spread, as a share of them.
        "spread" spread: Share where Ratio::ZERO..=Ratio::percent(1000) => "100%", "refused clients come back spread over a second and not all at once";
        /// The deadline of requests that carry none.
        "deadline" deadline: OrOff<Duration> where MILLI..=Duration::from_secs(86_400) => "off", "streams and long polls \
            have no deadline by intent";
        /// How long a request may hold its place while others are refused because the server is full.
        "fullTimeout" full_timeout: OrOff<Duration> where MILLI..=Duration::from_secs(86_400) => "10s", "callers with the default `deadline` wait no longer; without a bound, slow clients would use up `inFlight`. While there is room, slow requests are not cut";
        /// What is believed of the `retryguard-*` headers of requests: nothing (`edge`), what can only make a request
        /// matter less (`modest`), or everything (`internal`).
        "trust" trust: Trust => "modest", "no client gains by a false short deadline or low criticality, so deadlines work through all hops without configuration; only critical-plus, which others pay for, must be allowed by the operator";
        /// Whether a request counts as in flight until the body of its response has ended.
        "holdBodies" hold_bodies: bool => "true", "a response that is still being sent still costs memory and a \
            connection; a server of endless streams switches it off";
        /// Paths that are served whatever the load, for the probes of an orchestrator.
        "exempt" exempt: List<Text> where TextRule::Path => "[/healthz, /livez, /readyz, /grpc.health.v1.Health/Check]", "a full server that refuses its probes is restarted, and its load moves to the other replicas";
    }
}
