//! What an experiment is done on: the system in this process, or five processes.

use std::{net::SocketAddr, time::Duration};

#[cfg(feature = "real")]
use super::fleet::Fleet;
use crate::{Settings, System, clock, counts::Reading, database::Effects, faults::Fault, name::Name};

/// Where the services keep what they write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stores {
    /// A SQLite file a service, all services in this process.
    Embedded,
    /// PostgreSQL and Redis, a process for each service.
    #[cfg(feature = "real")]
    Real {
        /// The program whose `lab serve` is a service: `retryguard`.
        program: std::path::PathBuf,
        /// The address of PostgreSQL.
        postgres: String,
        /// The address of Redis.
        redis: String,
    },
}

impl Stores {
    /// The name on the command line and in reports.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            #[cfg(feature = "real")]
            Self::Real { .. } => "real",
        }
    }
}

/// A system under experiment.
pub(super) enum Subject {
    Embedded(System),
    #[cfg(feature = "real")]
    Real(Box<Fleet>),
}

impl Subject {
    pub(super) async fn start(stores: &Stores, settings: Settings) -> anyhow::Result<Self> {
        match stores {
            Stores::Embedded => Ok(Self::Embedded(System::start(settings).await?)),
            #[cfg(feature = "real")]
            Stores::Real {
                program,
                postgres,
                redis,
            } => Ok(Self::Real(Box::new(
                Fleet::start(program, settings, postgres, redis).await?,
            ))),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        match self {
            Self::Embedded(system) => system.settings(),
            #[cfg(feature = "real")]
            Self::Real(fleet) => fleet.settings(),
        }
    }

    pub(super) fn gateway(&self) -> SocketAddr {
        match self {
            Self::Embedded(system) => system.address(Name::Gateway),
            #[cfg(feature = "real")]
            Self::Real(fleet) => fleet.address(Name::Gateway),
        }
    }

    pub(super) async fn reading(&self, with_latency: bool) -> Reading {
        match self {
            Self::Embedded(system) => system.counts().reading(with_latency),
            #[cfg(feature = "real")]
            Self::Real(fleet) => fleet.reading(with_latency).await,
        }
    }

    /// Breaks something from one described moment until another.
    pub(super) async fn switch(
        &self,
        fault: Option<Fault>,
        (from, until): (Duration, Duration),
    ) -> anyhow::Result<()> {
        let Some(fault) = fault else { return Ok(()) };
        let (start, scale) = (clock::now(), self.settings().scale);
        clock::sleep_until(start + scale.span(from)).await;
        self.set(&fault, true).await?;
        clock::sleep_until(start + scale.span(until)).await;
        self.set(&fault, false).await
    }

    async fn set(&self, fault: &Fault, broken: bool) -> anyhow::Result<()> {
        match self {
            Self::Embedded(system) => {
                if broken {
                    system.faults().start(fault.clone());
                } else {
                    system.faults().end(fault.kind);
                }
                Ok(())
            }
            #[cfg(feature = "real")]
            Self::Real(fleet) => fleet.set(fault, broken).await,
        }
    }

    pub(super) async fn effects(&self) -> anyhow::Result<Effects> {
        match self {
            Self::Embedded(system) => system.effects().await,
            #[cfg(feature = "real")]
            Self::Real(fleet) => fleet.effects().await,
        }
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(system) => {
                system.stop().await;
                Ok(())
            }
            #[cfg(feature = "real")]
            Self::Real(fleet) => fleet.stop().await,
        }
    }
}
