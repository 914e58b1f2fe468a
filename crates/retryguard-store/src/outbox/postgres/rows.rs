//! From rows to what the worker reads.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use sqlx::{Row as _, ValueRef as _, postgres::PgRow};

use super::super::{BatchLane, Claimed, Message, Parked};
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

/// The columns of an event, in the order in which [`message`] reads them. By position, and times as the server has
/// them: names and numeric arithmetic would cost more than the rest of a row.
macro_rules! columns {
    () => {
        "o.number, o.lane, o.topic, o.key, o.headers, o.payload, uuid_send(o.id), o.written_at, o.tries, o.waited, o.part"
    };
}

/// How many they are.
pub(super) const COLUMNS: usize = 11;

/// Gives every claimed lane its events. Where a worker has ended in the middle, the first alone: if it happens
/// again, it was that one.
pub(super) fn share_out(rows: &[PgRow], claimed: &mut [Claimed]) -> sqlx::Result<()> {
    let mut lanes: HashMap<String, &mut Claimed> =
        claimed.iter_mut().map(|lane| (lane.lane.clone(), lane)).collect();
    for row in rows {
        let name: &str = row.try_get(1)?;
        if let Some(lane) = lanes.get_mut(name)
            && (lane.crashes == 0 || lane.events.is_empty())
        {
            lane.events.push(message(row)?);
        }
    }
    Ok(())
}

/// The lanes of a batch, each with its events in order.
pub(super) fn lanes(rows: &[PgRow]) -> sqlx::Result<Vec<BatchLane>> {
    let mut lanes: Vec<BatchLane> = Vec::with_capacity(rows.len());
    let mut places: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        // A part in which nothing waits has a row without an event.
        let Some(name) = row.try_get::<Option<&str>, _>(1)? else {
            continue;
        };
        let message = message(row)?;
        // An event without a key is alone in its lane.
        if message.key.is_some() {
            if let Some(place) = places.get(name) {
                lanes[*place].events.push(message);
                continue;
            }
            places.insert(name, lanes.len());
        }
        lanes.push(BatchLane {
            lane: name.to_owned(),
            part: row.try_get(10)?,
            events: vec![message],
        });
    }
    Ok(lanes)
}

pub(super) fn parked(row: &PgRow) -> sqlx::Result<Parked> {
    Ok(Parked {
        message: message(row)?,
        error: row.try_get::<Option<String>, _>(11)?.unwrap_or_default(),
        parked: time(row, 12)?,
    })
}

fn message(row: &PgRow) -> sqlx::Result<Message> {
    let headers: &str = row.try_get(4)?;
    let tries: i32 = row.try_get(8)?;
    Ok(Message {
        id: uuid(row.try_get(6)?),
        number: row.try_get(0)?,
        topic: row.try_get(2)?,
        key: row.try_get(3)?,
        payload: row.try_get::<Vec<u8>, _>(5)?.into(),
        headers: if headers == "[]" {
            Vec::new()
        } else {
            serde_json::from_str(headers).map_err(|error| sqlx::Error::Decode(error.into()))?
        },
        written: time(row, 7)?,
        failed: u32::try_from(tries).unwrap_or(0),
        waited: Duration::from_micros(count(row.try_get(9)?)),
    })
}

/// As PostgreSQL writes it.
fn uuid(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A moment: PostgreSQL counts microseconds from the beginning of the year 2000.
fn time(row: &PgRow, column: usize) -> sqlx::Result<SystemTime> {
    const YEAR_2000: i64 = 946_684_800_000_000;
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(clock::from_unix_micros(0));
    }
    let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
    let micros = bytes
        .try_into()
        .map(i64::from_be_bytes)
        .map_err(|_| sqlx::Error::Decode("a moment of another size than eight bytes".into()))?;
    Ok(clock::from_unix_micros(micros.saturating_add(YEAR_2000)))
}

pub(super) fn micros(span: Duration) -> i64 {
    // A hundred years: intervals have an end.
    const MOST: Duration = Duration::from_secs(100 * 365 * 86_400);
    i64::try_from(span.min(MOST).as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_id_is_written_as_postgres_writes_it() {
        let bytes: Vec<u8> = (0..16).map(|byte| byte * 17).collect();
        assert_eq!(super::uuid(&bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
