//! The parts that notice trouble and its end: breaker, endpoints, guard and the server's shedding.

use std::time::Duration;

use retryguard_core::{Ratio, breaker, endpoints, guard, shed, time::nanos};

use super::{copied, means_nothing, ordered, place, value};
use crate::{
    diagnostics::Mistakes,
    written::{self, At, GuardMode, Level, Trip, WhenDown},
};

/// The most samples that the guard can pool.
const MOST_SAMPLES: u32 = 16;

pub(super) fn breaker(
    own: &written::Breaker,
    all: &written::Breaker,
    measured: bool,
    mistakes: &mut Mistakes,
) -> breaker::Settings {
    let default = breaker::Settings::default();
    let (open_for, open_for_at_most) = ordered(
        ("openFor", &all.open_for),
        ("openForAtMost", &all.open_for_at_most),
        (default.open_for, default.open_for_at_most),
        mistakes,
    );
    let kind = trip_kind(all, measured);
    if kind == Trip::Silence {
        return silence(own, all, mistakes);
    }
    means_nothing(
        &[
            ("whenDown", place(&own.when_down)),
            ("waiting", place(&own.waiting)),
        ],
        "a `trip` other than silence",
        mistakes,
    );
    breaker::Settings {
        trip: trip(kind, own, all, mistakes),
        open_for,
        open_for_at_most,
        probes: copied(&all.probes).unwrap_or(default.probes),
        close_after: copied(&all.close_after).unwrap_or(default.close_after),
        when_down: breaker::WhenDown::Fail,
    }
}

pub(super) fn endpoints(
    _own: &written::Endpoints,
    all: &written::Endpoints,
    mistakes: &mut Mistakes,
) -> endpoints::Settings {
    let default = endpoints::Settings::default();
    let (out_for, out_for_at_most) = ordered(
        ("outFor", &all.out_for),
        ("outForAtMost", &all.out_for_at_most),
        (default.out_for, default.out_for_at_most),
        mistakes,
    );
    endpoints::Settings {
        in_a_row: copied(&all.in_a_row).unwrap_or(default.in_a_row),
        factor: copied(&all.factor).map_or(default.factor, |factor| factor.0),
        attempts: copied(&all.attempts).unwrap_or(default.attempts),
        out_for,
        out_for_at_most,
        most_out: copied(&all.most_out).map_or(default.most_out, |share| share.0),
    }
}

/// What opens the breaker. A file that writes of shares or open times and of no `trip` means a rate, as it always did.
fn trip_kind(all: &written::Breaker, measured: bool) -> Trip {
    let of_a_rate = all.ratio.is_some()
        || all.minimum_calls.is_some()
        || all.window.is_some()
        || all.slow_call.is_some()
        || all.slow_call_ratio.is_some()
        || all.open_for.is_some()
        || all.open_for_at_most.is_some()
        || all.probes.is_some()
        || all.close_after.is_some();
    let default = if measured && !of_a_rate {
        Trip::Silence
    } else {
        Trip::Rate
    };
    copied(&all.trip).unwrap_or(default)
}

/// The shortest and the longest time between two probes of a target that is down.
const PROBE_AFTER: Duration = Duration::from_millis(50);
const PROBE_AT_MOST: Duration = Duration::from_secs(1);
/// Calls that may wait for a target that is down.
const WAITING: u32 = 1000;

fn silence(own: &written::Breaker, all: &written::Breaker, mistakes: &mut Mistakes) -> breaker::Settings {
    let others = [
        ("ratio", place(&own.ratio)),
        ("minimumCalls", place(&own.minimum_calls)),
        ("window", place(&own.window)),
        ("slowCall", place(&own.slow_call)),
        ("slowCallRatio", place(&own.slow_call_ratio)),
    ];
    means_nothing(&others, "trip: silence", mistakes);
    let (open_for, open_for_at_most) = ordered(
        ("openFor", &all.open_for),
        ("openForAtMost", &all.open_for_at_most),
        (PROBE_AFTER, PROBE_AT_MOST),
        mistakes,
    );
    let when_down = match copied(&all.when_down).unwrap_or(WhenDown::Wait) {
        WhenDown::Wait => breaker::WhenDown::Wait {
            most: copied(&all.waiting).unwrap_or(WAITING),
        },
        WhenDown::Fail => {
            means_nothing(&[("waiting", place(&own.waiting))], "whenDown: fail", mistakes);
            breaker::WhenDown::Fail
        }
    };
    breaker::Settings {
        trip: breaker::Trip::Silence(copied(&all.failures).unwrap_or(10)),
        open_for,
        open_for_at_most,
        probes: copied(&all.probes).unwrap_or(1),
        close_after: copied(&all.close_after).unwrap_or(1),
        when_down,
    }
}

fn trip(
    kind: Trip,
    own: &written::Breaker,
    all: &written::Breaker,
    mistakes: &mut Mistakes,
) -> breaker::Trip {
    let failures = ("failures", place(&own.failures));
    let window_key = ("window", place(&own.window));
    let rate = [
        ("ratio", place(&own.ratio)),
        ("minimumCalls", place(&own.minimum_calls)),
        ("slowCall", place(&own.slow_call)),
        ("slowCallRatio", place(&own.slow_call_ratio)),
    ];
    let count = copied(&all.failures).unwrap_or(5);
    let window = copied(&all.window).unwrap_or(Duration::from_secs(10));
    match kind {
        // Compiled apart.
        Trip::Silence => breaker::Trip::Silence(count),
        Trip::Rate => {
            means_nothing(&[failures], "trip: rate", mistakes);
            let slow_call = value(&all.slow_call).and_then(|above| above.0);
            if slow_call.is_none() {
                means_nothing(
                    &[("slowCallRatio", place(&own.slow_call_ratio))],
                    "slowCall: off",
                    mistakes,
                );
            }
            breaker::Trip::Rate {
                ratio: copied(&all.ratio).map_or(Ratio::percent(80), |share| share.0),
                minimum_calls: copied(&all.minimum_calls).unwrap_or(20),
                window,
                slow: slow_call.map(|above| breaker::Slow {
                    above,
                    ratio: copied(&all.slow_call_ratio).map_or(Ratio::percent(80), |share| share.0),
                }),
            }
        }
        Trip::Count => {
            means_nothing(&rate, "trip: count", mistakes);
            breaker::Trip::Count {
                failures: count,
                window,
            }
        }
        Trip::Consecutive => {
            means_nothing(&rate, "trip: consecutive", mistakes);
            means_nothing(&[window_key], "trip: consecutive", mistakes);
            breaker::Trip::Consecutive(count)
        }
    }
}

pub(super) fn guard(own: &written::Guard, all: &written::Guard, mistakes: &mut Mistakes) -> guard::Settings {
    let default = guard::Settings::default();
    let signal = copied(&all.signal).unwrap_or(default.signal);
    let mode = match guard_mode(all) {
        GuardMode::Response => response(own, all, mistakes),
        GuardMode::Algorithm1 => algorithm1(own, all, signal, mistakes),
        GuardMode::Hysteresis => hysteresis(own, all, signal, mistakes),
    };
    guard::Settings {
        signal,
        mode,
        interval: copied(&all.interval).unwrap_or(default.interval),
    }
}

/// How the guard decides. A file that writes of thresholds and of no `mode` means the hysteresis, as it always did.
fn guard_mode(all: &written::Guard) -> GuardMode {
    let of_thresholds = all.signal.is_some()
        || all.interval.is_some()
        || all.off_above.is_some()
        || all.on_below.is_some()
        || all.samples.is_some()
        || all.minimum_calls.is_some()
        || all.cool_down.is_some()
        || all.cool_down_at_most.is_some()
        || all.ramp_steps.is_some()
        || all.step_for.is_some()
        || all.quiet_after.is_some();
    let default = if of_thresholds {
        GuardMode::Hysteresis
    } else {
        GuardMode::Response
    };
    copied(&all.mode).unwrap_or(default)
}

fn response(own: &written::Guard, all: &written::Guard, mistakes: &mut Mistakes) -> guard::Mode {
    let others = [
        ("signal", place(&own.signal)),
        ("interval", place(&own.interval)),
        ("offAbove", place(&own.off_above)),
        ("onBelow", place(&own.on_below)),
        ("samples", place(&own.samples)),
        ("minimumCalls", place(&own.minimum_calls)),
        ("coolDown", place(&own.cool_down)),
        ("coolDownAtMost", place(&own.cool_down_at_most)),
        ("rampSteps", place(&own.ramp_steps)),
        ("stepFor", place(&own.step_for)),
        ("quietAfter", place(&own.quiet_after)),
        ("threshold", place(&own.threshold)),
    ];
    means_nothing(&others, "mode: response", mistakes);
    let default = guard::Response::default();
    let (slot, slot_at_most) = ordered(
        ("slot", &all.slot),
        ("slotAtMost", &all.slot_at_most),
        (default.slot, default.slot_at_most),
        mistakes,
    );
    guard::Mode::Response(guard::Response {
        price: copied(&all.price).map_or(default.price, |share| share.0),
        limited_retries: copied(&all.limited_retries).map_or(default.limited_retries, |count| {
            u8::try_from(count).unwrap_or(u8::MAX)
        }),
        slot,
        slot_at_most,
    })
}

/// The keys of the mode that measures, which mean nothing in the others.
fn of_response(own: &written::Guard) -> [(&'static str, Option<crate::diagnostics::Position>); 4] {
    [
        ("price", place(&own.price)),
        ("limitedRetries", place(&own.limited_retries)),
        ("slot", place(&own.slot)),
        ("slotAtMost", place(&own.slot_at_most)),
    ]
}

fn algorithm1(
    own: &written::Guard,
    all: &written::Guard,
    signal: guard::Signal,
    mistakes: &mut Mistakes,
) -> guard::Mode {
    let others = [
        ("offAbove", place(&own.off_above)),
        ("onBelow", place(&own.on_below)),
        ("minimumCalls", place(&own.minimum_calls)),
        ("coolDown", place(&own.cool_down)),
        ("coolDownAtMost", place(&own.cool_down_at_most)),
        ("rampSteps", place(&own.ramp_steps)),
        ("stepFor", place(&own.step_for)),
        ("quietAfter", place(&own.quiet_after)),
    ];
    means_nothing(&others, "mode: algorithm1", mistakes);
    means_nothing(&of_response(own), "mode: algorithm1", mistakes);
    guard::Mode::Algorithm1 {
        threshold: threshold("threshold", &all.threshold, all, signal, mistakes)
            .unwrap_or(Ratio::percent(20)),
        samples: copied(&all.samples).unwrap_or(5),
    }
}

fn hysteresis(
    own: &written::Guard,
    all: &written::Guard,
    signal: guard::Signal,
    mistakes: &mut Mistakes,
) -> guard::Mode {
    let default = guard::Hysteresis::default();
    means_nothing(&of_response(own), "mode: hysteresis", mistakes);
    means_nothing(
        &[("threshold", place(&own.threshold))],
        "mode: hysteresis",
        mistakes,
    );
    let samples = copied(&all.samples).unwrap_or(u32::from(default.samples));
    if let Some(written) = all
        .samples
        .as_ref()
        .filter(|written| written.value > MOST_SAMPLES)
    {
        mistakes.add(
            written.at,
            "`samples` is more than the pool of `mode: hysteresis` holds",
            format!("write at most {MOST_SAMPLES}, and a longer `interval`"),
        );
    }
    let (off_above, on_below) = thresholds(all, signal, mistakes);
    let (cool_down, cool_down_at_most) = ordered(
        ("coolDown", &all.cool_down),
        ("coolDownAtMost", &all.cool_down_at_most),
        (default.cool_down, default.cool_down_at_most),
        mistakes,
    );
    let small = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
    guard::Mode::Hysteresis(guard::Hysteresis {
        off_above,
        on_below,
        samples: small(samples),
        minimum_calls: copied(&all.minimum_calls).unwrap_or(default.minimum_calls),
        cool_down,
        cool_down_at_most,
        ramp_steps: copied(&all.ramp_steps).map_or(default.ramp_steps, small),
        step_for: copied(&all.step_for).unwrap_or(default.step_for),
        quiet_after: copied(&all.quiet_after).unwrap_or(default.quiet_after),
    })
}

/// The two thresholds. A lower one that is not written is half of the upper one.
fn thresholds(all: &written::Guard, signal: guard::Signal, mistakes: &mut Mistakes) -> (Ratio, Ratio) {
    let default = guard::Hysteresis::default();
    let off = threshold("offAbove", &all.off_above, all, signal, mistakes).unwrap_or(default.off_above);
    let half = Ratio::from_parts(off.parts() / 2);
    let Some(written) = &all.on_below else {
        return (off, half);
    };
    let on = threshold("onBelow", &all.on_below, all, signal, mistakes).unwrap_or(half);
    if on > off {
        mistakes.add(
            written.at,
            "`onBelow` is above `offAbove`: retries would go off and come back at once",
            "write less than `offAbove`; half of it works well",
        );
    }
    (off, on)
}

/// A threshold in the unit of its signal: seconds for the delay, a share for the others.
fn threshold(
    key: &str,
    written: &Option<At<Level>>,
    all: &written::Guard,
    signal: guard::Signal,
    mistakes: &mut Mistakes,
) -> Option<Ratio> {
    let wants_span = signal == guard::Signal::Delay;
    match (written, wants_span) {
        (
            Some(At {
                value: Level::Share(share),
                at,
            }),
            false,
        ) => {
            if signal == guard::Signal::Rejections && *share >= Ratio::ONE {
                mistakes.add(
                    *at,
                    format!("`{key}` is never exceeded: no more than all attempts can be rejected"),
                    "write less than 100%, such as 20%",
                );
            }
            Some(*share)
        }
        (
            Some(At {
                value: Level::Span(span),
                ..
            }),
            true,
        ) => Some(Ratio::from_parts(nanos(*span))),
        (Some(At { at, .. }), true) => {
            let message = format!("`{key}` is a share, and `signal: delay` is compared with a duration");
            mistakes.add(*at, message, "write a duration, such as 500ms");
            None
        }
        (Some(At { at, .. }), false) => {
            let message = format!("`{key}` is a duration, and only `signal: delay` is compared with one");
            mistakes.add(*at, message, "write a share, such as 20%");
            None
        }
        (None, true) => {
            if let Some(signal) = &all.signal {
                let message = format!("`signal: delay` needs `{key}`");
                mistakes.add(
                    signal.at,
                    message,
                    "write the delay that means overload for this target, such as 500ms",
                );
            }
            None
        }
        (None, false) => None,
    }
}

pub(super) fn server(
    _own: &written::Server,
    all: &written::Server,
    mistakes: &mut Mistakes,
) -> shed::Settings {
    let default = shed::Settings::default();
    let bound = value(&all.in_flight).map(|bound| bound.0);
    let adaptive = bound == Some(None);
    let in_flight = match bound {
        Some(Some(count)) => count,
        Some(None) => shed::Settings::MOST,
        None => default.in_flight,
    };
    let working = value(&all.working).map_or(default.working, |working| working.0);
    if let (Some(at), Some(count)) = (place(&all.working), working)
        && count > in_flight
    {
        mistakes.add(
            at,
            "`working` is above `inFlight`, so the bound could never be reached",
            format!("write at most {in_flight}, or raise `inFlight`"),
        );
    }
    shed::Settings {
        in_flight,
        adaptive,
        working,
        queue_time: copied(&all.queue_time).unwrap_or(default.queue_time),
        queue_interval: copied(&all.queue_interval).unwrap_or(default.queue_interval),
        processor: value(&all.processor)
            .map_or(default.processor, |share| share.0.as_ref().map(|share| share.0)),
        retry_after: copied(&all.retry_after).unwrap_or(default.retry_after),
        spread: copied(&all.spread).map_or(default.spread, |share| share.0),
    }
}
