//! One configuration under one fault: a warm-up, the fault from its start to its end, the recovery, and what was
//! measured meanwhile.

mod batch;
mod camel;
mod figures;
#[cfg(feature = "real")]
mod fleet;
mod kept;
mod machine;
mod outcome;
mod phases;
mod recovery;
mod sampler;
mod several;
mod subject;
mod sweep;
pub mod table;
mod trouble;

use std::time::Duration;

use retryguard_policy::Policy;

pub use batch::Batch;
pub use camel::camel_case;
pub use figures::Figures;
#[cfg(feature = "real")]
pub use fleet::Fleet;
pub use machine::Machine;
pub use outcome::{Outcome, Second};
pub use phases::Phases;
pub use recovery::recovery;
pub use several::{MOST_AT_ONCE, run_all, sweep_all};
pub use subject::Stores;
pub use sweep::{Point, RATE, Rule, SWEPT, SWEPT_PHASES, SweepPoint, load_of};
pub use trouble::Trouble;

use crate::{
    Configuration, Settings, TimeScale,
    load::{Driver, Plan, Shape, run_shown},
    settings::Capacity,
};
use subject::Subject;

/// What to run.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Under which configuration.
    pub configuration: Configuration,
    /// What breaks.
    pub trouble: Trouble,
    /// On which stores.
    pub stores: Stores,
    /// The factor on all durations.
    pub scale: TimeScale,
    /// Where all chance comes from.
    pub seed: u64,
    /// The times of its parts.
    pub phases: Phases,
}

impl Experiment {
    /// As it is described, on embedded stores.
    #[must_use]
    pub const fn described(configuration: Configuration, trouble: Trouble) -> Self {
        Self {
            configuration,
            trouble,
            stores: Stores::Embedded,
            scale: TimeScale::ONE,
            seed: 1,
            phases: Phases::of(trouble),
        }
    }

    /// The digest of its policy as it stands in the file.
    ///
    /// # Errors
    /// Where the policy is wrong.
    pub fn digest(&self) -> anyhow::Result<String> {
        digest(self.configuration.policy())
    }

    /// The line that every run begins with.
    ///
    /// # Errors
    /// Where the policy is wrong.
    pub fn header(&self) -> anyhow::Result<String> {
        Ok(format!(
            "run {}/{} stores={} scale={} seed={} policy={} phases={}",
            self.configuration,
            self.trouble,
            self.stores.as_str(),
            self.scale.factor(),
            self.seed,
            self.digest()?,
            self.phases,
        ))
    }

    /// How long it takes here, at the least.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.scale.span(self.phases.length())
    }

    /// Runs it.
    ///
    /// # Errors
    /// Where the system cannot be started or its databases not be read.
    pub async fn run(&self) -> anyhow::Result<Outcome> {
        let settings = Settings {
            scale: self.scale,
            seed: self.seed,
            ..Settings::described(self.configuration)
        };
        let machine = Machine::now();
        let subject = Subject::start(&self.stores, settings).await?;
        let (from, until) = self.phases.window();
        let driven = drive(&subject, self.plan(), self.trouble, (from, until)).await;
        let effects = subject.effects().await;
        let stopped = subject.stop().await;
        let (driven, effects, ()) = (driven?, effects?, stopped?);
        let not_kept = kept::why_not(&driven.measured, self.scale);
        let figures = not_kept
            .is_none()
            .then(|| Figures::of(&driven, effects, (from, until), self.scale, self.trouble.focus()));
        Ok(Outcome {
            configuration: self.configuration.letter().to_owned(),
            fault: self.trouble.as_str().to_owned(),
            stores: self.stores.as_str().to_owned(),
            scale: self.scale.factor(),
            seed: self.seed,
            digest: self.digest()?,
            phases: self.phases,
            load_average: machine.load_average,
            not_kept,
            worst_lag_ms: driven.measured.worst_lag.as_secs_f64() * 1000.0,
            figures,
            seconds: driven.seconds(self.trouble.focus()),
        })
    }

    fn plan(&self) -> Plan {
        let (from, until) = self.phases.window();
        let mut plan = Plan {
            measured: Some((from, until)),
            ..Plan::steady(self.phases.length())
        };
        if self.trouble == Trouble::GatewayOverload {
            let think = Duration::from_millis(100);
            plan.shape = Shape::Closed {
                users: 1,
                think: (think, think),
            };
        }
        match self.trouble.fault() {
            Some(fault) => plan.with(fault, from, until),
            None => plan,
        }
    }
}

/// What a driver and a sampler saw of one run.
pub(crate) struct Driven {
    pub(crate) measured: crate::load::Measurements,
    /// One for each described second, and one at the end.
    pub(crate) samples: Vec<sampler::Sample>,
}

async fn drive(
    subject: &Subject,
    plan: Plan,
    trouble: Trouble,
    (from, until): (Duration, Duration),
) -> anyhow::Result<Driven> {
    let settings = subject.settings();
    let (scale, length) = (settings.scale, plan.duration);
    let driver = Driver::against(
        subject.gateway(),
        plan,
        scale,
        settings.seed,
        settings.goods,
        None,
    )?;
    let sampled = sampler::sample(subject, &driver, length, (from, until));
    let switched = subject.switch(trouble.fault(), (from, until));
    let (measured, samples, switched) = tokio::join!(run_shown(&driver, &settings.title), sampled, switched);
    switched?;
    Ok(Driven { measured, samples })
}

/// The digest of a policy's text.
pub(crate) fn digest(text: &str) -> anyhow::Result<String> {
    let policy =
        Policy::parse(text).map_err(|mistakes| anyhow::anyhow!("the policy is wrong:\n{mistakes}"))?;
    Ok(policy.digest().to_string())
}

/// Payments with so many workers, and places to wait.
pub(crate) const fn bounded(workers: usize, queue: usize) -> Capacity {
    Capacity { workers, queue }
}
