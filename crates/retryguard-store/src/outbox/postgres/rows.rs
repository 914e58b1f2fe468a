//! From rows to what the worker reads.

use std::{collections::HashMap, time::Duration};

use sqlx::{Row as _, postgres::PgRow};

use super::super::{Claimed, Message, Parked};
use crate::clock;

pub(super) fn claimed(row: &PgRow) -> sqlx::Result<Claimed> {
    let claims: i32 = row.try_get(2)?;
    Ok(Claimed {
        lane: row.try_get(0)?,
        token: row.try_get(1)?,
        crashes: u32::try_from(claims - 1).unwrap_or(0),
        events: Vec::new(),
    })
}

/// Gives every claimed lane its events. Where a worker has ended in the middle, the first alone: if it happens
/// again, it was that one.
pub(super) fn share_out(rows: &[PgRow], claimed: &mut [Claimed]) -> sqlx::Result<()> {
    let mut lanes: HashMap<String, &mut Claimed> =
        claimed.iter_mut().map(|lane| (lane.lane.clone(), lane)).collect();
    for row in rows {
        let name: &str = row.try_get("lane")?;
        if let Some(lane) = lanes.get_mut(name)
            && (lane.crashes == 0 || lane.events.is_empty())
        {
            lane.events.push(message(row)?);
        }
    }
    Ok(())
}

pub(super) fn parked(row: &PgRow) -> sqlx::Result<Parked> {
    Ok(Parked {
        message: message(row)?,
        error: row.try_get::<Option<String>, _>("error")?.unwrap_or_default(),
        parked: clock::from_unix_micros(row.try_get("ended")?),
    })
}

fn message(row: &PgRow) -> sqlx::Result<Message> {
    let headers: &str = row.try_get("headers")?;
    let tries: i32 = row.try_get("tries")?;
    Ok(Message {
        id: row.try_get("name")?,
        number: row.try_get("number")?,
        topic: row.try_get("topic")?,
        key: row.try_get("key")?,
        payload: row.try_get::<Vec<u8>, _>("payload")?.into(),
        headers: serde_json::from_str(headers).map_err(|error| sqlx::Error::Decode(error.into()))?,
        written: clock::from_unix_micros(row.try_get("written")?),
        failed: u32::try_from(tries).unwrap_or(0),
        waited: Duration::from_micros(count(row.try_get("waited")?)),
    })
}

pub(super) fn micros(span: Duration) -> i64 {
    // A hundred years: intervals have an end.
    const MOST: Duration = Duration::from_secs(100 * 365 * 86_400);
    i64::try_from(span.min(MOST).as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
