//! Keys in Redis: for any number of machines, fast, and as durable as that server is.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{
    Cmd, Pipeline, RedisFuture, Script, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig},
};

use super::{
    Asked, Held, IdempotencyStore, KeyId, Standing, StoreFuture, StoredResponse,
    columns::{Columns, Unreadable, encode},
    machine::{self, Change, Found, Records, Version},
    store::micros,
};
use crate::{Backend, StoreError};

/// Keeps keys in Redis, one hash a key, each step one script: one round trip claims a new key or loads a known one, and one
/// completes it. Clones share the connection.
///
/// Times are the server's own. Two things make it forget keys early, and a forgotten key is an effect done twice:
/// a restart without persistence (set `appendonly yes`), and eviction (set `maxmemory-policy noeviction`, and a
/// full server refuses new keys instead).
#[derive(Clone)]
pub struct RedisStore {
    connection: Link,
    prefix: String,
    scripts: Arc<Scripts>,
}

/// Fields: `f` fingerprint, `t` token, `u` locked until, `l` the lock's length (both in microseconds), `s` status,
/// `h` headers, `b` body. Numbers of Lua are exact up to 2^53; microseconds since the epoch reach that in the year 2255.
///
/// One round trip for a new key, and one for a known one.
const INSERT_OR_LOAD: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local at = redis.call('HMGET', KEYS[1], 'f', 't', 'u', 'l', 's', 'h', 'b')
if at[1] then
    return {'record', at[1], at[2], string.format('%.0f', tonumber(at[3]) - now), at[4], at[5], at[6], at[7]}
end
local token = string.format('%.0f', now)
redis.call('HSET', KEYS[1], 'f', ARGV[1], 't', token, 'u', string.format('%.0f', now + ARGV[2]), 'l', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'inserted', token}";

/// Stores a change where token and completion are as they were seen, and answers the token.
macro_rules! replace {
    ($change:literal) => {
        concat!(
            "
local at = redis.call('HMGET', KEYS[1], 't', 's')
if at[1] ~= ARGV[1] or (at[2] and '1' or '0') ~= ARGV[2] then return false end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local token = at[1]
",
            $change,
            "
return token"
        )
    };
}
const CLAIM: &str = replace!(
    "token = string.format('%.0f', math.max(now, tonumber(token) + 1))
redis.call('HDEL', KEYS[1], 's', 'h', 'b')
redis.call('HSET', KEYS[1], 'f', ARGV[3], 't', token, 'u', string.format('%.0f', now + ARGV[4]), 'l', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])"
);
const COMPLETE: &str = replace!(
    "redis.call('HSET', KEYS[1], 's', ARGV[3], 'h', ARGV[4])
if #ARGV == 6 then redis.call('HSET', KEYS[1], 'b', ARGV[6]) end
redis.call('PEXPIRE', KEYS[1], ARGV[5])"
);
const LOCK: &str = replace!(
    "local till = 0
if ARGV[3] ~= '0' then till = now + ARGV[3] end
redis.call('HSET', KEYS[1], 'u', string.format('%.0f', till))"
);

#[derive(Debug)]
struct Scripts {
    insert_or_load: Script,
    claim: Script,
    complete: Script,
    lock: Script,
}

impl RedisStore {
    /// Connects to an address such as `redis://127.0.0.1/`: one server, or the primary of several.
    ///
    /// The connection reconnects in the background; what is asked meanwhile fails at once.
    ///
    /// # Errors
    /// Where the address cannot be read, the server cannot be reached, or it is a node of a cluster or a Sentinel.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let client = redis::Client::open(url).map_err(StoreError::from_redis)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            // The layer bounds each answer by what its request has left; this is for the background.
            .set_response_timeout(Some(Duration::from_secs(5)))
            .set_max_delay(Duration::from_millis(500));
        let mut connection = ConnectionManager::new_with_config(client, config)
            .await
            .map_err(StoreError::from_redis)?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await
            .map_err(StoreError::from_redis)?;
        check_mode(&info)?;
        Ok(Self::with_connection(connection))
    }

    /// Connects to a Redis Cluster by the addresses of some of its nodes. Every key is one hash on one node, so nothing
    /// spans two of them.
    ///
    /// A node that fails over forgets what it had not sent to its replica: set `min-replicas-to-write` where an
    /// acknowledged key must not be lost so.
    ///
    /// # Errors
    /// Where an address cannot be read or the cluster cannot be reached.
    #[cfg(feature = "redis-cluster")]
    pub async fn connect_cluster<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Result<Self, StoreError> {
        let nodes = nodes.into_iter().collect::<Vec<_>>();
        let client = redis::cluster::ClusterClientBuilder::new(nodes)
            .connection_timeout(Duration::from_secs(1))
            .response_timeout(Duration::from_secs(5))
            .build()
            .map_err(StoreError::from_redis)?;
        let connection = client
            .get_async_connection()
            .await
            .map_err(StoreError::from_redis)?;
        Ok(Self::over(Link::Cluster(connection)))
    }

    /// On a connection of the caller's.
    #[must_use]
    pub fn with_connection(connection: ConnectionManager) -> Self {
        Self::over(Link::Server(connection))
    }

    fn over(connection: Link) -> Self {
        Self {
            connection,
            prefix: "retryguard:idempotency:".to_owned(),
            scripts: Arc::new(Scripts {
                insert_or_load: Script::new(INSERT_OR_LOAD),
                claim: Script::new(CLAIM),
                complete: Script::new(COMPLETE),
                lock: Script::new(LOCK),
            }),
        }
    }

    fn key(&self, id: KeyId) -> String {
        format!("{}{id}", self.prefix)
    }
}

impl Records for RedisStore {
    async fn insert_or_load(&mut self, asked: &Asked) -> Result<Found, StoreError> {
        let answer: Vec<Value> = self
            .scripts
            .insert_or_load
            .key(self.key(asked.id))
            .arg(&asked.fingerprint.0[..])
            .arg(micros(asked.lock))
            .arg(millis(asked.keep))
            .invoke_async(&mut self.connection)
            .await
            .map_err(StoreError::from_redis)?;
        found(answer).map_err(|cause| StoreError::Refused {
            backend: Backend::Redis,
            cause: Box::new(cause),
        })
    }

    async fn replace(
        &mut self,
        id: KeyId,
        seen: Version,
        change: Change<'_>,
    ) -> Result<Option<i64>, StoreError> {
        let scripts = self.scripts.clone();
        let script = match change {
            Change::Claim(_) => &scripts.claim,
            Change::Complete(..) => &scripts.complete,
            Change::Lock(_) => &scripts.lock,
        };
        let mut call = script.key(self.key(id));
        call.arg(seen.token).arg(u8::from(seen.completed));
        match change {
            Change::Claim(asked) => {
                call.arg(&asked.fingerprint.0[..]);
                call.arg(micros(asked.lock)).arg(millis(asked.keep));
            }
            Change::Complete(response, keep) => {
                call.arg(response.status.as_u16()).arg(encode(&response.headers));
                call.arg(millis(keep));
                if let Some(body) = response.body.as_ref().map(Bytes::as_ref) {
                    call.arg(body);
                }
            }
            Change::Lock(lock) => {
                call.arg(micros(lock));
            }
        }
        call.invoke_async(&mut self.connection)
            .await
            .map_err(StoreError::from_redis)
    }
}

/// Refuses servers on which keys would seem to work and not be kept.
fn check_mode(info: &str) -> Result<(), StoreError> {
    let mode = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("redis_mode:"));
    let why = match mode {
        Some("cluster") => {
            "it is a node of a cluster, which keeps some of the keys: connect with `connect_cluster` (feature \
             `redis-cluster`)"
        }
        Some("sentinel") => {
            "it is a Sentinel, which keeps no keys: give the address of the primary that it watches"
        }
        _ => return Ok(()),
    };
    Err(StoreError::Refused {
        backend: Backend::Redis,
        cause: why.into(),
    })
}

/// What the scripts are sent over.
#[derive(Clone)]
enum Link {
    Server(ConnectionManager),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(link) => link.req_packed_command(command),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(link) => link.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(link) => link.req_packed_commands(pipeline, offset, count),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(link) => link.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(link) => link.get_db(),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(link) => link.get_db(),
        }
    }
}

/// Redis expires in milliseconds, and takes zero for "at once".
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis())
        .unwrap_or(i64::MAX)
        .clamp(1, 1 << 52)
}

fn found(answer: Vec<Value>) -> Result<Found, Unreadable> {
    let mut parts = answer.into_iter();
    match bytes(parts.next()).as_deref() {
        Some(b"inserted") => Ok(Found::Inserted(number(parts.next()).ok_or(Unreadable("token"))?)),
        Some(b"record") => {
            let mut stored = Columns {
                fingerprint: bytes(parts.next()).ok_or(Unreadable("fingerprint"))?,
                token: number(parts.next()).ok_or(Unreadable("token"))?,
                lock_left: number(parts.next()).ok_or(Unreadable("lock"))?,
                lock: number(parts.next()),
                // Redis forgets by itself.
                expired: false,
                response: None,
            };
            if let Some(status) = number(parts.next()) {
                let headers = bytes(parts.next()).unwrap_or_default();
                stored.response = Some((status, headers, bytes(parts.next())));
            }
            Ok(Found::Record(stored.record()?))
        }
        _ => Err(Unreadable("record")),
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
        let mut records = self.clone();
        Box::pin(async move { machine::claim(&mut records, asked).await })
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        let mut records = self.clone();
        Box::pin(async move { machine::complete(&mut records, held, response, keep).await })
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        let mut records = self.clone();
        Box::pin(async move { machine::release(&mut records, held).await })
    }

    /// Nothing to do: the server forgets by itself.
    fn sweep(&self, _limit: u32) -> StoreFuture<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_and_a_node_of_a_cluster_are_refused_with_what_to_do() {
        let refusal = |mode: &str| {
            let info = format!("# Server\r\nredis_version:7.0.15\r\nredis_mode:{mode}\r\nos:Linux\r\n");
            check_mode(&info).map_err(|error| error.to_string())
        };
        refusal("standalone").unwrap();
        assert!(refusal("cluster").unwrap_err().contains("`connect_cluster`"));
        assert!(refusal("sentinel").unwrap_err().contains("the primary"));
    }
}
