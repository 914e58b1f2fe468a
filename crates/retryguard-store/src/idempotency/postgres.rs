//! Keys in PostgreSQL: for any number of machines, beside the data that the effects are in.

use std::{fmt::Write as _, time::Duration};

use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, PgPool, Postgres, Row as _, Transaction,
    postgres::{PgPoolOptions, PgRow},
};

use super::{
    Asked, KeyId, Open, StoredResponse,
    columns::Columns,
    machine::{Change, Found, Record, Records, TransactionalRecords, Version},
    sql::Pooled,
    store::micros,
    transactional::CommittingDatabase,
};
use crate::{Backend, Statement, StoreError, Value, migrations};

/// Keeps keys in a PostgreSQL database. Clones share the pool.
///
/// All times are the server's own, so that the clocks of the machines that use it do not matter.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: PgPool,
}

/// A connection that was idle for longer is tried before it is used: a server that was restarted has closed it.
const IDLE: Duration = Duration::from_millis(500);

impl PostgresStore {
    /// Connects, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the server cannot be reached or its database not be written.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(10)
            // A round trip for every statement would be the price of asking each time whether the connection lives.
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    if about.idle_for > IDLE {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            // Not longer than a request waits for the store: a queue behind a dead server does not help.
            .acquire_timeout(Duration::from_secs(2))
            .connect(url)
            .await
            .map_err(failed)?;
        Self::with_pool(pool).await
    }

    /// On a pool of the caller's, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the database cannot be written.
    pub async fn with_pool(pool: PgPool) -> Result<Self, StoreError> {
        migrations::postgres(&pool).await?;
        Ok(Self { pool })
    }

    /// The pool, for the handler's own transactions: [`super::Claim::complete_in`] wants the same database.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }
}

impl Pooled for PostgresStore {
    type Database = Postgres;

    fn connections(&self) -> &PgPool {
        &self.pool
    }
}

/// Stores a claim where there is no record and loads the record otherwise, in one round trip. The second part does not
/// see what the first has stored, because both have one snapshot: of a new key comes one row, of a known one the other.
/// `DO NOTHING` does not wait for a transaction that completes the key, where `DO UPDATE` would.
const INSERT_OR_LOAD: &str = "WITH stored AS (
        INSERT INTO retryguard_idempotency (id, fingerprint, token, locked_until, locked_for, expires_at)
        VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                clock_timestamp() + $3 * interval '1 microsecond', $3,
                clock_timestamp() + $4 * interval '1 microsecond')
        ON CONFLICT (id) DO NOTHING RETURNING token
    )
    SELECT token, true, NULL::bytea, NULL::bigint, NULL::bigint, NULL::boolean,
           NULL::smallint, NULL::bytea, NULL::bytea FROM stored
    UNION ALL
    SELECT token, false, fingerprint,
           ceil(extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint, locked_for,
           expires_at <= clock_timestamp(), status, headers, body
    FROM retryguard_idempotency WHERE id = $1";
const CLAIM: &str = "UPDATE retryguard_idempotency
    SET fingerprint = $4,
        token = greatest(token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
        locked_until = clock_timestamp() + $5 * interval '1 microsecond', locked_for = $5,
        expires_at = clock_timestamp() + $6 * interval '1 microsecond',
        status = NULL, headers = NULL, body = NULL
    WHERE id = $1 AND token = $2 AND (status IS NOT NULL) = $3 RETURNING token";
const COMPLETE: &str = "UPDATE retryguard_idempotency
    SET status = $4, headers = $5, body = $6, expires_at = clock_timestamp() + $7 * interval '1 microsecond'
    WHERE id = $1 AND token = $2 AND (status IS NOT NULL) = $3";
const LOCK: &str = "UPDATE retryguard_idempotency
    SET locked_until = CASE WHEN $4 = 0 THEN 'epoch' ELSE clock_timestamp() + $4 * interval '1 microsecond' END
    WHERE id = $1 AND token = $2 AND (status IS NOT NULL) = $3";

impl Records for PgConnection {
    async fn insert_or_load(&mut self, asked: &Asked) -> Result<Found, StoreError> {
        let rows = sqlx::query(INSERT_OR_LOAD)
            .bind(&asked.id.0[..])
            .bind(&asked.fingerprint.0[..])
            .bind(micros(asked.lock))
            .bind(micros(asked.keep))
            .fetch_all(self)
            .await;
        let rows = match rows {
            Err(error) if is_overtaken(&error) => return Ok(Found::Moved),
            rows => rows.map_err(failed)?,
        };
        let mut found = Found::Moved;
        for row in &rows {
            if row.try_get(1).map_err(failed)? {
                return Ok(Found::Inserted(row.try_get(0).map_err(failed)?));
            }
            found = Found::Record(read(row)?);
        }
        Ok(found)
    }

    async fn replace(
        &mut self,
        id: KeyId,
        seen: Version,
        change: Change<'_>,
    ) -> Result<Option<i64>, StoreError> {
        let statement = Self::replacement(id, seen, change);
        // Only a claim changes the token, and returns a row.
        if !matches!(change, Change::Claim(_)) {
            return match statement.query().execute(self).await {
                Err(error) if is_overtaken(&error) => Ok(None),
                done => Ok((done.map_err(failed)?.rows_affected() == 1).then_some(seen.token)),
            };
        }
        let row = match statement.query().fetch_optional(self).await {
            Err(error) if is_overtaken(&error) => return Ok(None),
            row => row.map_err(failed)?,
        };
        row.map(|row| row.try_get(0).map_err(failed)).transpose()
    }
}

const LOAD: &str = "SELECT token, false, fingerprint,
        ceil(extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint, locked_for,
        expires_at <= clock_timestamp(), status, headers, body
    FROM retryguard_idempotency WHERE id = $1";
/// Where another transaction has stored the key and is not committed, this waits for it and then stores nothing.
const STORE: &str = "INSERT INTO retryguard_idempotency
        (id, fingerprint, token, locked_until, locked_for, expires_at, status, headers, body)
    VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'epoch', $3,
            clock_timestamp() + $4 * interval '1 microsecond', $5, $6, $7) ON CONFLICT (id) DO NOTHING";
const STORE_OVER: &str = "UPDATE retryguard_idempotency
    SET fingerprint = $2, token = greatest(token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
        locked_until = 'epoch', locked_for = $3, expires_at = clock_timestamp() + $4 * interval '1 microsecond',
        status = $5, headers = $6, body = $7
    WHERE id = $1 AND token = $8 AND (status IS NOT NULL) = $9";

impl TransactionalRecords for PgConnection {
    const BACKEND: Backend = Backend::Postgres;

    async fn load(&mut self, id: KeyId) -> Result<Option<Record>, StoreError> {
        let load = sqlx::query(LOAD).bind(&id.0[..]);
        let row = load.fetch_optional(self).await.map_err(failed)?;
        row.map(|row| read(&row)).transpose()
    }

    fn replacement(id: KeyId, seen: Version, change: Change<'_>) -> Statement {
        let mut values: Vec<Value> = vec![id.0.into(), seen.token.into(), seen.completed.into()];
        let text = match change {
            Change::Claim(asked) => {
                values.extend(spans(asked));
                CLAIM
            }
            Change::Complete(response, keep) => {
                values.extend(response.columns());
                values.push(micros(keep).into());
                COMPLETE
            }
            Change::Lock(lock) => {
                values.push(micros(lock).into());
                LOCK
            }
        };
        Statement::new(text, values)
    }

    fn storage(open: &Open, response: &StoredResponse, keep: Duration) -> Statement {
        let asked = Asked { keep, ..open.asked };
        let mut values: Vec<Value> = vec![asked.id.0.into()];
        values.extend(spans(&asked));
        values.extend(response.columns());
        let Some(seen) = open.seen else {
            return Statement::new(STORE, values);
        };
        values.extend([seen.token.into(), seen.completed.into()]);
        Statement::new(STORE_OVER, values)
    }

    async fn execute(&mut self, statement: &Statement) -> Result<u64, StoreError> {
        let done = statement.query().execute(self).await.map_err(failed)?;
        Ok(done.rows_affected())
    }

    /// Rows that another sweeper has locked are left to it.
    async fn sweep(&mut self, limit: u32) -> Result<u64, StoreError> {
        let done = sqlx::query(
            "DELETE FROM retryguard_idempotency WHERE id IN (
                SELECT id FROM retryguard_idempotency WHERE expires_at <= clock_timestamp()
                ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)",
        )
        .bind(i64::from(limit))
        .execute(self)
        .await
        .map_err(failed)?;
        Ok(done.rows_affected())
    }
}

/// Stores a new key and commits, in one message. A known key violates the primary key, which ends the transaction before
/// the commit; the other statements of this module change no row then and would be committed. The function has the statement
/// of [`STORE`]: planning it anew for every message would take longer than executing it.
///
/// `AND CHAIN` because sqlx does not know of the commit: it takes the connection to be in a transaction, and rolls it back
/// when it is dropped. So there is one, an empty one.
const STORE_AND_COMMIT: &str =
    "SELECT retryguard_idempotency_store($1, $2, $3, $4, $5, $6, $7); COMMIT AND CHAIN";
/// Values are written into that message as hexadecimal digits, which doubles them. A larger response has a message of its own.
const IN_ONE_MESSAGE: usize = 8 * 1024;
/// The same without the commit. Unlike [`STORE`] it reports a known key as such under every isolation level: `DO NOTHING` is a
/// serialization failure where the transaction's snapshot does not have the key yet.
const STORE_NEW: &str = "SELECT retryguard_idempotency_store($1, $2, $3, $4, $5, $6, $7)";

impl CommittingDatabase for Postgres {
    async fn finish(
        mut transaction: Transaction<'static, Self>,
        statement: &Statement,
    ) -> Result<u64, StoreError> {
        if statement.text != STORE {
            let rows = TransactionalRecords::execute(&mut *transaction, statement).await?;
            if rows == 1 {
                transaction.commit().await.map_err(failed)?;
            }
            return Ok(rows);
        }
        let stored = if let Some(message) = in_one_message(STORE_AND_COMMIT, &statement.values) {
            let sent = sqlx::raw_sql(AssertSqlSafe(message));
            sent.execute(&mut *transaction).await
        } else {
            let values = statement.values.clone();
            let store = Statement::new(STORE_NEW, values).query();
            match store.execute(&mut *transaction).await {
                Ok(done) => transaction.commit().await.map(|()| done),
                Err(error) => Err(error),
            }
        };
        match stored {
            Ok(_) => Ok(1),
            Err(error) if is_known_key(&error) => Ok(0),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Whether another request has changed the record since this statement's snapshot. Where the default isolation level is
/// repeatable read or higher, PostgreSQL reports that as an error instead of looking at the record anew.
fn is_overtaken(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.code().as_deref() == Some("40001"))
}

fn is_known_key(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_unique_violation() && error.table() == Some("retryguard_idempotency"))
}

/// Several statements in one message cannot have parameters, so the values are written into the text: digits only, whatever
/// the values are. None where they are too large for that.
fn in_one_message(text: &str, values: &[Value]) -> Option<String> {
    let mut message = String::with_capacity(2 * text.len());
    let mut parts = text.split('$');
    message.push_str(parts.next()?);
    let mut left = IN_ONE_MESSAGE;
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        let value = values.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
        match value {
            Value::Integer(value) => write!(message, "'{value}'::bigint").ok()?,
            Value::Boolean(value) => write!(message, "{value}").ok()?,
            Value::Bytes(None) => message.push_str("NULL::bytea"),
            Value::Bytes(Some(bytes)) => {
                left = left.checked_sub(bytes.len())?;
                // `E'…'` means the same whatever the server's `standard_conforming_strings` is.
                message.push_str("E'\\\\x");
                for byte in bytes {
                    write!(message, "{byte:02x}").ok()?;
                }
                message.push('\'');
            }
            // No statement that is sent like this has a text.
            Value::Text(_) => return None,
        }
        message.push_str(rest);
    }
    Some(message)
}

/// Fingerprint, lock and keep, as three statements have them one after the other.
fn spans(asked: &Asked) -> [Value; 3] {
    [
        asked.fingerprint.0.into(),
        micros(asked.lock).into(),
        micros(asked.keep).into(),
    ]
}

fn read(row: &PgRow) -> Result<Record, StoreError> {
    let status: Option<i16> = row.try_get(6).map_err(failed)?;
    let headers: Option<Vec<u8>> = row.try_get(7).map_err(failed)?;
    let body: Option<Vec<u8>> = row.try_get(8).map_err(failed)?;
    let stored = Columns {
        fingerprint: row.try_get(2).map_err(failed)?,
        token: row.try_get(0).map_err(failed)?,
        lock_left: row.try_get(3).map_err(failed)?,
        lock: row.try_get(4).map_err(failed)?,
        expired: row.try_get(5).map_err(failed)?,
        response: status.map(|status| (i64::from(status), headers.unwrap_or_default(), body)),
    };
    stored.record().map_err(|cause| StoreError::Refused {
        backend: Backend::Postgres,
        cause: Box::new(cause),
    })
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Postgres, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_digits_whatever_they_are() {
        let values = [
            Value::from(b"'); DROP TABLE payments; --\\".to_vec()),
            Value::Integer(-7),
            Value::Boolean(true),
            Value::Bytes(None),
        ];
        let message = in_one_message("($2, $1, $3, $4, $2)", &values).unwrap();
        assert_eq!(
            message,
            "('-7'::bigint, E'\\\\x27293b2044524f50205441424c45207061796d656e74733b202d2d5c', true, \
             NULL::bytea, '-7'::bigint)"
        );
    }

    #[test]
    fn what_is_large_has_a_message_of_its_own() {
        let large = |size| in_one_message("$1", &[Value::from(vec![0; size])]);
        assert!(large(IN_ONE_MESSAGE).is_some());
        assert!(large(IN_ONE_MESSAGE + 1).is_none());
        assert!(in_one_message("$1", &[Value::from("text")]).is_none());
        assert!(in_one_message("$2", &[Value::Integer(1)]).is_none());
    }

    /// The message is made for this statement alone, and has its placeholders.
    #[test]
    fn the_message_stores_what_the_statement_stores() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let function = include_str!("../../migrations/postgres/0005_idempotency_store.sql");
        let (stored, _) = STORE.split_once(" ON CONFLICT").unwrap();
        assert!(
            words(function).ends_with(&format!("BEGIN {}; END $$;", words(stored))),
            "{function}"
        );
    }
}
