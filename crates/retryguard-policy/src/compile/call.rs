//! The rules for each call: back-off, times, and how failures are read.

use retryguard_core::{Backoff, Ratio, backoff, call::Settings};

use super::{copied, means_nothing, ordered, place, value};
use crate::{
    classifier::{Classifier, Lists, Signal, Table},
    diagnostics::Mistakes,
    written::{self, At, Growth, Jitter, List},
};

/// The retries of a call that a guard which measures may allow, unless the file says otherwise. Only the deadline and this
/// bound them while they are known to help; while that is unclear, `limitedRetries` does.
const MEASURED_RETRIES: u8 = 10;

/// `measured` says that the guard measures what retries add.
pub(super) fn settings(
    own: &written::Service,
    all: &written::Service,
    measured: bool,
    classifier: &Classifier,
    mistakes: &mut Mistakes,
) -> Settings {
    let default = Settings::default();
    let or_off = |key: &Option<At<written::OrOff<_>>>, default| value(key).map_or(default, |key| key.0);
    let settings = Settings {
        // The written limit is far below 255.
        retries: copied(&all.max_retries).map_or(
            if measured {
                MEASURED_RETRIES
            } else {
                default.retries
            },
            |count| u8::try_from(count).unwrap_or(u8::MAX),
        ),
        backoff: backoff(own, all, mistakes),
        attempt_timeout: or_off(&all.attempt_timeout, default.attempt_timeout),
        deadline: or_off(&all.deadline, default.deadline),
        least_attempt: copied(&all.least_attempt).unwrap_or(default.least_attempt),
        timeout: classifier.timeout(),
        retry_retried: copied(&all.retry_retried).unwrap_or(default.retry_retried),
    };
    if let Some(least) = &all.least_attempt {
        let bounds = [
            ("deadline", settings.deadline),
            ("attemptTimeout", settings.attempt_timeout),
        ];
        for (key, bound) in bounds {
            if bound.is_some_and(|bound| bound < least.value) {
                let message =
                    format!("`leastAttempt` is above `{key}`, so no attempt could ever be worth it");
                mistakes.add(
                    least.at,
                    message,
                    format!("lower `leastAttempt` or raise `{key}`"),
                );
            }
        }
    }
    settings
}

fn backoff(own: &written::Service, all: &written::Service, mistakes: &mut Mistakes) -> Backoff {
    let default = Backoff::default();
    if let (Some(jitter), Some(factor)) = (&own.jitter, &own.jitter_factor) {
        mistakes.add(
            jitter.at.max(factor.at),
            "`jitter` and `jitterFactor` are two words for one thing",
            "keep one of them",
        );
    }
    let growth = copied(&all.growth).unwrap_or(Growth::Exponential);
    if growth != Growth::Exponential {
        means_nothing(&[("multiplier", place(&own.multiplier))], "growth", mistakes);
    }
    let (initial, cap) = ordered(
        ("initialDelay", &all.initial_delay),
        ("maxDelay", &all.max_delay),
        (default.initial, default.cap),
        mistakes,
    );
    Backoff {
        growth: match growth {
            Growth::Constant => backoff::Growth::Constant,
            Growth::Linear => backoff::Growth::Linear,
            Growth::Exponential => copied(&all.multiplier)
                .map_or(default.growth, |factor| backoff::Growth::Exponential(factor.0)),
        },
        initial,
        cap,
        jitter: jitter(all).unwrap_or(default.jitter),
        stop_beyond: value(&all.stop_beyond).and_then(|stop| stop.0),
    }
}

fn jitter(all: &written::Service) -> Option<backoff::Jitter> {
    if let Some(factor) = copied(&all.jitter_factor) {
        let factor = factor.0;
        return Some(if factor == Ratio::ZERO {
            backoff::Jitter::None
        } else {
            backoff::Jitter::Factor {
                low: factor.complement(),
                high: Ratio::from_parts(Ratio::PARTS + factor.parts()),
            }
        });
    }
    copied(&all.jitter).map(|jitter| match jitter {
        Jitter::Full => backoff::Jitter::Full,
        Jitter::Equal => backoff::Jitter::Equal,
        Jitter::Decorrelated => backoff::Jitter::Decorrelated,
        Jitter::None => backoff::Jitter::None,
    })
}

pub(super) fn classifier(all: &written::Service, mistakes: &mut Mistakes) -> Classifier {
    contradiction(
        ("retryOn", &all.retry_on),
        ("neverRetryOn", &all.never_retry_on),
        mistakes,
    );
    contradiction(("retryOn", &all.retry_on), ("quota", &all.quota), mistakes);
    contradiction(
        ("rejections", &all.rejections),
        ("notRejections", &all.not_rejections),
        mistakes,
    );
    contradiction(("rejections", &all.rejections), ("quota", &all.quota), mistakes);
    let list = |key: &Option<At<List<Signal>>>| value(key).map(List::values).unwrap_or_default();
    Classifier::new(Table::new(&Lists {
        retry_on: &list(&all.retry_on),
        never_retry_on: &list(&all.never_retry_on),
        rejections: &list(&all.rejections),
        not_rejections: &list(&all.not_rejections),
        quota: &list(&all.quota),
    }))
}

/// A failure that two lists say opposite things of.
fn contradiction(
    (first_key, first): (&str, &Option<At<List<Signal>>>),
    (second_key, second): (&str, &Option<At<List<Signal>>>),
    mistakes: &mut Mistakes,
) {
    let (Some(first), Some(second)) = (value(first), value(second)) else {
        return;
    };
    for entry in &first.0 {
        if let Some(other) = second.0.iter().find(|other| other.value == entry.value) {
            mistakes.add(
                entry.at.max(other.at),
                format!(
                    "`{}` stands in both `{first_key}` and `{second_key}`",
                    entry.value
                ),
                "remove it from one of them",
            );
        }
    }
}
