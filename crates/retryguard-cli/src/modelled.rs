//! What `check` and `tune` share: which policy is modelled and in which world, and how they end: 0 for answers, 1 for a model, a
//! property or a limit that stands in their way, 2 for what the user has to give differently.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use retryguard_tune::ModelledService;

use crate::foreign;

/// What was given is wrong, whatever the model would have said.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) anyhow::Error);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Wrong {}

/// Says on standard error why there is no answer.
pub(crate) fn exit(answer: anyhow::Result<()>) -> ExitCode {
    let Err(error) = answer else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    if error.is::<Wrong>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

/// Which policy, and which world it is judged in.
#[derive(Args, Clone, Debug)]
pub(crate) struct World {
    /// The policy file, or one of another system that `retryguard import` reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The service of the policy that is called.
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
