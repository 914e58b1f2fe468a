//! Where the services keep what they write: the flags, and what they mean in this build.

use clap::Args;
use retryguard_lab::{experiment::Stores, settings::Backing};

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
                "real stores want both addresses: --postgres postgres://USER@HOST:PORT/DATABASE --redis redis://HOST:PORT/"
            ),
        }
    }
}

#[cfg(not(feature = "lab-real"))]
impl Choice {
    /// For services.
    pub(super) fn backing(&self, _schema: &str) -> anyhow::Result<Backing> {
        self.embedded().map(|()| Backing::Embedded)
    }

    /// For experiments.
    pub(super) fn stores(&self) -> anyhow::Result<Stores> {
        self.embedded().map(|()| Stores::Embedded)
    }

    fn embedded(&self) -> anyhow::Result<()> {
        if self.stores == Kind::Real {
            anyhow::bail!(
                "this build has no real stores: build it with `cargo build --release --features lab-real`"
            );
        }
        if self.postgres.is_some() || self.redis.is_some() {
            anyhow::bail!(
                "--postgres and --redis are for `--stores real`, which this build lacks: build it with --features lab-real"
            );
        }
        Ok(())
    }
}
