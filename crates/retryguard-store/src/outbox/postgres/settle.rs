//! Telling how lanes went: two statements in one transaction, for any number of lanes.

use sqlx::{Connection as _, PgConnection, Row as _};

use super::{super::Settled, rows::micros};

/// Locks the lanes that are still this worker's, marks what became of their events, and tries for the lock that
/// writers of their keys hold. In the order of their names, so that two workers cannot deadlock. A claim that
/// commits while the row lock is waited for has another token, and PostgreSQL looks again before it gives the row.
macro_rules! mark {
    ($published:literal) => {
        concat!(
            "WITH mine AS MATERIALIZED (
                SELECT l.lane FROM retryguard_outbox_lanes l
                JOIN unnest($1::text[], $2::bigint[]) AS s(lane, token) ON l.lane = s.lane AND l.token = s.token
                ORDER BY l.lane FOR UPDATE OF l
            ), published AS (",
            $published,
            "), failed AS (
                UPDATE retryguard_outbox o
                SET state = f.state, tries = f.tries, waited = f.waited, error = f.error,
                    ended_at = CASE WHEN f.state = 2 THEN statement_timestamp() END
                FROM unnest($4::bigint[], $5::smallint[], $6::int[], $7::bigint[], $8::text[])
                    AS f(number, state, tries, waited, error)
                WHERE o.number = f.number AND o.state = 0 AND o.lane IN (SELECT lane FROM mine)
            )
            SELECT lane, lane LIKE 'u%' OR pg_try_advisory_xact_lock(hashtextextended(lane, 7247)) FROM mine"
        )
    };
}
const MARK: &str = mark!(
    "UPDATE retryguard_outbox SET state = 1, ended_at = statement_timestamp()
    WHERE number = ANY($3) AND state = 0 AND lane IN (SELECT lane FROM mine)"
);
const MARK_AND_DELETE: &str = mark!(
    "DELETE FROM retryguard_outbox
    WHERE number = ANY($3) AND state = 0 AND lane IN (SELECT lane FROM mine)"
);

/// Drops the lanes of `$1` that are no longer exceptions: what else they hold is published with its part. Gives the
/// others of `$2` back. Events of earlier versions have no part, so a lane that holds one stays. So does one whose lock
/// another transaction holds: it may be writing such an event, which this one cannot see yet. A statement of its own,
/// so that it sees everything that was committed before the locks were taken.
const GIVE_BACK: &str = "WITH gone AS (
        DELETE FROM retryguard_outbox_lanes l WHERE l.lane = ANY($1) AND NOT EXISTS
            (SELECT 1 FROM retryguard_outbox o WHERE o.lane = l.lane AND o.state = 0 AND o.part IS NULL)
        RETURNING l.lane
    )
    UPDATE retryguard_outbox_lanes l
    SET token = 0, claims = 0, since = statement_timestamp(), ready_at = CASE
        WHEN s.wait < 0 THEN 'infinity'
        WHEN s.wait > 0 THEN statement_timestamp() + s.wait * interval '1 microsecond'
        WHEN EXISTS (SELECT 1 FROM retryguard_outbox o WHERE o.lane = l.lane AND o.state = 0)
            THEN statement_timestamp()
        ELSE statement_timestamp() + interval '20 milliseconds' END
    FROM unnest($2::text[], $3::bigint[]) AS s(lane, wait)
    WHERE l.lane = s.lane AND l.lane NOT IN (SELECT lane FROM gone)";

const PENDING: i16 = 0;
const PARKED: i16 = 2;
const HELD: i64 = -1;

/// Events that failed, as columns.
#[derive(Default)]
pub(super) struct Failures<'a> {
    pub(super) numbers: Vec<i64>,
    pub(super) states: Vec<i16>,
    pub(super) tries: Vec<i32>,
    pub(super) waited: Vec<i64>,
    pub(super) errors: Vec<&'a str>,
}

impl<'a> Failures<'a> {
    pub(super) fn of(settled: impl Iterator<Item = &'a Settled>) -> Self {
        let mut columns = Self::default();
        for lane in settled {
            let parked = lane.parked.iter().map(|trouble| (trouble, PARKED, 0));
            let again = lane
                .retry
                .iter()
                .map(|(trouble, wait)| (trouble, PENDING, micros(*wait)));
            for (trouble, state, waited) in parked.chain(again) {
                columns.numbers.push(trouble.number);
                columns.states.push(state);
                columns
                    .tries
                    .push(i32::try_from(trouble.tries).unwrap_or(i32::MAX));
                columns.waited.push(waited);
                columns.errors.push(&trouble.error);
            }
        }
        columns
    }
}

/// How many of the lanes are another's.
pub(super) async fn settle(
    connection: &mut PgConnection,
    settled: &[Settled],
    keep: bool,
) -> sqlx::Result<usize> {
    let failures = Failures::of(settled.iter());
    let names: Vec<&str> = settled.iter().map(|lane| &*lane.lane).collect();
    let tokens: Vec<i64> = settled.iter().map(|lane| lane.token).collect();
    let published: Vec<i64> = settled
        .iter()
        .flat_map(|lane| lane.published.iter().copied())
        .collect();
    let mut transaction = connection.begin().await?;
    let mine = sqlx::query(if keep { MARK } else { MARK_AND_DELETE })
        .bind(&names)
        .bind(&tokens)
        .bind(&published)
        .bind(&failures.numbers)
        .bind(&failures.states)
        .bind(&failures.tries)
        .bind(&failures.waited)
        .bind(&failures.errors)
        .fetch_all(&mut *transaction)
        .await?;
    let (mut maybe_empty, mut lanes, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for row in &mine {
        let (lane, locked): (&str, bool) = (row.try_get(0)?, row.try_get(1)?);
        let wait = settled.iter().find(|one| one.lane == lane).map_or(0, wait_of);
        if locked && wait == 0 {
            maybe_empty.push(lane);
        }
        lanes.push(lane);
        waits.push(wait);
    }
    sqlx::query(GIVE_BACK)
        .bind(&maybe_empty)
        .bind(&lanes)
        .bind(&waits)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(settled.len() - mine.len())
}

/// How long a lane waits, in microseconds: none, for ever where it is held, or for its next try.
pub(super) fn wait_of(settled: &Settled) -> i64 {
    match &settled.retry {
        _ if settled.hold => HELD,
        // Zero means that nothing failed.
        Some((_, wait)) => micros(*wait).max(1),
        None => 0,
    }
}
