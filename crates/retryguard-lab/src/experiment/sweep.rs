//! Where naive retries turn from help to harm: payments of more and less capacity under errors that come anyway.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Driven, Phases, Stores, Trouble, bounded, digest, drive, kept, subject::Subject};
use crate::{Configuration, Settings, TimeScale, load::Plan};

/// The workers of payments that are tried. Each does ten charges a second.
pub const SWEPT: [usize; 6] = [2, 3, 4, 5, 6, 8];

/// Orders a described second: nine tenths of four workers.
pub const RATE: f64 = 36.0;

/// Places to wait for a worker.
const QUEUE: usize = 200;

/// The load before any retry: orders over what so many workers can do.
#[must_use]
pub fn load_of(workers: usize) -> f64 {
    RATE / (10.0 * workers as f64)
}

/// A calm start, then errors for as long as a fault of the matrix lasts. Where retries ask for a little more than there is,
/// the queue takes tens of seconds to become longer than callers wait: a shorter window would end before the harm.
pub const SWEPT_PHASES: Phases = Phases {
    warm_up: 10,
    fault: 120,
    recovery: 0,
};

/// How orders call payments in the sweep; no other client retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// One attempt.
    None,
    /// Three attempts at once.
    Immediate,
    /// The same behind a breaker that counts absolute failures.
    Breaker,
    /// Three attempts under a budget, a throttle and the guard.
    Retryguard,
}

/// One point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Payments' workers.
    pub workers: usize,
    /// How orders call payments.
    pub rule: Rule,
    /// The digest of the policy as it is written.
    pub digest: String,
    /// Orders that were to be sent while the fault lasted.
    pub sent: u64,
    /// The share of them that was paid, and requests that arrived at payments for each of them; none where the driver
    /// did not keep its load.
    pub figures: Option<(f64, f64)>,
    /// Why the load was not kept, where it was not.
    pub not_kept: Option<String>,
    /// How often it was run until it kept its load.
    pub tries: u8,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Immediate, Self::Breaker, Self::Retryguard];

    /// The name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Immediate => "immediate",
            Self::Breaker => "breaker",
            Self::Retryguard => "retryguard",
        }
    }

    /// The policy: half a second for an attempt at payments, and no limit elsewhere, so that what differs is what
    /// orders do about payments that fail.
    #[must_use]
    pub const fn policy(self) -> &'static str {
        match self {
            Self::None => include_str!("../../policies/sweep-none.yaml"),
            Self::Immediate => include_str!("../../policies/sweep-immediate.yaml"),
            Self::Breaker => include_str!("../../policies/sweep-breaker.yaml"),
            Self::Retryguard => include_str!("../../policies/sweep-retryguard.yaml"),
        }
    }
}

/// A point of the sweep that is to be run.
#[derive(Debug, Clone)]
pub struct Point {
    /// On which stores.
    pub stores: Stores,
    /// The factor on all durations.
    pub scale: TimeScale,
    /// Where all chance comes from.
    pub seed: u64,
    /// Payments' workers.
    pub workers: usize,
    /// How orders call payments.
    pub rule: Rule,
    /// The times of its parts.
    pub phases: Phases,
    /// How often it may be run until it keeps its load.
    pub tries: u8,
}

impl Point {
    /// Runs it, and again where the machine did not let it keep its load.
    ///
    /// # Errors
    /// Where the system cannot be started.
    pub async fn run(&self) -> anyhow::Result<SweepPoint> {
        let mut tries = 1;
        loop {
            let point = self.run_once(tries).await?;
            if point.figures.is_some() || tries >= self.tries {
                return Ok(point);
            }
            tries += 1;
        }
    }

    async fn run_once(&self, tries: u8) -> anyhow::Result<SweepPoint> {
        let settings = Settings {
            title: format!("{} with {} workers", self.rule.as_str(), self.workers),
            policy: self.rule.policy().to_owned(),
            scale: self.scale,
            seed: self.seed,
            payments: bounded(self.workers, QUEUE),
            ..Settings::described(Configuration::A)
        };
        let subject = Subject::start(&self.stores, settings).await?;
        let window = self.phases.window();
        // The rate is one of described seconds; the driver's is one of seconds as they pass.
        let plan = Plan {
            replays: 0.0,
            patience: Duration::from_secs(3),
            measured: Some(window),
            ..Plan::open(RATE / self.scale.factor(), self.phases.length())
        }
        .with(
            crate::faults::Fault::of(crate::faults::Kind::PaymentErrors),
            window.0,
            window.1,
        );
        let driven = drive(&subject, plan, Trouble::PaymentErrors, window).await;
        subject.stop().await?;
        let Driven { measured, samples } = driven?;
        let begun = usize::try_from(self.phases.warm_up)?.min(samples.len() - 1);
        let (first, last) = (&samples[begun], &samples[samples.len() - 1]);
        let sent: u64 = measured.between(window.0, window.1).map(|slice| slice.sent).sum();
        let arrived = |sample: &super::sampler::Sample| sample.reading.service(crate::Name::Payments).arrived;
        // Payments that are overloaded before anything breaks are slow by themselves, and at nine tenths some wait longer
        // than half a second and are tried again. Only where there is room does slowness say that the machine was busy.
        let has_room = load_of(self.workers) < 0.8;
        let not_kept = if measured.kept && !has_room {
            None
        } else {
            kept::why_not(&measured, self.scale)
        };
        let figures = not_kept.is_none().then(|| {
            (
                measured.success_between(window.0, window.1),
                (arrived(last) - arrived(first)) as f64 / (last.calls - first.calls).max(1) as f64,
            )
        });
        Ok(SweepPoint {
            workers: self.workers,
            rule: self.rule,
            digest: digest(self.rule.policy())?,
            sent,
            figures,
            not_kept,
            tries,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_a_policy_at_the_scales_that_are_used() {
        for rule in Rule::ALL {
            for factor in [0.1, 1.0] {
                digest(&TimeScale::new(factor).unwrap().policy(rule.policy())).unwrap();
            }
        }
    }
}
