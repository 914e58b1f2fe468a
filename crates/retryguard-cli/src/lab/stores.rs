//! Where the services keep what they write. A build without the feature `lab-real` has no flags for it.

use clap::Args;
use retryguard_lab::experiment::Stores;
#[cfg(feature = "lab-real")]
use retryguard_lab::settings::Backing;

#[cfg(not(feature = "lab-real"))]
#[derive(Args)]
pub(super) struct Choice {}

#[cfg(feature = "lab-real")]
#[derive(Args)]
pub(super) struct Choice {
    /// Where the services keep what they write.
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    stores: Kind,
    /// The address of PostgreSQL, for real stores: postgres://USER@HOST:PORT/DATABASE.
    #[arg(
        long,
        value_name = "URL",
        env = "RETRYGUARD_LAB_POSTGRES",
        hide_env_values = true
    )]
    postgres: Option<String>,
    /// The address of Redis, for real stores: redis://HOST:PORT/.
    #[arg(
        long,
        value_name = "URL",
        env = "RETRYGUARD_LAB_REDIS",
        hide_env_values = true
    )]
    redis: Option<String>,
}

#[cfg(feature = "lab-real")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// A SQLite file a service, all services in one process.
    Embedded,
    /// PostgreSQL and Redis, a process for each service.
    Real,
}

#[cfg(feature = "lab-real")]
impl Choice {
    /// For services.
    pub(super) fn backing(&self, schema: &str) -> anyhow::Result<Backing> {
        if self.stores == Kind::Embedded {
            return Ok(Backing::Embedded);
        }
        let (postgres, redis) = self.addresses()?;
        Ok(Backing::Real(retryguard_lab::settings::Real {
            postgres,
            redis,
            schema: schema.to_owned(),
        }))
    }

    /// For experiments, whose services are this very program.
    pub(super) fn stores(&self) -> anyhow::Result<Stores> {
        if self.stores == Kind::Embedded {
            return Ok(Stores::Embedded);
        }
        let (postgres, redis) = self.addresses()?;
        Ok(Stores::Real {
            program: std::env::current_exe()?,
            postgres,
            redis,
        })
    }

    fn addresses(&self) -> anyhow::Result<(String, String)> {
        match (&self.postgres, &self.redis) {
            (Some(postgres), Some(redis)) => Ok((postgres.clone(), redis.clone())),
            _ => anyhow::bail!(
                "real stores need both addresses: --postgres postgres://USER@HOST:PORT/DATABASE --redis redis://HOST:PORT/"
            ),
        }
    }
}

#[cfg(not(feature = "lab-real"))]
#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the same as with the feature"
)]
impl Choice {
    /// For experiments.
    pub(super) fn stores(&self) -> anyhow::Result<Stores> {
        Ok(Stores::Embedded)
    }
}
