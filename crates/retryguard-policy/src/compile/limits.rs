//! The parts that bound how much is sent: budget, throttle, bulkhead, hedge and gate.

use std::time::Duration;

use retryguard_core::{Ratio, budget, bulkhead, gate, hedge, limiter, throttle, time::nanos};

use super::{copied, means_nothing, ordered, place, value};
use crate::{
    diagnostics::Mistakes,
    written::{self, BudgetForm, Level, LimitForm, Share},
};

/// The machine's own defaults, which cannot be read off it because its budget has three forms.
const BUDGET_PERCENT: Ratio = Ratio::percent(20);
const BUDGET_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn gate(all: Option<&written::Gate>, measured: bool) -> gate::Settings {
    // A server that sheds asks for fewer requests, not for none.
    let default = gate::Settings {
        scope: if measured {
            gate::Scope::Retries
        } else {
            gate::Scope::Target
        },
        ..gate::Settings::default()
    };
    let Some(all) = all else {
        return default;
    };
    gate::Settings {
        scope: copied(&all.scope).unwrap_or(default.scope),
        at_most: copied(&all.at_most).unwrap_or(default.at_most),
        spread: copied(&all.spread).map_or(default.spread, |share| share.0),
        no_retry_for: copied(&all.no_retry_for).unwrap_or(default.no_retry_for),
    }
}

pub(super) fn budget(
    own: &written::Budget,
    all: &written::Budget,
    mistakes: &mut Mistakes,
) -> budget::Settings {
    let form = copied(&all.form).unwrap_or(BudgetForm::Ratio);
    refuse_other_forms(own, form, mistakes);
    let window = copied(&all.interval).unwrap_or(BUDGET_INTERVAL);
    let reserve = retry_rate(value(&all.min_retry_rate));
    match form {
        BudgetForm::Ratio => budget::Settings::Ratio {
            ratio: copied(&all.percent).map_or(BUDGET_PERCENT, |share| share.0),
            window,
            reserve,
        },
        BudgetForm::Adaptive => {
            let shares = |key: &Option<written::At<Share>>| {
                key.as_ref().map(|key| written::At {
                    value: key.value.0,
                    at: key.at,
                })
            };
            let (least, most) = ordered(
                ("minPercent", &shares(&all.min_percent)),
                ("maxPercent", &shares(&all.max_percent)),
                (Ratio::percent(10), Ratio::percent(30)),
                mistakes,
            );
            budget::Settings::Adaptive {
                least,
                most,
                window,
                reserve,
            }
        }
        BudgetForm::Quota => quota(all, mistakes),
    }
}

/// So many in an interval, as a rate that accrues and a number that can be saved up.
fn retry_rate(rate: Option<&written::RetryRate>) -> budget::Reserve {
    let count = rate.and_then(|rate| copied(&rate.count)).unwrap_or(1);
    let interval = rate.and_then(|rate| copied(&rate.interval));
    let interval = nanos(interval.unwrap_or(BUDGET_INTERVAL));
    let parts =
        u128::from(count) * u128::from(Ratio::PARTS) * u128::from(Ratio::PARTS) / u128::from(interval.max(1));
    budget::Reserve {
        per_second: Ratio::from_parts(u64::try_from(parts).unwrap_or(u64::MAX)),
        most: count,
    }
}

fn quota(all: &written::Budget, mistakes: &mut Mistakes) -> budget::Settings {
    let capacity = copied(&all.capacity).unwrap_or(500);
    let costs = [
        ("retryCost", &all.retry_cost, 5),
        ("timeoutCost", &all.timeout_cost, 10),
    ];
    let [retry_cost, timeout_cost] = costs.map(|(key, cost, default)| {
        if let Some(cost) = cost
            && cost.value > capacity
        {
            let message = format!("`{key}` is above `capacity`, so no retry could ever be paid");
            mistakes.add(cost.at, message, format!("lower `{key}` or raise `capacity`"));
        }
        copied(cost).unwrap_or(default.min(capacity))
    });
    budget::Settings::Quota {
        capacity,
        retry_cost,
        timeout_cost,
        success_gain: copied(&all.success_gain).unwrap_or(1),
    }
}

fn refuse_other_forms(own: &written::Budget, form: BudgetForm, mistakes: &mut Mistakes) {
    let ratio = [("percent", place(&own.percent))];
    let adaptive = [
        ("minPercent", place(&own.min_percent)),
        ("maxPercent", place(&own.max_percent)),
    ];
    let counted = [
        ("interval", place(&own.interval)),
        ("minRetryRate", place(&own.min_retry_rate)),
    ];
    let quota = [
        ("capacity", place(&own.capacity)),
        ("retryCost", place(&own.retry_cost)),
        ("timeoutCost", place(&own.timeout_cost)),
        ("successGain", place(&own.success_gain)),
    ];
    let (beside, keys): (&str, Vec<_>) = match form {
        BudgetForm::Ratio => ("form: ratio", [&adaptive[..], &quota].concat()),
        BudgetForm::Adaptive => ("form: adaptive", [&ratio[..], &quota].concat()),
        BudgetForm::Quota => ("form: quota", [&ratio[..], &adaptive, &counted].concat()),
    };
    means_nothing(&keys, beside, mistakes);
}

pub(super) fn throttle(
    _own: &written::Throttle,
    all: &written::Throttle,
    _mistakes: &mut Mistakes,
) -> throttle::Settings {
    let default = throttle::Settings::default();
    throttle::Settings {
        requests_per_accept: copied(&all.requests_per_accept)
            .map_or(default.requests_per_accept, |factor| factor.0),
        window: copied(&all.window).unwrap_or(default.window),
    }
}

pub(super) fn bulkhead(
    own: &written::Bulkhead,
    all: &written::Bulkhead,
    mistakes: &mut Mistakes,
) -> bulkhead::Settings {
    let form = copied(&all.form).unwrap_or(LimitForm::Fixed);
    if form == LimitForm::Adaptive {
        return adaptive(own, all, mistakes);
    }
    means_nothing(
        &[("late", place(&own.late))],
        "a form other than adaptive",
        mistakes,
    );
    let (limit, places) = match form {
        LimitForm::Fixed => {
            let keys = [
                ("initial", place(&own.initial)),
                ("least", place(&own.least)),
                ("most", place(&own.most)),
                ("tolerance", place(&own.tolerance)),
            ];
            means_nothing(&keys, "form: fixed", mistakes);
            let limit = copied(&all.limit).unwrap_or(100);
            (bulkhead::Limit::Fixed(limit), limit)
        }
        LimitForm::Gradient | LimitForm::Adaptive => {
            means_nothing(&[("limit", place(&own.limit))], "form: gradient", mistakes);
            gradient(all, mistakes)
        }
    };
    let (wait, waiting) = queue(all, places, mistakes);
    bulkhead::Settings { limit, wait, waiting }
}

/// The default of a policy without a bulkhead.
pub(super) fn adaptive_bulkhead() -> bulkhead::Settings {
    bulkhead::Settings {
        limit: bulkhead::Limit::Adaptive(limiter::Settings::default()),
        wait: Duration::MAX,
        waiting: WAITING,
    }
}

/// How many calls may wait for a place, or for a target that is down.
const WAITING: u32 = 1000;

fn adaptive(own: &written::Bulkhead, all: &written::Bulkhead, mistakes: &mut Mistakes) -> bulkhead::Settings {
    let keys = [
        ("limit", place(&own.limit)),
        ("initial", place(&own.initial)),
        ("least", place(&own.least)),
    ];
    means_nothing(&keys, "form: adaptive", mistakes);
    let default = limiter::Settings::default();
    bulkhead::Settings {
        limit: bulkhead::Limit::Adaptive(limiter::Settings {
            most: copied(&all.most).unwrap_or(default.most),
            tolerance: copied(&all.tolerance).map_or(default.tolerance, |factor| factor.0),
            late: copied(&all.late).map_or(default.late, |share| share.0),
        }),
        wait: copied(&all.wait).unwrap_or(Duration::MAX),
        waiting: copied(&all.waiting).unwrap_or(WAITING),
    }
}

fn gradient(all: &written::Bulkhead, mistakes: &mut Mistakes) -> (bulkhead::Limit, u32) {
    let (least, most) = ordered(("least", &all.least), ("most", &all.most), (1, 1000), mistakes);
    if let Some(initial) = &all.initial
        && !(least..=most.max(least)).contains(&initial.value)
    {
        let message = "`initial` lies outside of `least` and `most`";
        mistakes.add(
            initial.at,
            message,
            format!("write a number from {least} to {most}"),
        );
    }
    let limit = bulkhead::Limit::Gradient {
        initial: copied(&all.initial).unwrap_or(20).min(most).max(least),
        least,
        most,
        tolerance: copied(&all.tolerance).map_or(Ratio::percent(150), |factor| factor.0),
    };
    (limit, most)
}

/// How long and how many. A wait that is written without a number lets as many wait as there are places.
fn queue(all: &written::Bulkhead, places: u32, mistakes: &mut Mistakes) -> (Duration, u32) {
    let wait = copied(&all.wait).unwrap_or_default();
    if wait.is_zero() {
        if let Some(waiting) = all.waiting.as_ref().filter(|waiting| waiting.value > 0) {
            mistakes.add(
                waiting.at,
                "`waiting` without a `wait`: no call can wait for no time",
                "write a `wait`",
            );
        }
        return (wait, 0);
    }
    if let Some(waiting) = all.waiting.as_ref().filter(|waiting| waiting.value == 0) {
        let message = "`waiting` is 0, so no call may use the `wait`";
        mistakes.add(waiting.at, message, "remove the `wait`, or say how many may wait");
    }
    (wait, copied(&all.waiting).unwrap_or(places))
}

pub(super) fn hedge(own: &written::Hedge, all: &written::Hedge, mistakes: &mut Mistakes) -> hedge::Settings {
    let after = match copied(&all.after).unwrap_or(Level::Share(Ratio::percent(95))) {
        Level::Span(span) => {
            means_nothing(
                &[("atLeast", place(&own.at_least))],
                "after: a duration",
                mistakes,
            );
            hedge::After::Fixed(span)
        }
        Level::Share(share) => hedge::After::Percentile {
            share,
            at_least: copied(&all.at_least).unwrap_or(Duration::from_millis(50)),
        },
    };
    hedge::Settings {
        after,
        // The written limit is the machine's own.
        most: copied(&all.most).map_or(1, |most| u8::try_from(most).unwrap_or(hedge::Settings::MOST)),
    }
}
