//! Claiming and reporting by part: one lease for the events of many lanes.
//!
//! An event belongs to one of 64 parts, by its key. A worker claims some parts that are free, reads their first events
//! and reports all of them by one statement, so that an event costs its row and its deletion, as in a loop written by
//! hand. What must be remembered about a lane (a wait, a lease of its own, that it is held) is a row of
//! `retryguard_outbox_lanes`, and parts leave out the lanes that have one.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use retryguard_core::Chance as _;
use sqlx::{PgConnection, Row as _, postgres::PgRow};

use super::{
    super::{Batch, BatchReport, BatchSettled, PartClaim, Taken},
    rows::{self, micros},
};
use crate::clock;

/// How many parts there are; the migration makes as many rows.
const PARTS: u64 = 64;
/// How many events without keys a process writes into one part before it takes the next. Some pages of the table: fewer, and
/// workers read every page for every part; more, and a short backlog is in one part, which is one worker's.
const NEIGHBOURS: u64 = 64;
/// The most parts of one claim, so that there is something left for other workers.
const AT_ONCE: i64 = 8;

/// The part of a lane: FNV-1a, because it must be the same in every process and every version.
pub(super) fn part_of(lane: &str) -> i16 {
    let hash = lane.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    part(hash ^ (hash >> 32))
}

/// A part for an event without a key: the same for some events one after the other, which are neighbours in the table, so that
/// a worker finds the events of a part on a few pages. Processes begin at different parts.
pub(super) fn any_part() -> i16 {
    static WRITTEN: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(clock::Random.below(PARTS * NEIGHBOURS)));
    part(WRITTEN.fetch_add(1, Ordering::Relaxed) / NEIGHBOURS)
}

fn part(number: u64) -> i16 {
    i16::try_from(number % PARTS).unwrap_or(0)
}

/// Claims parts and reads their events. Parts are looked at in the order in which they became free, until enough of them have an
/// event: the subquery and the `LIMIT 1` keep the planner from reading whole parts to find out. The first condition keeps an
/// idle worker from looking at parts at all; its order makes the planner use the index, and not read over all rows that were
/// deleted lately. Only parts that have an event are locked (`e.part`, so that the planner cannot lock first): every lock is
/// written to the log, and other workers pass over a locked part.
///
/// All of it has one snapshot. A part that another worker has given back since then is locked as it is now, but its events are
/// read as they were before: such a part has another `since` and is left out. A part that was claimed before and not given
/// back has no events here: see [`SUSPECT`].
///
/// The commit does not wait for the disk. A claim that a crash of the server has lost is a lease that ran out early: the
/// events are delivered again, as after any crash, and what was published is marked by the worker that has the part.
const CLAIM: &str = concat!(
    "WITH quick AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true)
    ), due AS MATERIALIZED (
        SELECT p.part FROM (
            SELECT part, since FROM retryguard_outbox_parts
            WHERE (SELECT part FROM retryguard_outbox WHERE state = 0 AND part IS NOT NULL ORDER BY part LIMIT 1) >= 0
            AND ready_at <= statement_timestamp() ORDER BY ready_at
        ) s CROSS JOIN LATERAL (
            SELECT o.part FROM retryguard_outbox o WHERE o.part = s.part AND o.state = 0
            AND NOT EXISTS (SELECT 1 FROM retryguard_outbox_lanes l WHERE l.lane = o.lane)
            ORDER BY o.number LIMIT 1
        ) e CROSS JOIN LATERAL (
            SELECT part FROM retryguard_outbox_parts WHERE part = e.part AND since = s.since FOR UPDATE SKIP LOCKED
        ) p LIMIT $1
    ), mine AS (
        UPDATE retryguard_outbox_parts p
        SET ready_at = statement_timestamp() + $2 * interval '1 microsecond', since = statement_timestamp(),
            token = nextval('retryguard_outbox_tokens'), claims = claims + 1
        FROM due, quick WHERE p.part = due.part RETURNING p.part, p.token, p.claims
    )
    SELECT e.*, mine.part, mine.token, mine.claims FROM mine LEFT JOIN LATERAL (SELECT ",
    columns!(),
    " FROM retryguard_outbox o WHERE o.part = mine.part AND o.state = 0
        AND NOT EXISTS (SELECT 1 FROM retryguard_outbox_lanes l WHERE l.lane = o.lane)
        ORDER BY o.number LIMIT greatest(1, $3 / (SELECT count(*) FROM due))) e ON mine.claims = 1"
);
const ANY_CLAIMED: &str =
    "SELECT EXISTS (SELECT 1 FROM retryguard_outbox_parts WHERE ready_at > statement_timestamp())";
/// A worker ended while it had these parts. One of their first events may be what ended it, so their lanes become
/// exceptions, which are claimed one by one and counted.
const SUSPECT: &str = "WITH mine AS (
        UPDATE retryguard_outbox_parts p
        SET ready_at = statement_timestamp(), since = statement_timestamp(), token = 0, claims = 0
        FROM unnest($1::smallint[], $2::bigint[]) AS s(part, token)
        WHERE p.part = s.part AND p.token = s.token RETURNING p.part
    )
    INSERT INTO retryguard_outbox_lanes (lane, claims)
    SELECT DISTINCT e.lane, 1 FROM mine CROSS JOIN LATERAL (
        SELECT o.lane FROM retryguard_outbox o WHERE o.part = mine.part AND o.state = 0
        ORDER BY o.number LIMIT $3) e
    ON CONFLICT (lane) DO NOTHING";

pub(super) async fn claim(
    connection: &mut PgConnection,
    events: u32,
    lease: Duration,
) -> sqlx::Result<Taken> {
    let found = sqlx::query(CLAIM)
        .bind(AT_ONCE)
        .bind(micros(lease))
        .bind(i64::from(events))
        .fetch_all(&mut *connection)
        .await?;
    if found.is_empty() {
        let claimed: bool = sqlx::query_scalar(ANY_CLAIMED).fetch_one(connection).await?;
        return Ok(if claimed { Taken::Busy } else { Taken::Nothing });
    }
    let (parts, suspects): (Vec<_>, Vec<_>) =
        claims(&found)?.into_iter().partition(|(_, claims)| *claims == 1);
    let parts: Vec<_> = parts.into_iter().map(|(claim, _)| claim).collect();
    let suspects: Vec<_> = suspects.into_iter().map(|(claim, _)| claim).collect();
    if !suspects.is_empty() {
        let (numbers, tokens) = columns(&suspects);
        sqlx::query(SUSPECT)
            .bind(numbers)
            .bind(tokens)
            .bind(i64::from(events))
            .execute(&mut *connection)
            .await?;
    }
    if parts.is_empty() {
        return Ok(Taken::Busy);
    }
    let lanes = rows::lanes(&found)?;
    Ok(Taken::Batch(Batch { parts, lanes }))
}

/// The parts of these rows, and how often they were claimed since a worker last reported. They are behind the columns of an event.
fn claims(rows: &[PgRow]) -> sqlx::Result<Vec<(PartClaim, i32)>> {
    let mut claims = Vec::new();
    for row in rows {
        let claim = PartClaim {
            part: row.try_get(rows::COLUMNS)?,
            token: row.try_get(rows::COLUMNS + 1)?,
        };
        let claim = (claim, row.try_get(rows::COLUMNS + 2)?);
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }
    Ok(claims)
}

/// How many events of each part a batch has.
fn each(events: u32, parts: usize) -> i64 {
    i64::from(events)
        .div_euclid(i64::try_from(parts.max(1)).unwrap_or(i64::MAX))
        .max(1)
}

fn columns(parts: &[PartClaim]) -> (Vec<i16>, Vec<i64>) {
    parts.iter().map(|claim| (claim.part, claim.token)).unzip()
}

/// One statement for everything, so that a batch is reported in one round trip and one commit.
macro_rules! settle {
    ($published:literal) => {
        concat!(
            "WITH mine AS (
                UPDATE retryguard_outbox_parts p
                SET ready_at = statement_timestamp(), since = statement_timestamp(), token = 0, claims = 0
                FROM unnest($1::smallint[], $2::bigint[]) AS s(part, token)
                WHERE p.part = s.part AND p.token = s.token RETURNING p.part
            ), published AS (",
            $published,
            " WHERE number = ANY($3) AND state = 0 AND part = ANY(ARRAY(SELECT part FROM mine))
            ), failed AS (
                UPDATE retryguard_outbox o
                SET state = f.state, tries = f.tries, waited = f.waited, error = f.error,
                    ended_at = CASE WHEN f.state = 2 THEN statement_timestamp() END
                FROM unnest($4::bigint[], $5::smallint[], $6::int[], $7::bigint[], $8::text[])
                    AS f(number, state, tries, waited, error)
                WHERE o.number = f.number AND o.state = 0 AND o.part IN (SELECT part FROM mine)
            ), exceptions AS (
                INSERT INTO retryguard_outbox_lanes (lane, ready_at, token, claims)
                SELECT x.lane, CASE WHEN x.wait < 0 THEN 'infinity'
                        ELSE statement_timestamp() + x.wait * interval '1 microsecond' END,
                    CASE WHEN x.running THEN nextval('retryguard_outbox_tokens') ELSE 0 END,
                    CASE WHEN x.running THEN 1 ELSE 0 END
                FROM unnest($9::smallint[], $10::text[], $11::bigint[], $12::boolean[])
                    AS x(part, lane, wait, running)
                WHERE x.part IN (SELECT part FROM mine)
                ON CONFLICT (lane) DO NOTHING RETURNING lane, token
            )
            SELECT (SELECT count(*) FROM mine), e.lane, e.token
            FROM (SELECT 1) AS one LEFT JOIN exceptions e ON e.token > 0"
        )
    };
}
const SETTLE: &str = settle!("UPDATE retryguard_outbox SET state = 1, ended_at = statement_timestamp()");
const SETTLE_AND_DELETE: &str = settle!("DELETE FROM retryguard_outbox");

pub(super) async fn settle(
    connection: &mut PgConnection,
    batch: &BatchSettled,
    keep: bool,
) -> sqlx::Result<BatchReport> {
    let failures = super::settle::Failures::of(batch.failed.iter().map(|(_, settled)| settled));
    let mut exceptions = Exceptions::default();
    for (part, settled) in &batch.failed {
        // A lane whose events were parked and that goes on is not an exception.
        let wait = super::settle::wait_of(settled);
        if wait != 0 {
            exceptions.push(*part, &settled.lane, wait, false);
        }
    }
    for (part, lane) in &batch.running {
        exceptions.push(*part, lane, micros(batch.lease_left), true);
    }
    let (parts, tokens) = columns(&batch.parts);
    let rows = sqlx::query(if keep { SETTLE } else { SETTLE_AND_DELETE })
        .bind(parts)
        .bind(tokens)
        .bind(&batch.published)
        .bind(&failures.numbers)
        .bind(&failures.states)
        .bind(&failures.tries)
        .bind(&failures.waited)
        .bind(&failures.errors)
        .bind(&exceptions.parts)
        .bind(&exceptions.lanes)
        .bind(&exceptions.waits)
        .bind(&exceptions.running)
        .fetch_all(connection)
        .await?;
    let mut report = BatchReport::default();
    for row in &rows {
        let mine: i64 = row.try_get(0)?;
        report.lost = batch
            .parts
            .len()
            .saturating_sub(usize::try_from(mine).unwrap_or(0));
        if let (Some(lane), Some(token)) = (row.try_get(1)?, row.try_get(2)?) {
            report.tokens.push((lane, token));
        }
    }
    Ok(report)
}

/// Reports a batch of which everything was published, keeps its parts, and reads what comes next in them: one statement for a
/// batch, where giving the parts back and claiming others are three. The token stays, so that a report whose answer was lost
/// may be sent again.
///
/// All of it has one snapshot, in which the published events are still there: they are left out by their numbers. Greater
/// numbers alone would not do, because a smaller number may be committed later. The parts are this worker's and have no
/// exceptions of this batch, so nothing else can have changed since.
macro_rules! go_on {
    ($published:literal) => {
        concat!(
            "WITH mine AS (
                UPDATE retryguard_outbox_parts p
                SET ready_at = statement_timestamp() + $4 * interval '1 microsecond', since = statement_timestamp()
                FROM unnest($1::smallint[], $2::bigint[]) AS s(part, token)
                WHERE p.part = s.part AND p.token = s.token RETURNING p.part, p.token, p.claims
            ), published AS (",
            $published,
            " WHERE number = ANY($3) AND state = 0 AND part = ANY(ARRAY(SELECT part FROM mine))
            )
            SELECT e.*, mine.part, mine.token, mine.claims FROM mine LEFT JOIN LATERAL (SELECT ",
            columns!(),
            " FROM retryguard_outbox o WHERE o.part = mine.part AND o.state = 0
                AND NOT EXISTS (SELECT 1 FROM retryguard_outbox_lanes l WHERE l.lane = o.lane)
                AND o.number NOT IN (SELECT unnest($3))
                ORDER BY o.number LIMIT $5) e ON true"
        )
    };
}
const GO_ON: &str = go_on!("UPDATE retryguard_outbox SET state = 1, ended_at = statement_timestamp()");
const GO_ON_AND_DELETE: &str = go_on!("DELETE FROM retryguard_outbox");

pub(super) async fn settle_and_go_on(
    connection: &mut PgConnection,
    batch: &BatchSettled,
    keep: bool,
    events: u32,
    lease: Duration,
) -> sqlx::Result<(BatchReport, Taken)> {
    let (numbers, tokens) = columns(&batch.parts);
    let found = sqlx::query(if keep { GO_ON } else { GO_ON_AND_DELETE })
        .bind(numbers)
        .bind(tokens)
        .bind(&batch.published)
        .bind(micros(lease))
        .bind(each(events, batch.parts.len()))
        .fetch_all(connection)
        .await?;
    let parts: Vec<_> = claims(&found)?.into_iter().map(|(claim, _)| claim).collect();
    let report = BatchReport {
        tokens: Vec::new(),
        lost: batch.parts.len().saturating_sub(parts.len()),
    };
    if parts.is_empty() {
        return Ok((report, Taken::Nothing));
    }
    let lanes = rows::lanes(&found)?;
    Ok((report, Taken::Batch(Batch { parts, lanes })))
}

#[derive(Default)]
struct Exceptions<'a> {
    parts: Vec<i16>,
    lanes: Vec<&'a str>,
    waits: Vec<i64>,
    running: Vec<bool>,
}

impl<'a> Exceptions<'a> {
    fn push(&mut self, part: i16, lane: &'a str, wait: i64, running: bool) {
        self.parts.push(part);
        self.lanes.push(lane);
        self.waits.push(wait);
        self.running.push(running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_keys_come_into_every_part_in_runs() {
        let parts: Vec<i16> = (0..PARTS * NEIGHBOURS).map(|_| any_part()).collect();
        let runs = 1 + parts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // One more where the first run had begun before.
        assert!(runs == 64 || runs == 65, "{runs}");
    }

    /// Events that are written by one version are published by the next.
    #[test]
    fn a_lane_keeps_its_part() {
        let parts: Vec<_> = ["ka", "kb", "korder-17", "k"].map(part_of).to_vec();
        assert_eq!(parts, [22, 63, 35, 6]);
        let mut used = [0; 64];
        for number in 0..6400 {
            used[usize::try_from(part_of(&format!("korder-{number}"))).unwrap()] += 1;
        }
        assert!(used.iter().all(|count| (50..=150).contains(count)), "{used:?}");
    }
}
