//! What `check` and `tune` share: which policy is modelled and in which world.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use retryguard_tune::ModelledService;

use crate::foreign;

/// Which policy, and which world it is judged in.
#[derive(Args, Clone, Debug)]
pub(crate) struct World {
    /// The policy file, or one of another system that `retryguard import` reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The service of the policy that is called; not needed where the policy has one only.
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Availabilities of the target: one, or from:step:to.
    #[arg(long, value_name = "RANGE", default_value = "0.5:0.1:1.0")]
    pub(crate) availability: String,
    /// Mean response time of the target, such as 50ms; half the attempt timeout if not given, as in Mendonça et al. 2020.
    #[arg(long, value_name = "TIME")]
    pub(crate) response_time: Option<String>,
    /// Which part of the policy to model; the retries if it has any, else the breaker.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<Pattern>,
}

/// The part of a policy that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// The retries.
    Retry,
    /// The breaker.
    Breaker,
}

impl World {
    /// The service that is described.
    pub(crate) fn service(&self, usual: Option<Pattern>) -> anyhow::Result<ModelledService> {
        let path = self
            .policy
            .as_ref()
            .context("no policy is given: give --policy FILE")?;
        let policy = foreign::policy(path)?.1;
        let pattern = self.pattern.or(usual).map(|pattern| match pattern {
            Pattern::Retry => retryguard_tune::Pattern::Retry,
            Pattern::Breaker => retryguard_tune::Pattern::Breaker,
        });
        Ok(ModelledService::new(
            policy,
            self.service.as_deref(),
            self.response_time.as_deref(),
            &self.availability,
            pattern,
        )?)
    }
}
