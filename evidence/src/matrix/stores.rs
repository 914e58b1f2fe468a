//! Where the services keep what they write.

use clap::Args;
use retryguard_lab::experiment::Stores;
use xtask::shell;

/// Real stores where both addresses are given, SQLite files where none is.
#[derive(Args)]
pub(super) struct Choice {
    /// The address of PostgreSQL: postgres://USER@HOST:PORT/DATABASE.
    #[arg(long, value_name = "URL", requires = "redis")]
    postgres: Option<String>,
    /// The address of Redis: redis://HOST:PORT/.
    #[arg(long, value_name = "URL", requires = "postgres")]
    redis: Option<String>,
}

impl Choice {
    pub(super) fn stores(&self) -> anyhow::Result<Stores> {
        let (Some(postgres), Some(redis)) = (&self.postgres, &self.redis) else {
            return Ok(Stores::Embedded);
        };
        let build = [
            "build",
            "--release",
            "--package=retryguard-cli",
            "--features=lab-real",
        ];
        shell::step("build", "cargo", &build)?;
        Ok(Stores::Real {
            program: std::path::absolute(shell::target().join("release/retryguard"))?,
            postgres: postgres.clone(),
            redis: redis.clone(),
        })
    }
}
