//! Keys in Redis: for any number of machines, fast, and as durable as that server is.

use std::time::Duration;

use bytes::Bytes;
use redis::{
    Script, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
};

use super::{
    Asked, Held, IdempotencyStore, KeyId, Standing, StoreFuture, StoredResponse,
    columns::{Unreadable, encode, restore},
    store::micros,
};
use crate::{Backend, StoreError};

/// Keeps keys in Redis, one hash a key, each step one script. Clones share the connection.
///
/// Times are the server's own. Two things make it forget keys early, and a forgotten key is an effect done twice:
/// a restart without persistence (set `appendonly yes`), and eviction (set `maxmemory-policy noeviction`, and a
/// full server refuses new keys instead).
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: String,
    claim: Script,
    complete: Script,
    release: Script,
}

/// Fields: `f` fingerprint, `t` token, `u` locked until (microseconds), `s` status, `h` headers, `b` body.
/// Numbers of Lua are exact up to 2^53; microseconds since the epoch reach that in the year 2255.
const CLAIM: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local at = redis.call('HMGET', KEYS[1], 'f', 't', 'u', 's', 'h', 'b')
if at[1] then
    if at[1] ~= ARGV[1] then return {'other'} end
    if at[4] then return {'done', at[4], at[5], at[6]} end
    local left = tonumber(at[3]) - now
    if left > 0 then return {'busy', string.format('%.0f', left)} end
end
local token = now
if at[2] and tonumber(at[2]) >= now then token = tonumber(at[2]) + 1 end
token = string.format('%.0f', token)
redis.call('HSET', KEYS[1], 'f', ARGV[1], 't', token, 'u', string.format('%.0f', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'yours', token}";

const COMPLETE: &str = "
local at = redis.call('HMGET', KEYS[1], 't', 's')
if at[1] ~= ARGV[1] or at[2] then return 0 end
redis.call('HSET', KEYS[1], 's', ARGV[2], 'h', ARGV[3])
if #ARGV == 5 then redis.call('HSET', KEYS[1], 'b', ARGV[5]) end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1";

const RELEASE: &str = "
local at = redis.call('HMGET', KEYS[1], 't', 's')
if at[1] == ARGV[1] and not at[2] then redis.call('HSET', KEYS[1], 'u', 0) end
return 0";

impl RedisStore {
    /// Connects to an address such as `redis://127.0.0.1/`.
    ///
    /// The connection mends itself in the background; what is asked meanwhile fails at once.
    ///
    /// # Errors
    /// Where the address cannot be read or the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let client = redis::Client::open(url).map_err(StoreError::from_redis)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            // The layer bounds each answer by what its request has left; this is for the background.
            .set_response_timeout(Some(Duration::from_secs(5)))
            .set_max_delay(Duration::from_millis(500));
        let connection = ConnectionManager::new_with_config(client, config)
            .await
            .map_err(StoreError::from_redis)?;
        Ok(Self::with_connection(connection))
    }

    /// On a connection of the caller's.
    #[must_use]
    pub fn with_connection(connection: ConnectionManager) -> Self {
        Self {
            connection,
            prefix: "retryguard:idempotency:".to_owned(),
            claim: Script::new(CLAIM),
            complete: Script::new(COMPLETE),
            release: Script::new(RELEASE),
        }
    }

    fn key(&self, id: KeyId) -> String {
        format!("{}{id}", self.prefix)
    }

    async fn claim_key(&self, asked: Asked) -> Result<Standing, StoreError> {
        let answer: Vec<Value> = self
            .claim
            .key(self.key(asked.id))
            .arg(&asked.fingerprint.0[..])
            .arg(micros(asked.lock))
            .arg(millis(asked.keep))
            .invoke_async(&mut self.connection.clone())
            .await
            .map_err(StoreError::from_redis)?;
        standing(asked.id, answer).map_err(|cause| StoreError::Refused {
            backend: Backend::Redis,
            cause: Box::new(cause),
        })
    }
}

/// Redis expires in milliseconds, and takes zero for "at once".
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis())
        .unwrap_or(i64::MAX)
        .clamp(1, 1 << 52)
}

fn standing(id: KeyId, answer: Vec<Value>) -> Result<Standing, Unreadable> {
    let mut parts = answer.into_iter();
    match bytes(parts.next()).as_deref() {
        Some(b"yours") => Ok(Standing::Yours(Held {
            id,
            token: number(parts.next()).ok_or(Unreadable("token"))?,
        })),
        Some(b"busy") => {
            let left = number(parts.next()).ok_or(Unreadable("lock"))?;
            Ok(Standing::Busy(Duration::from_micros(
                u64::try_from(left).unwrap_or(0),
            )))
        }
        Some(b"other") => Ok(Standing::OtherRequest),
        Some(b"done") => {
            let status = number(parts.next()).ok_or(Unreadable("status"))?;
            let headers = bytes(parts.next()).unwrap_or_default();
            let body = bytes(parts.next());
            Ok(Standing::Done(restore(status, &headers, body)?))
        }
        _ => Err(Unreadable("standing")),
    }
}

fn bytes(value: Option<Value>) -> Option<Vec<u8>> {
    match value? {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

fn number(value: Option<Value>) -> Option<i64> {
    String::from_utf8(bytes(value)?).ok()?.parse().ok()
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}

impl IdempotencyStore for RedisStore {
    fn backend(&self) -> Backend {
        Backend::Redis
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(self.claim_key(asked))
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut script = self.complete.key(self.key(held.id));
            script
                .arg(held.token)
                .arg(response.status.as_u16())
                .arg(encode(&response.headers))
                .arg(millis(keep));
            if let Some(body) = response.body.as_ref().map(Bytes::as_ref) {
                script.arg(body);
            }
            let done: i64 = script
                .invoke_async(&mut self.connection.clone())
                .await
                .map_err(StoreError::from_redis)?;
            Ok(done == 1)
        })
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let _: i64 = self
                .release
                .key(self.key(held.id))
                .arg(held.token)
                .invoke_async(&mut self.connection.clone())
                .await
                .map_err(StoreError::from_redis)?;
            Ok(())
        })
    }

    /// Nothing to do: the server forgets by itself.
    fn sweep(&self, _limit: u32) -> StoreFuture<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }
}
