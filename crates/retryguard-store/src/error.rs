//! What can go wrong with a store.

use std::{error::Error as StdError, fmt, time::Duration};

/// Where the records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// This process.
    Memory,
    /// A file of this machine.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A Redis server.
    Redis,
}

impl Backend {
    /// Its name, as metrics and messages have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The driver's own error.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Why a request to a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The connection was refused, lost, or the server is starting or stopping. It may come back by itself.
    #[error("the {backend} store cannot be reached: {cause}")]
    Unreachable {
        /// Which store.
        backend: Backend,
        /// The driver's own error.
        #[source]
        cause: Cause,
    },
    /// No answer within the time that was left.
    #[error("the {backend} store did not answer within {waited:?}")]
    Slow {
        /// Which store.
        backend: Backend,
        /// How long it was waited for.
        waited: Duration,
    },
    /// No room for another record: give it more, or keep records for a shorter time.
    #[error("the {backend} store is full{}", .cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default())]
    Full {
        /// Which store.
        backend: Backend,
        /// The driver's own error, where there is a driver.
        #[source]
        cause: Option<Cause>,
    },
    /// The store answered and refused, or its answer makes no sense: a missing table (run the migrations), a
    /// missing right, a record that another program wrote.
    #[error("the {backend} store refused: {cause}")]
    Refused {
        /// Which store.
        backend: Backend,
        /// The driver's own error.
        #[source]
        cause: Cause,
    },
    /// What should be stored is larger than its limit.
    #[error("the {what} has {size} bytes, more than the {limit} that may be stored")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// What should be stored cannot be, whatever its size.
    #[error("the {what} cannot be stored: {why}")]
    Unusable {
        /// What it is.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The claim's time had run out and another request has taken it over, or it was completed already. Roll
    /// the transaction back: the effect is the other's.
    #[error("the claim has been taken over by another request or completed already")]
    ClaimLost,
    /// The claim is kept in another kind of store than the transaction belongs to.
    #[error(
        "the claim is kept in {claim}, and the transaction belongs to {transaction}: they must be one database"
    )]
    OtherDatabase {
        /// Where the claim is kept.
        claim: Backend,
        /// What the transaction belongs to.
        transaction: Backend,
    },
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl StoreError {
    /// Sorts a driver's error by what a caller can do about it.
    pub(crate) fn from_sqlx(backend: Backend, error: sqlx::Error) -> Self {
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .map(std::borrow::Cow::into_owned);
        let cause = Box::new(error);
        if is_full(backend, code.as_deref()) {
            Self::Full {
                backend,
                cause: Some(cause),
            }
        } else if is_away(backend, code.as_deref(), &cause) {
            Self::Unreachable { backend, cause }
        } else {
            Self::Refused { backend, cause }
        }
    }
}

#[cfg(feature = "sqlite")]
impl StoreError {
    /// Whether another connection holds the file, which passes.
    pub(crate) fn is_locked(&self) -> bool {
        let Self::Unreachable { cause, .. } = self else {
            return false;
        };
        let code = cause
            .downcast_ref::<sqlx::Error>()
            .and_then(sqlx::Error::as_database_error)
            .and_then(sqlx::error::DatabaseError::code);
        code.and_then(|code| code.parse::<u32>().ok())
            .is_some_and(|code| matches!(code & 0xff, 5 | 6))
    }
}

/// SQLite: `SQLITE_FULL`. PostgreSQL: class 53 without 53300, disk full, out of memory.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn is_full(backend: Backend, code: Option<&str>) -> bool {
    match (backend, code) {
        (Backend::Sqlite, Some(code)) => code == "13",
        (Backend::Postgres, Some(code)) => matches!(code, "53000" | "53100" | "53200"),
        _ => false,
    }
}

/// SQLite: busy and locked, extended codes included (the low byte is the plain one). PostgreSQL: connection
/// failures, too many connections, an operator's shutdown, a server that starts, serialisation failures.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn is_away(backend: Backend, code: Option<&str>, error: &sqlx::Error) -> bool {
    match (backend, code) {
        (Backend::Sqlite, Some(code)) => code
            .parse::<u32>()
            .is_ok_and(|code| matches!(code & 0xff, 5 | 6 | 10 | 14)),
        (Backend::Postgres, Some(code)) => {
            code.starts_with("08")
                || code.starts_with("57P")
                || matches!(code, "53300" | "57014" | "40001" | "40P01")
        }
        _ => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
                | sqlx::Error::Protocol(_)
                | sqlx::Error::Tls(_)
        ),
    }
}

#[cfg(feature = "redis")]
impl StoreError {
    /// Sorts a driver's error by what a caller can do about it.
    pub(crate) fn from_redis(error: redis::RedisError) -> Self {
        let backend = Backend::Redis;
        let full = error.code() == Some("OOM");
        let away = error.is_io_error()
            || error.is_connection_dropped()
            || error.is_connection_refusal()
            || error.is_timeout()
            || matches!(
                error.code(),
                Some("LOADING" | "MASTERDOWN" | "READONLY" | "CLUSTERDOWN")
            );
        let cause = Box::new(error);
        if full {
            Self::Full {
                backend,
                cause: Some(cause),
            }
        } else if away {
            Self::Unreachable { backend, cause }
        } else {
            Self::Refused { backend, cause }
        }
    }
}
