#[macro_use]
mod rows;

mod batch;
mod listen;
mod settle;

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{PgConnection, PgPool, Postgres, Row as _, pool::PoolConnection};
use tokio::sync::Notify;

use super::{BatchReport, BatchSettled, Claimed, Counts, Event, OutboxStore, Parked, Settled, Taken};
use crate::{Backend, Statement, StoreError, Value};
use rows::{count, micros};

/// The lock comes first and its row feeds the insert, so that the number is drawn while no other transaction writes to
/// the lane: numbers then follow the order of the commits.
const PUT: &str = "WITH lock AS MATERIALIZED (
        SELECT pg_advisory_xact_lock(hashtextextended($1, 7247)) AS held
    )
    INSERT INTO retryguard_outbox (lane, part, topic, key, headers, payload)
    SELECT $1, $2, $3, $4, $5, $6 FROM lock RETURNING id::text";
/// The same without a key: no other event has the lane, so there is nothing to lock.
const PUT_ALONE: &str = "INSERT INTO retryguard_outbox (lane, part, topic, headers, payload)
    VALUES ('u' || gen_random_uuid(), $1, $2, $3, $4) RETURNING id::text";
/// Makes exceptions of the first lanes of parts that are free, for callers that claim by lane.
const PROMOTE: &str = "WITH due AS MATERIALIZED (
        SELECT part FROM retryguard_outbox_parts WHERE ready_at <= statement_timestamp() FOR UPDATE SKIP LOCKED
    ), first AS (
        SELECT o.lane, min(o.number) AS number FROM retryguard_outbox o JOIN due ON o.part = due.part
        WHERE o.state = 0 AND NOT EXISTS (SELECT 1 FROM retryguard_outbox_lanes l WHERE l.lane = o.lane)
        GROUP BY o.lane ORDER BY 2 LIMIT $1
    )
    INSERT INTO retryguard_outbox_lanes (lane) SELECT lane FROM first ORDER BY number ON CONFLICT DO NOTHING";
const CLAIM: &str = "WITH due AS MATERIALIZED (
        SELECT lane FROM retryguard_outbox_lanes WHERE ready_at <= statement_timestamp()
        ORDER BY ready_at LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    UPDATE retryguard_outbox_lanes l
    SET ready_at = statement_timestamp() + $2 * interval '1 microsecond', since = statement_timestamp(),
        token = nextval('retryguard_outbox_tokens'), claims = claims + 1
    FROM due WHERE l.lane = due.lane RETURNING l.lane, l.token, l.claims";
const EVENTS: &str = concat!(
    "SELECT e.* FROM unnest($1::text[]) AS c(lane) CROSS JOIN LATERAL (SELECT ",
    columns!(),
    " FROM retryguard_outbox o WHERE o.lane = c.lane AND o.state = 0 ORDER BY o.number LIMIT $2
    ) e ORDER BY e.number"
);
/// The oldest of a part is its first: reading all that waits to find the oldest would take as long as publishing some of it.
const COUNT: &str = "SELECT
    (SELECT count(*) FROM retryguard_outbox WHERE state = 0),
    (SELECT count(*) FROM retryguard_outbox WHERE state = 2),
    (SELECT (extract(epoch FROM statement_timestamp() - min(written_at)) * 1000000)::bigint FROM (
        SELECT e.written_at FROM retryguard_outbox_parts p CROSS JOIN LATERAL (
            SELECT written_at FROM retryguard_outbox o
            WHERE o.part = p.part AND o.state = 0 ORDER BY o.number LIMIT 1) e
        UNION ALL
        (SELECT written_at FROM retryguard_outbox WHERE part IS NULL AND state = 0 ORDER BY number LIMIT 1)
     ) AS first)";
const LIST_PARKED: &str = concat!(
    "SELECT ",
    columns!(),
    ", o.error, o.ended_at FROM retryguard_outbox o WHERE state = 2 AND number > $1 ORDER BY number LIMIT $2"
);
/// Under the lane's lock, as every write of an event is: a worker that drops an empty lane holds it.
const LOCK_PARKED: &str = "SELECT pg_advisory_xact_lock(hashtextextended(lane, 7247))
    FROM retryguard_outbox WHERE number = $1 AND state = 2";
const RETRY: &str = "UPDATE retryguard_outbox SET state = 0, tries = 0, waited = 0, ended_at = NULL
    WHERE number = $1 AND state = 2 RETURNING lane";
const DISCARD: &str = "DELETE FROM retryguard_outbox WHERE number = $1 AND state = 2 RETURNING lane";
const READY: &str = "INSERT INTO retryguard_outbox_lanes AS l (lane) VALUES ($1)
    ON CONFLICT (lane) DO UPDATE SET ready_at = statement_timestamp(), since = statement_timestamp()
    WHERE l.ready_at = 'infinity'";
const RELEASE: &str = "UPDATE retryguard_outbox_lanes
    SET ready_at = statement_timestamp(), since = statement_timestamp() WHERE ready_at = 'infinity'";
/// What was set at a later time than now was set before the clock was set back: its wait begins anew.
const FOLLOW_CLOCK: [&str; 2] = [
    "UPDATE retryguard_outbox_lanes
    SET ready_at = CASE WHEN ready_at = 'infinity' THEN ready_at
            ELSE statement_timestamp() + (ready_at - since) END,
        since = statement_timestamp()
    WHERE since > statement_timestamp() + interval '1 second'",
    "UPDATE retryguard_outbox_parts
    SET ready_at = statement_timestamp() + (ready_at - since), since = statement_timestamp()
    WHERE since > statement_timestamp() + interval '1 second'",
];
const CLEAN: &str = "DELETE FROM retryguard_outbox WHERE number IN
    (SELECT number FROM retryguard_outbox
     WHERE state = 1 AND ended_at <= statement_timestamp() - $1 * interval '1 microsecond'
     ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// An outbox in a PostgreSQL database (13 or later), for any number of processes of any number of machines.
/// Every time in it is the server's, because the clocks of two machines differ.
#[derive(Debug, Clone)]
pub struct PostgresOutbox {
    pool: PgPool,
    limit: Duration,
    signals: listen::Signals,
    woken: Arc<Notify>,
}

impl PostgresOutbox {
    /// How long the worker waits for an answer of the database, where nothing else is set.
    pub const LIMIT: Duration = Duration::from_secs(5);

    /// An outbox in this database; [`migrations::postgres`](crate::migrations::postgres) makes its tables.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            limit: Self::LIMIT,
            signals: listen::Signals::default(),
            woken: Arc::default(),
        }
    }

    /// Waits no longer than `limit` for an answer of the database.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Writes an event in the caller's transaction and gives its id. It is published if and only if the
    /// transaction is committed. Call [`OutboxStore::wake`] after that, so that it is published soon.
    ///
    /// Until its end the transaction holds an advisory lock on the event's key, because only so do events of one
    /// key come out in the order of their commits. A transaction that writes events of several keys writes them
    /// in the order of the keys, or it may deadlock with another (PostgreSQL ends one of the two then). The locks
    /// of one transaction should be hundreds and not thousands: the server has room for
    /// `max_locks_per_transaction` times `max_connections` of them in all.
    ///
    /// # Errors
    /// Where the event is over a limit, or the database refuses; roll the transaction back then.
    pub async fn put(&self, transaction: &mut PgConnection, event: &Event) -> Result<String, StoreError> {
        let statement = Self::statement(event)?;
        let row = statement.query().fetch_one(transaction).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }

    /// The statement of [`PostgresOutbox::put`], for a driver other than sqlx. Its one row is the event's id.
    ///
    /// # Errors
    /// Where the event is over a limit.
    pub fn statement(event: &Event) -> Result<Statement, StoreError> {
        event.check()?;
        let (text, mut values): (_, Vec<Value>) = match event.lane() {
            Some(lane) => (
                PUT,
                vec![lane.as_str().into(), i64::from(batch::part_of(&lane)).into()],
            ),
            None => (PUT_ALONE, vec![i64::from(batch::any_part()).into()]),
        };
        values.push(event.topic.as_str().into());
        if event.key.is_some() {
            values.push(event.key.clone().into());
        }
        values.push(event.headers_as_json().as_str().into());
        values.push(Some(event.payload.clone()).into());
        Ok(Statement::new(text, values))
    }

    async fn release_lane(&self, statement: &'static str, number: i64) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let work = release_lane(&mut connection, statement, number);
        let released = within(self.limit, work).await;
        let released = self.keep_or_close(connection, released)?;
        if released {
            self.wake();
        }
        Ok(released)
    }

    async fn connection(&self) -> Result<PoolConnection<Postgres>, StoreError> {
        within(self.limit, self.pool.acquire()).await
    }

    /// A connection whose answer is still outstanding is not given to another task.
    #[expect(
        clippy::unused_self,
        reason = "reads as what is done with a connection of this outbox"
    )]
    fn keep_or_close<T>(
        &self,
        connection: PoolConnection<Postgres>,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if matches!(answer, Err(StoreError::Slow { .. })) {
            drop(connection.detach());
        }
        answer
    }
}

impl OutboxStore for PostgresOutbox {
    fn backend(&self) -> Backend {
        Backend::Postgres
    }

    async fn claim(&self, lanes: u32, events: u32, lease: Duration) -> Result<Vec<Claimed>, StoreError> {
        let mut connection = self.connection().await?;
        let work = async {
            sqlx::query(PROMOTE)
                .bind(i64::from(lanes))
                .execute(&mut *connection)
                .await?;
            claim(&mut connection, lanes, events, lease).await
        };
        let claimed = within(self.limit, work).await;
        self.keep_or_close(connection, claimed)
    }

    async fn claim_exceptions(
        &self,
        lanes: u32,
        events: u32,
        lease: Duration,
    ) -> Result<Vec<Claimed>, StoreError> {
        let mut connection = self.connection().await?;
        let work = claim(&mut connection, lanes, events, lease);
        let claimed = within(self.limit, work).await;
        self.keep_or_close(connection, claimed)
    }

    async fn claim_batch(&self, events: u32, lease: Duration) -> Result<Taken, StoreError> {
        let mut connection = self.connection().await?;
        let work = batch::claim(&mut connection, events, lease);
        let taken = within(self.limit, work).await;
        self.keep_or_close(connection, taken)
    }

    async fn settle_batch(&self, batch: &BatchSettled, keep: bool) -> Result<BatchReport, StoreError> {
        let mut connection = self.connection().await?;
        let work = batch::settle(&mut connection, batch, keep);
        let report = within(self.limit, work).await;
        self.keep_or_close(connection, report)
    }

    async fn settle_and_go_on(
        &self,
        batch: &BatchSettled,
        keep: bool,
        events: u32,
        lease: Duration,
    ) -> Result<(BatchReport, Taken), StoreError> {
        let mut connection = self.connection().await?;
        let work = batch::settle_and_go_on(&mut connection, batch, keep, events, lease);
        let answer = within(self.limit, work).await;
        self.keep_or_close(connection, answer)
    }

    async fn follow_clock(&self) -> Result<(), StoreError> {
        for statement in FOLLOW_CLOCK {
            within(self.limit, sqlx::query(statement).execute(&self.pool)).await?;
        }
        Ok(())
    }

    async fn settle(&self, lanes: &[Settled], keep: bool) -> Result<usize, StoreError> {
        let mut connection = self.connection().await?;
        let work = settle::settle(&mut connection, lanes, keep);
        let lost = within(self.limit, work).await;
        self.keep_or_close(connection, lost)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let row = within(self.limit, sqlx::query(COUNT).fetch_one(&self.pool)).await?;
        let lag: Option<i64> = row.try_get(2).map_err(failed)?;
        Ok(Counts {
            pending: count(row.try_get(0).map_err(failed)?),
            parked: count(row.try_get(1).map_err(failed)?),
            lag: Duration::from_micros(count(lag.unwrap_or(0))),
        })
    }

    async fn parked(&self, after: i64, limit: u32) -> Result<Vec<Parked>, StoreError> {
        let list = sqlx::query(LIST_PARKED).bind(after).bind(i64::from(limit));
        let list = within(self.limit, list.fetch_all(&self.pool)).await?;
        list.iter()
            .map(rows::parked)
            .collect::<sqlx::Result<_>>()
            .map_err(failed)
    }

    async fn retry(&self, number: i64) -> Result<bool, StoreError> {
        self.release_lane(RETRY, number).await
    }

    async fn discard(&self, number: i64) -> Result<bool, StoreError> {
        self.release_lane(DISCARD, number).await
    }

    async fn release_held(&self) -> Result<(), StoreError> {
        within(self.limit, sqlx::query(RELEASE).execute(&self.pool)).await?;
        Ok(())
    }

    async fn clean(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let clean = sqlx::query(CLEAN).bind(micros(age)).bind(i64::from(limit));
        Ok(within(self.limit, clean.execute(&self.pool))
            .await?
            .rows_affected())
    }

    fn wake(&self) {
        self.woken.notify_one();
        self.signals.send(&self.pool, self.limit);
    }

    async fn woken(&self) {
        self.woken.notified().await;
    }

    async fn listen(&self) {
        listen::listen(&self.pool, &self.woken).await;
    }
}

async fn claim(
    connection: &mut PgConnection,
    lanes: u32,
    events: u32,
    lease: Duration,
) -> sqlx::Result<Vec<Claimed>> {
    let due = sqlx::query(CLAIM)
        .bind(i64::from(lanes))
        .bind(micros(lease))
        .fetch_all(&mut *connection)
        .await?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let mut claimed = due.iter().map(rows::claimed).collect::<sqlx::Result<Vec<_>>>()?;
    let names: Vec<&str> = claimed.iter().map(|lane| &*lane.lane).collect();
    let each = (i64::from(events) / i64::try_from(names.len()).unwrap_or(i64::MAX)).max(1);
    // A statement of its own, so that it sees what the claims' last holders have committed.
    let found = sqlx::query(EVENTS)
        .bind(&names)
        .bind(each)
        .fetch_all(&mut *connection)
        .await?;
    rows::share_out(&found, &mut claimed)?;
    Ok(claimed)
}

async fn release_lane(
    connection: &mut PgConnection,
    statement: &'static str,
    number: i64,
) -> sqlx::Result<bool> {
    use sqlx::Connection as _;
    let mut transaction = connection.begin().await?;
    sqlx::query(LOCK_PARKED)
        .bind(number)
        .execute(&mut *transaction)
        .await?;
    let row = sqlx::query(statement)
        .bind(number)
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(row) = row else { return Ok(false) };
    sqlx::query(READY)
        .bind(row.try_get::<String, _>(0)?)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}

async fn within<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(StoreError::Slow {
            backend: Backend::Postgres,
            waited: limit,
        }),
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Postgres, error)
}
