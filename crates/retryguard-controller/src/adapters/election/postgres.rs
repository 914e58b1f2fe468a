//! A lock in PostgreSQL: one row with the holder, the term and its end on the server's clock.
//!
//! An advisory lock of the session would be simpler, and wrong: the server frees it the moment it believes the
//! connection dead, while the leader may believe for seconds more that it leads. A row with an end is freed only
//! when the leader's own clock has ended the term too. The advisory lock has its part all the same: it lets one
//! controller at a time look at the row and change it, so that two that reach for a free lead do not collide on
//! making the table.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Row as _, postgres::PgConnectOptions};

use crate::adapters::start_error::StartError;
use crate::config::election::Lock;
use crate::reconcile::election::{ElectionAnswer, ElectionError, LeaderElection, Leadership};

/// The number of the advisory lock: any that no other program uses.
const MEETING: i64 = 0x7265_7472_7967_7561;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS retryguard_lead (
    name text PRIMARY KEY,
    holder text NOT NULL,
    term bigint NOT NULL,
    ends timestamptz NOT NULL
)";

/// Who asks for a lock. A table of its own, because controllers of the first version made the other one.
const REQUESTS: &str = "CREATE TABLE IF NOT EXISTS retryguard_lead_request (
    name text PRIMARY KEY,
    asked_by text NOT NULL,
    ends timestamptz NOT NULL
)";

const ASK: &str = "INSERT INTO retryguard_lead_request (name, asked_by, ends)
    VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE SET asked_by = excluded.asked_by, ends = excluded.ends";

const ASKED: &str = "DELETE FROM retryguard_lead_request WHERE name = $1 RETURNING CASE WHEN ends > clock_timestamp() THEN asked_by ELSE '' END";

const HAND_OVER: &str = "UPDATE retryguard_lead
    SET holder = $3, term = term + 1, ends = clock_timestamp() + $4 * interval '1 millisecond'
    WHERE name = $1 AND holder = $2";

const TAKE: &str = "INSERT INTO retryguard_lead AS lead (name, holder, term, ends)
    VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE SET
        term = CASE WHEN lead.holder = $2 THEN lead.term ELSE lead.term + 1 END,
        holder = $2,
        ends = clock_timestamp() + $3 * interval '1 millisecond'
    WHERE lead.holder = $2 OR lead.ends < clock_timestamp()
    RETURNING term";

const HELD: &str = "SELECT holder, extract(epoch FROM ends - clock_timestamp())::float8 FROM retryguard_lead WHERE name = $1";

/// A lock in PostgreSQL.
pub struct Postgres {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    identity: String,
    name: String,
    term: Duration,
    asks: bool,
    /// When the lock of another controller ends, counted from the last answer.
    free_in: Option<Duration>,
}

impl Postgres {
    /// No request is sent yet.
    ///
    /// # Errors
    /// When the address cannot be read or is none.
    pub fn new(lock: &Lock, identity: &str) -> Result<Self, StartError> {
        let address = super::address(lock, "postgres")?;
        let options = address.reveal().parse().map_err(|_| StartError::Settings {
            what: "postgres",
            // Not the error's own words: they repeat the address, which may hold a password.
            reason: "the address of the lock is not a postgres:// address".to_owned(),
        })?;
        Ok(Self {
            options,
            connection: None,
            identity: identity.to_owned(),
            name: lock.name.clone(),
            term: lock.term,
            asks: false,
            free_in: None,
        })
    }

    /// The connection, taken out: a question that is given up half-way drops it, and its transaction with it.
    async fn connection(&mut self) -> sqlx::Result<PgConnection> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => PgConnection::connect_with(&self.options).await,
        }
    }

    async fn take(&mut self) -> sqlx::Result<Leadership> {
        let (name, identity, term) = (self.name.clone(), self.identity.clone(), self.term);
        let millis = self.millis();
        let mut connection = self.connection().await?;
        let mut change = connection.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(MEETING)
            .execute(&mut *change)
            .await?;
        for table in [TABLE, REQUESTS] {
            sqlx::query(table).execute(&mut *change).await?;
        }
        let taken = sqlx::query(TAKE)
            .bind(&name)
            .bind(&identity)
            .bind(millis)
            .fetch_optional(&mut *change)
            .await?;
        let standing = match taken {
            Some(row) => {
                let asked = sqlx::query(ASKED)
                    .bind(&name)
                    .fetch_optional(&mut *change)
                    .await?;
                let asked_by = asked.and_then(|row| row.try_get(0).ok()).unwrap_or_default();
                Leadership::Leader {
                    term: u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or(0),
                    lasts: term,
                    asked_by: super::by_another(asked_by, &identity),
                }
            }
            None => {
                if self.asks {
                    let ask = sqlx::query(ASK).bind(&name).bind(&identity).bind(millis);
                    ask.execute(&mut *change).await?;
                }
                let holder = sqlx::query(HELD).bind(&name).fetch_optional(&mut *change).await?;
                let left = holder.as_ref().and_then(|row| row.try_get::<f64, _>(1).ok());
                self.free_in = left.and_then(|left| Duration::try_from_secs_f64(left.max(0.0)).ok());
                Leadership::Follower {
                    leader: holder.and_then(|row| row.try_get(0).ok()),
                }
            }
        };
        change.commit().await?;
        self.connection = Some(connection);
        Ok(standing)
    }

    async fn give(&mut self, to: &str) -> sqlx::Result<()> {
        let mut connection = self.connection().await?;
        sqlx::query(HAND_OVER)
            .bind(&self.name)
            .bind(&self.identity)
            .bind(to)
            .bind(self.millis())
            .execute(&mut connection)
            .await?;
        self.connection = Some(connection);
        Ok(())
    }

    fn millis(&self) -> i64 {
        i64::try_from(self.term.as_millis()).unwrap_or(i64::MAX)
    }

    fn trouble(&mut self, error: &sqlx::Error) -> ElectionError {
        // A broken connection is made anew at the next question.
        self.connection = None;
        let reason = match error {
            sqlx::Error::Database(error) => error.message().to_owned(),
            sqlx::Error::Io(error) => error.to_string(),
            // Other errors may repeat the address.
            _ => "no connection".to_owned(),
        };
        ElectionError {
            backend: "postgres",
            reason,
        }
    }
}

impl LeaderElection for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn every(&self) -> Duration {
        super::next_question(self.term / 3, self.free_in)
    }

    fn ask(&mut self, asks: bool) {
        self.asks = asks;
    }

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        Box::pin(async move {
            self.free_in = None;
            let result = self.take().await;
            result.map_err(|error| self.trouble(&error))
        })
    }

    fn hand_over<'a>(&'a mut self, to: &'a str) -> ElectionAnswer<'a, ()> {
        Box::pin(async move {
            let given = self.give(to).await;
            given.map_err(|error| self.trouble(&error))
        })
    }

    fn resign(&mut self) -> ElectionAnswer<'_, ()> {
        Box::pin(async move {
            let (name, identity) = (self.name.clone(), self.identity.clone());
            let result = async {
                let mut connection = self.connection().await?;
                sqlx::query(
                    "UPDATE retryguard_lead SET ends = '-infinity', holder = '' WHERE name = $1 AND holder = $2",
                )
                .bind(&name)
                .bind(&identity)
                .execute(&mut connection)
                .await
            };
            let result = result.await;
            result.map(drop).map_err(|error| self.trouble(&error))
        })
    }
}
