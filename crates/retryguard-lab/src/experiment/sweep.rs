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

/// How orders call payments in the sweep; nobody else retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// One attempt.
    None,
    /// Three attempts at once.
    Immediate,
    /// Three attempts under a budget and the guard.
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
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Immediate, Self::Retryguard];

    /// The name in reports, and in the simulator's scenario of the same sweep.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Immediate => "immediate",
            Self::Retryguard => "retryguard",
        }
    }

    /// The policy: half a second for an attempt at payments, and no limit elsewhere, so that what differs is what
    /// orders do about payments that fail.
    #[must_use]
    pub const fn policy(self) -> &'static str {
        match self {
            Self::None => include_str!("../../../../policies/lab/sweep-none.yaml"),
            Self::Immediate => include_str!("../../../../policies/lab/sweep-immediate.yaml"),
            Self::Retryguard => include_str!("../../../../policies/lab/sweep-retryguard.yaml"),
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
}

impl Point {
    /// Runs it.
    ///
    /// # Errors
    /// Where the system cannot be started.
    pub async fn run(&self) -> anyhow::Result<SweepPoint> {
        run(&self.stores, self.scale, self.seed, self.workers, self.rule).await
    }
}

async fn run(
    stores: &Stores,
    scale: TimeScale,
    seed: u64,
    workers: usize,
    rule: Rule,
) -> anyhow::Result<SweepPoint> {
    let phases = Phases {
        warm_up: 5,
        fault: 40,
        recovery: 0,
    };
    let settings = Settings {
        title: rule.as_str().to_owned(),
        policy: rule.policy().to_owned(),
        scale,
        seed,
        payments: bounded(workers, QUEUE),
        ..Settings::described(Configuration::A)
    };
    let subject = Subject::start(stores, settings).await?;
    let window = phases.window();
    // The rate is one of described seconds; the driver's is one of seconds as they pass.
    let plan = Plan {
        replays: 0.0,
        patience: Duration::from_secs(3),
        measured: Some(window),
        ..Plan::open(RATE / scale.factor(), phases.length())
    }
    .with(
        crate::faults::Fault::of(crate::faults::Kind::PaymentErrors),
        window.0,
        window.1,
    );
    let driven = drive(&subject, plan, Trouble::PaymentErrors, window).await;
    subject.stop().await?;
    let Driven { measured, samples } = driven?;
    let (first, last) = (&samples[5], &samples[samples.len() - 1]);
    let sent: u64 = measured.between(window.0, window.1).map(|slice| slice.sent).sum();
    let arrived = |sample: &super::sampler::Sample| sample.reading.service(crate::Name::Payments).arrived;
    // Payments that are overloaded before anything breaks are slow by themselves; only where they have room does slowness say
    // that the machine was busy.
    let has_room = RATE < 9.5 * workers as f64;
    let is_kept = measured.kept && (!has_room || kept::why_not(&measured, scale).is_none());
    Ok(SweepPoint {
        workers,
        rule,
        digest: digest(rule.policy())?,
        sent,
        figures: is_kept.then(|| {
            (
                measured.success_between(window.0, window.1),
                (arrived(last) - arrived(first)) as f64 / (last.calls - first.calls).max(1) as f64,
            )
        }),
    })
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
