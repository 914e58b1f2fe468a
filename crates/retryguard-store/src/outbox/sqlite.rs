use std::{sync::Arc, time::Duration};

use sqlx::{Row as _, SqliteConnection, SqlitePool, sqlite::SqliteRow};
use tokio::sync::Notify;

use super::{Claimed, Counts, Event, Message, OutboxStore, Parked, Settled, Trouble};
use crate::{Backend, Statement, StoreError, clock, sqlite};

const PENDING: i64 = 0;
const PUBLISHED: i64 = 1;
const PARKED: i64 = 2;
/// When a held lane is ready.
const NEVER: i64 = i64::MAX;

const PUT: &str = "INSERT INTO retryguard_outbox (lane, topic, key, headers, payload, written_at)
    VALUES (coalesce(?, 'u' || lower(hex(randomblob(16)))), ?, ?, ?, ?, ?) RETURNING id";
const DUE: &str = "SELECT lane, claims FROM retryguard_outbox_lanes
    WHERE ready_at <= ? ORDER BY ready_at LIMIT ?";
const CLAIM: &str = "UPDATE retryguard_outbox_lanes
    SET ready_at = ?, since = ?, token = random(), claims = claims + 1 WHERE lane = ? RETURNING token";
const EVENTS: &str = "SELECT * FROM retryguard_outbox
    WHERE lane = ? AND state = 0 ORDER BY number LIMIT ?";
const OWNED: &str = "UPDATE retryguard_outbox_lanes SET token = 0, claims = 0, ready_at = ?, since = ?
    WHERE lane = ? AND token = ?";
const END: &str = "UPDATE retryguard_outbox SET state = ?, ended_at = ? WHERE number = ? AND state = 0";
const DELETE: &str = "DELETE FROM retryguard_outbox WHERE number = ? AND state = 0";
const FAIL: &str = "UPDATE retryguard_outbox
    SET state = ?, ended_at = ?, tries = ?, waited = ?, error = ? WHERE number = ? AND state = 0";
const DROP_EMPTY: &str = "DELETE FROM retryguard_outbox_lanes WHERE lane = ?1
    AND NOT EXISTS (SELECT 1 FROM retryguard_outbox WHERE lane = ?1 AND state = 0)";
const COUNT: &str = "SELECT
    (SELECT count(*) FROM retryguard_outbox WHERE state = 0),
    (SELECT count(*) FROM retryguard_outbox WHERE state = 2),
    (SELECT min(written_at) FROM retryguard_outbox WHERE state = 0)";
const LIST_PARKED: &str = "SELECT * FROM retryguard_outbox
    WHERE state = 2 AND number > ? ORDER BY number LIMIT ?";
const RETRY: &str = "UPDATE retryguard_outbox SET state = 0, tries = 0, waited = 0, ended_at = NULL
    WHERE number = ? AND state = 2 RETURNING lane";
const DISCARD: &str = "DELETE FROM retryguard_outbox WHERE number = ? AND state = 2 RETURNING lane";
const READY: &str = "INSERT INTO retryguard_outbox_lanes (lane, ready_at, since) VALUES (?1, ?2, ?2)
    ON CONFLICT (lane) DO UPDATE SET ready_at = ?2, since = ?2 WHERE ready_at = ?3";
const RELEASE: &str = "UPDATE retryguard_outbox_lanes SET ready_at = ?1, since = ?1 WHERE ready_at = ?2";
/// What was set at a later time than now was set before the clock was set back: its wait begins anew.
const FOLLOW_CLOCK: &str = "UPDATE retryguard_outbox_lanes
    SET ready_at = CASE WHEN ready_at = ?2 THEN ready_at ELSE ?1 + (ready_at - since) END, since = ?1
    WHERE since > ?1 + 1000000";
const CLEAN: &str = "DELETE FROM retryguard_outbox WHERE number IN
    (SELECT number FROM retryguard_outbox WHERE state = 1 AND ended_at <= ? ORDER BY ended_at LIMIT ?)";

/// An outbox in a SQLite database, for any number of processes of one machine.
///
/// SQLite has one writer at a time, so a claim is a short transaction that begins as a writer, and what is a
/// row lock elsewhere is a lease in a column here. Use the journal mode WAL and a busy time-out of some
/// seconds: then writers wait for each other and readers never do.
#[derive(Debug, Clone)]
pub struct SqliteOutbox {
    pool: SqlitePool,
    woken: Arc<Notify>,
}

impl SqliteOutbox {
    /// An outbox in this database; [`migrations::sqlite`](crate::migrations::sqlite) makes its tables.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self {
            pool,
            woken: Arc::default(),
        }
    }

    /// Writes an event in the caller's transaction and gives its id. It is published if and only if the
    /// transaction is committed. Call [`OutboxStore::wake`] after that, so that it is published soon.
    ///
    /// Begin the transaction with `BEGIN IMMEDIATE` if it reads before it writes: SQLite refuses to turn a
    /// reader into a writer when another has written meanwhile.
    ///
    /// # Errors
    /// Where the event is over a limit, or the database refuses; roll the transaction back then.
    pub async fn put(&self, transaction: &mut SqliteConnection, event: &Event) -> Result<String, StoreError> {
        let statement = Self::statement(event)?;
        let row = statement.query().fetch_one(transaction).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }

    /// The statement of [`SqliteOutbox::put`], for a driver other than sqlx. Its one row is the event's id.
    ///
    /// # Errors
    /// Where the event is over a limit.
    pub fn statement(event: &Event) -> Result<Statement, StoreError> {
        event.check()?;
        Ok(Statement::new(
            PUT,
            vec![
                event.lane().into(),
                event.topic.as_str().into(),
                event.key.clone().into(),
                event.headers_as_json().as_str().into(),
                Some(event.payload.clone()).into(),
                clock::unix_micros().into(),
            ],
        ))
    }

    async fn release_lane(&self, statement: &'static str, number: i64) -> Result<bool, StoreError> {
        let mut transaction = sqlite::begin(&self.pool).await.map_err(failed)?;
        let row = sqlx::query(statement)
            .bind(number)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failed)?;
        let Some(row) = row else { return Ok(false) };
        sqlx::query(READY)
            .bind(row.try_get::<String, _>(0).map_err(failed)?)
            .bind(clock::unix_micros())
            .bind(NEVER)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        self.wake();
        Ok(true)
    }
}

impl OutboxStore for SqliteOutbox {
    fn backend(&self) -> Backend {
        Backend::Sqlite
    }

    async fn claim(&self, lanes: u32, events: u32, lease: Duration) -> Result<Vec<Claimed>, StoreError> {
        // A read first: an idle worker then never takes the write lock.
        let due = sqlx::query(DUE).bind(clock::unix_micros()).bind(1);
        if due.fetch_optional(&self.pool).await.map_err(failed)?.is_none() {
            return Ok(Vec::new());
        }
        let mut transaction = sqlite::begin(&self.pool).await.map_err(failed)?;
        let claimed = claim(&mut transaction, lanes, events, lease)
            .await
            .map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(claimed)
    }

    async fn settle(&self, lanes: &[Settled], keep: bool) -> Result<usize, StoreError> {
        let mut transaction = sqlite::begin(&self.pool).await.map_err(failed)?;
        let mut lost = 0;
        for lane in lanes {
            if !settle(&mut transaction, lane, keep).await.map_err(failed)? {
                lost += 1;
            }
        }
        transaction.commit().await.map_err(failed)?;
        Ok(lost)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let row = sqlx::query(COUNT).fetch_one(&self.pool).await.map_err(failed)?;
        let oldest: Option<i64> = row.try_get(2).map_err(failed)?;
        let lag = oldest.map_or(0, |oldest| clock::unix_micros().saturating_sub(oldest));
        Ok(Counts {
            pending: unsigned(row.try_get(0).map_err(failed)?),
            parked: unsigned(row.try_get(1).map_err(failed)?),
            lag: Duration::from_micros(unsigned(lag)),
        })
    }

    async fn parked(&self, after: i64, limit: u32) -> Result<Vec<Parked>, StoreError> {
        let rows = sqlx::query(LIST_PARKED)
            .bind(after)
            .bind(limit)
            .fetch_all(&self.pool)
            .await
            .map_err(failed)?;
        let read = |row: &SqliteRow| {
            Ok(Parked {
                message: message(row)?,
                error: row.try_get::<Option<String>, _>("error")?.unwrap_or_default(),
                parked: clock::from_unix_micros(row.try_get("ended_at")?),
            })
        };
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(failed)
    }

    async fn retry(&self, number: i64) -> Result<bool, StoreError> {
        self.release_lane(RETRY, number).await
    }

    async fn discard(&self, number: i64) -> Result<bool, StoreError> {
        self.release_lane(DISCARD, number).await
    }

    async fn release_held(&self) -> Result<(), StoreError> {
        let release = sqlx::query(RELEASE).bind(clock::unix_micros()).bind(NEVER);
        release.execute(&self.pool).await.map_err(failed)?;
        Ok(())
    }

    async fn follow_clock(&self) -> Result<(), StoreError> {
        let follow = sqlx::query(FOLLOW_CLOCK).bind(clock::unix_micros()).bind(NEVER);
        follow.execute(&self.pool).await.map_err(failed)?;
        Ok(())
    }

    async fn clean(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let clean = sqlx::query(CLEAN)
            .bind(clock::unix_micros().saturating_sub(micros(age)))
            .bind(limit);
        Ok(clean.execute(&self.pool).await.map_err(failed)?.rows_affected())
    }

    fn wake(&self) {
        self.woken.notify_one();
    }

    async fn woken(&self) {
        self.woken.notified().await;
    }
}

async fn claim(
    transaction: &mut SqliteConnection,
    lanes: u32,
    events: u32,
    lease: Duration,
) -> sqlx::Result<Vec<Claimed>> {
    // Read once the transaction is a writer: it may have waited long for that.
    let now = clock::unix_micros();
    let due = sqlx::query(DUE)
        .bind(now)
        .bind(lanes)
        .fetch_all(&mut *transaction)
        .await?;
    let each = (i64::from(events) / i64::try_from(due.len()).unwrap_or(i64::MAX).max(1)).max(1);
    let mut claimed = Vec::with_capacity(due.len());
    for row in due {
        let (lane, crashes): (String, u32) = (row.try_get(0)?, row.try_get(1)?);
        let token = sqlx::query_scalar(CLAIM)
            .bind(now.saturating_add(micros(lease)))
            .bind(now)
            .bind(&lane)
            .fetch_one(&mut *transaction)
            .await?;
        // Where a worker has ended in the middle, the first event alone: if it happens again, it was that one.
        let events = sqlx::query(EVENTS)
            .bind(&lane)
            .bind(if crashes > 0 { 1 } else { each })
            .fetch_all(&mut *transaction)
            .await?;
        claimed.push(Claimed {
            lane,
            token,
            crashes,
            events: events.iter().map(message).collect::<sqlx::Result<_>>()?,
        });
    }
    Ok(claimed)
}

/// False where the lane is another's.
async fn settle(transaction: &mut SqliteConnection, settled: &Settled, keep: bool) -> sqlx::Result<bool> {
    let now = clock::unix_micros();
    let wait = settled.retry.as_ref().map_or(Duration::ZERO, |(_, wait)| *wait);
    let owned = sqlx::query(OWNED)
        .bind(if settled.hold {
            NEVER
        } else {
            now.saturating_add(micros(wait))
        })
        .bind(now)
        .bind(&settled.lane)
        .bind(settled.token)
        .execute(&mut *transaction)
        .await?;
    if owned.rows_affected() == 0 {
        return Ok(false);
    }
    for number in &settled.published {
        let end = if keep {
            sqlx::query(END).bind(PUBLISHED).bind(now).bind(number)
        } else {
            sqlx::query(DELETE).bind(number)
        };
        end.execute(&mut *transaction).await?;
    }
    for trouble in &settled.parked {
        fail(transaction, trouble, PARKED, Some(now), Duration::ZERO).await?;
    }
    if let Some((trouble, wait)) = &settled.retry {
        fail(transaction, trouble, PENDING, None, *wait).await?;
    } else if !settled.hold {
        sqlx::query(DROP_EMPTY)
            .bind(&settled.lane)
            .execute(&mut *transaction)
            .await?;
    }
    Ok(true)
}

async fn fail(
    transaction: &mut SqliteConnection,
    trouble: &Trouble,
    state: i64,
    ended: Option<i64>,
    waited: Duration,
) -> sqlx::Result<()> {
    sqlx::query(FAIL)
        .bind(state)
        .bind(ended)
        .bind(trouble.tries)
        .bind(micros(waited))
        .bind(&trouble.error)
        .bind(trouble.number)
        .execute(transaction)
        .await?;
    Ok(())
}

fn message(row: &SqliteRow) -> sqlx::Result<Message> {
    let headers: &str = row.try_get("headers")?;
    Ok(Message {
        id: row.try_get("id")?,
        number: row.try_get("number")?,
        topic: row.try_get("topic")?,
        key: row.try_get("key")?,
        payload: row.try_get::<Vec<u8>, _>("payload")?.into(),
        headers: serde_json::from_str(headers).map_err(|error| sqlx::Error::Decode(error.into()))?,
        written: clock::from_unix_micros(row.try_get("written_at")?),
        failed: row.try_get("tries")?,
        waited: Duration::from_micros(unsigned(row.try_get("waited")?)),
    })
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Sqlite, error)
}
