//! The machines' settings, taken apart.

use retryguard_core::{
    Backoff, Failure, backoff, breaker, budget, bulkhead, call, endpoints, gate, guard, hedge, limiter, shed,
    target, throttle,
};

use super::line::Lines;
use crate::{
    classifier::{Classifier, Reading},
    policy::Idempotency,
};

pub(super) fn target(lines: &mut Lines, settings: &target::Settings) {
    let target::Settings {
        call,
        gate,
        breaker,
        budget,
        throttle,
        bulkhead,
        hedge,
        guard,
        endpoints,
        features_off,
    } = settings;
    self::call(lines, call);
    self::gate(lines, gate);
    part(lines, "breaker", breaker.as_ref(), self::breaker);
    part(lines, "budget", budget.as_ref(), self::budget);
    part(lines, "throttle", throttle.as_ref(), self::throttle);
    part(lines, "bulkhead", bulkhead.as_ref(), self::bulkhead);
    part(lines, "hedge", hedge.as_ref(), self::hedge);
    part(lines, "guard", guard.as_ref(), self::guard);
    lines.list("featuresOff", features_off);
    // Only where they are not the defaults: a policy without these keys keeps the name under which it was measured.
    if *endpoints != Some(endpoints::Settings::default()) {
        part(lines, "endpoints", endpoints.as_ref(), self::endpoints);
    }
}

fn endpoints(lines: &mut Lines, settings: &endpoints::Settings) {
    let endpoints::Settings {
        in_a_row,
        factor,
        attempts,
        out_for,
        out_for_at_most,
        most_out,
    } = settings;
    lines.add("inARow", in_a_row);
    lines.ratio("factor", *factor);
    lines.add("attempts", attempts);
    lines.span("outFor", *out_for);
    lines.span("outForAtMost", *out_for_at_most);
    lines.ratio("mostOut", *most_out);
}

fn part<T>(lines: &mut Lines, key: &str, settings: Option<&T>, write: impl Fn(&mut Lines, &T)) {
    match settings {
        None => lines.add(key, "off"),
        Some(settings) => {
            lines.add(key, "on");
            write(lines, settings);
        }
    }
}

fn call(lines: &mut Lines, settings: &call::Settings) {
    let call::Settings {
        retries,
        backoff,
        attempt_timeout,
        deadline,
        least_attempt,
        timeout,
        retry_retried,
    } = settings;
    lines.add("maxRetries", retries);
    self::backoff(lines, backoff);
    lines.maybe_span("attemptTimeout", *attempt_timeout);
    lines.maybe_span("deadline", *deadline);
    lines.span("leastAttempt", *least_attempt);
    failure(lines, "timeout", *timeout);
    lines.add("retryRetried", retry_retried);
}

fn backoff(lines: &mut Lines, settings: &Backoff) {
    let Backoff {
        growth,
        initial,
        cap,
        jitter,
        stop_beyond,
    } = settings;
    match growth {
        backoff::Growth::Constant => lines.add("growth", "constant"),
        backoff::Growth::Linear => lines.add("growth", "linear"),
        backoff::Growth::Exponential(factor) => lines.ratio("multiplier", *factor),
    }
    lines.span("initialDelay", *initial);
    lines.span("maxDelay", *cap);
    match jitter {
        backoff::Jitter::None => lines.add("jitter", "none"),
        backoff::Jitter::Full => lines.add("jitter", "full"),
        backoff::Jitter::Equal => lines.add("jitter", "equal"),
        backoff::Jitter::Decorrelated => lines.add("jitter", "decorrelated"),
        backoff::Jitter::Factor { low, high } => {
            lines.ratio("jitterLow", *low);
            lines.ratio("jitterHigh", *high);
        }
    }
    lines.maybe_span("stopBeyond", *stop_beyond);
}

/// A failure's readings; its hints are those of a table, which has none.
fn failure(lines: &mut Lines, key: &str, failure: Failure) {
    let Failure {
        kind,
        retryable,
        rejection,
        unhealthy,
        hints: _,
    } = failure;
    lines.add(key, format_args!("{kind} {retryable} {rejection} {unhealthy}"));
}

fn gate(lines: &mut Lines, settings: &gate::Settings) {
    let gate::Settings {
        scope,
        at_most,
        spread,
        no_retry_for,
    } = settings;
    let scope = match scope {
        gate::Scope::Target => "target",
        gate::Scope::Retries => "retries",
        gate::Scope::Call => "call",
    };
    lines.add("scope", scope);
    lines.span("atMost", *at_most);
    lines.ratio("spread", *spread);
    lines.span("noRetryFor", *no_retry_for);
}

fn breaker(lines: &mut Lines, settings: &breaker::Settings) {
    let breaker::Settings {
        trip,
        open_for,
        open_for_at_most,
        probes,
        close_after,
        when_down,
    } = settings;
    match trip {
        breaker::Trip::Consecutive(failures) => lines.add("consecutive", failures),
        breaker::Trip::Silence(failures) => lines.add("silence", failures),
        breaker::Trip::Count { failures, window } => {
            lines.add("count", failures);
            lines.span("window", *window);
        }
        breaker::Trip::Rate {
            ratio,
            minimum_calls,
            window,
            slow,
        } => {
            lines.ratio("ratio", *ratio);
            lines.add("minimumCalls", minimum_calls);
            lines.span("window", *window);
            if let Some(breaker::Slow { above, ratio }) = slow {
                lines.span("slowCall", *above);
                lines.ratio("slowCallRatio", *ratio);
            }
        }
    }
    lines.span("openFor", *open_for);
    lines.span("openForAtMost", *open_for_at_most);
    lines.add("probes", probes);
    lines.add("closeAfter", close_after);
    if let breaker::WhenDown::Wait { most } = when_down {
        lines.add("waiting", most);
    }
}

fn budget(lines: &mut Lines, settings: &budget::Settings) {
    match settings {
        budget::Settings::Ratio {
            ratio,
            window,
            reserve,
        } => {
            lines.ratio("percent", *ratio);
            lines.span("interval", *window);
            self::reserve(lines, *reserve);
        }
        budget::Settings::Adaptive {
            least,
            most,
            window,
            reserve,
        } => {
            lines.ratio("minPercent", *least);
            lines.ratio("maxPercent", *most);
            lines.span("interval", *window);
            self::reserve(lines, *reserve);
        }
        budget::Settings::Quota {
            capacity,
            retry_cost,
            timeout_cost,
            success_gain,
        } => {
            lines.add("capacity", capacity);
            lines.add("retryCost", retry_cost);
            lines.add("timeoutCost", timeout_cost);
            lines.add("successGain", success_gain);
        }
    }
}

fn reserve(lines: &mut Lines, budget::Reserve { per_second, most }: budget::Reserve) {
    lines.ratio("perSecond", per_second);
    lines.add("most", most);
}

fn throttle(lines: &mut Lines, settings: &throttle::Settings) {
    let throttle::Settings {
        requests_per_accept,
        window,
    } = settings;
    lines.ratio("requestsPerAccept", *requests_per_accept);
    lines.span("window", *window);
}

fn bulkhead(lines: &mut Lines, settings: &bulkhead::Settings) {
    let bulkhead::Settings { limit, wait, waiting } = settings;
    match limit {
        bulkhead::Limit::Fixed(limit) => lines.add("limit", limit),
        bulkhead::Limit::Adaptive(limiter::Settings {
            most,
            tolerance,
            late,
        }) => {
            lines.add("most", most);
            lines.ratio("tolerance", *tolerance);
            lines.ratio("late", *late);
        }
        bulkhead::Limit::Gradient {
            initial,
            least,
            most,
            tolerance,
        } => {
            lines.add("initial", initial);
            lines.add("least", least);
            lines.add("most", most);
            lines.ratio("tolerance", *tolerance);
        }
    }
    lines.span("wait", *wait);
    lines.add("waiting", waiting);
}

fn hedge(lines: &mut Lines, settings: &hedge::Settings) {
    let hedge::Settings { after, most } = settings;
    match after {
        hedge::After::Fixed(span) => lines.span("after", *span),
        hedge::After::Percentile { share, at_least } => {
            lines.ratio("afterShare", *share);
            lines.span("atLeast", *at_least);
        }
    }
    lines.add("most", most);
}

fn guard(lines: &mut Lines, settings: &guard::Settings) {
    let guard::Settings {
        signal,
        mode,
        interval,
    } = settings;
    lines.add("signal", signal.as_str());
    lines.span("interval", *interval);
    match mode {
        guard::Mode::Algorithm1 { threshold, samples } => {
            lines.ratio("threshold", *threshold);
            lines.add("samples", samples);
        }
        guard::Mode::Hysteresis(rules) => hysteresis(lines, rules),
        // The machines may get further modes; each has a different description.
        other => lines.add("mode", format_args!("{other:?}")),
    }
}

fn hysteresis(lines: &mut Lines, rules: &guard::Hysteresis) {
    let guard::Hysteresis {
        off_above,
        on_below,
        samples,
        minimum_calls,
        cool_down,
        cool_down_at_most,
        ramp_steps,
        step_for,
        quiet_after,
    } = rules;
    lines.ratio("offAbove", *off_above);
    lines.ratio("onBelow", *on_below);
    lines.add("samples", samples);
    lines.add("minimumCalls", minimum_calls);
    lines.span("coolDown", *cool_down);
    lines.span("coolDownAtMost", *cool_down_at_most);
    lines.add("rampSteps", ramp_steps);
    lines.span("stepFor", *step_for);
    lines.span("quietAfter", *quiet_after);
}

pub(super) fn server(lines: &mut Lines, settings: Option<shed::Settings>) {
    part(lines, "server", settings.as_ref(), |lines, settings| {
        let shed::Settings {
            in_flight,
            adaptive,
            working,
            queue_time,
            queue_interval,
            processor,
            retry_after,
            spread,
        } = settings;
        lines.add("inFlight", in_flight);
        // Only where it is so: the digests of other policies stay what they were.
        if *adaptive {
            lines.add("adaptive", adaptive);
        }
        lines.add("working", format_args!("{working:?}"));
        lines.span("queueTime", *queue_time);
        lines.span("queueInterval", *queue_interval);
        lines.add(
            "processor",
            format_args!("{:?}", processor.map(retryguard_core::Ratio::parts)),
        );
        lines.span("retryAfter", *retry_after);
        lines.ratio("spread", *spread);
    });
}

/// Two digits for each reading, because there are more of them than of everything else together.
pub(super) fn classifier(lines: &mut Lines, classifier: &Classifier) {
    let table = classifier.table();
    let readings = table.statuses.iter().chain(&table.codes).chain(&table.kinds);
    let digits: String = readings.flat_map(|reading| digits(*reading)).collect();
    lines.add("readings", digits);
}

fn digits(reading: Reading) -> [char; 2] {
    let Reading {
        kind,
        retryable,
        rejection,
        unhealthy,
    } = reading;
    let answers = u8::from(retryable) + 2 * u8::from(rejection) + 4 * u8::from(unhealthy);
    [char::from(b'a' + kind as u8), char::from(b'0' + answers)]
}

pub(super) fn idempotency(lines: &mut Lines, idempotency: &Idempotency) {
    let Idempotency {
        methods,
        key_header,
        add_keys,
        retry_non_idempotent,
    } = idempotency;
    // A set: the order in which methods are written changes nothing.
    let mut methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    methods.sort_unstable();
    lines.list("methods", &methods);
    lines.add("keyHeader", key_header);
    lines.add("addKeys", add_keys);
    lines.add("retryNonIdempotent", retry_non_idempotent);
}
