//! A lock in Redis: one key that expires, taken and kept by scripts that compare its holder, and a counter that
//! gives every term its number.
//!
//! A Redis that comes back empty has lost the leader. So a lock is never taken where the counter is not
//! there: the place is kept free for one whole term first, in which the old leader's own clock ends its term.

use std::time::Duration;

use redis::{Client, Script, aio::MultiplexedConnection};

use crate::adapters::start_error::StartError;
use crate::config::election::Lock;
use crate::reconcile::election::{ElectionAnswer, ElectionError, LeaderElection, Leadership};

/// Answers `[term, holder, milliseconds left]`; the term is 0 where another controller holds it.
const TAKE: &str = r"
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {tonumber(redis.call('GET', KEYS[2]) or '0'), holder, tonumber(ARGV[2])}
end
if holder then
  return {0, holder, redis.call('PTTL', KEYS[1])}
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], '0')
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
  return {0, ARGV[3], tonumber(ARGV[2])}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {redis.call('INCR', KEYS[2]), ARGV[1], tonumber(ARGV[2])}
";

const RESIGN: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
";

/// Who holds the lock of a Redis that was found empty.
pub const KEPT_FREE: &str = "none: the lock was new, and is kept free for one term";

/// A lock in Redis.
pub struct Redis {
    client: Client,
    connection: Option<MultiplexedConnection>,
    identity: String,
    lock: String,
    counter: String,
    term: Duration,
    /// When the lock of another controller ends, counted from the last answer.
    free_in: Option<Duration>,
}

impl Redis {
    /// No request is sent yet.
    ///
    /// # Errors
    /// When the address cannot be read or is none.
    pub fn new(lock: &Lock, identity: &str) -> Result<Self, StartError> {
        let address = super::address(lock, "redis")?;
        let client = Client::open(address.reveal()).map_err(|_| StartError::Settings {
            what: "redis",
            // Not the error's own words: they repeat the address, which may hold a password.
            reason: "the address of the lock is not a redis:// address".to_owned(),
        })?;
        // The braces keep both keys in one slot of a cluster.
        Ok(Self {
            client,
            connection: None,
            identity: identity.to_owned(),
            lock: format!("{{retryguard:{}}}:leader", lock.name),
            counter: format!("{{retryguard:{}}}:term", lock.name),
            term: lock.term,
            free_in: None,
        })
    }

    async fn connection(&mut self) -> redis::RedisResult<MultiplexedConnection> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let connection = self.client.get_multiplexed_async_connection().await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn take(&mut self) -> redis::RedisResult<(u64, String, i64)> {
        let mut connection = self.connection().await?;
        let millis = u64::try_from(self.term.as_millis()).unwrap_or(u64::MAX);
        Script::new(TAKE)
            .key(&self.lock)
            .key(&self.counter)
            .arg(&self.identity)
            .arg(millis)
            .arg(KEPT_FREE)
            .invoke_async(&mut connection)
            .await
    }

    fn trouble(&mut self, error: &redis::RedisError) -> ElectionError {
        // A broken connection is made anew at the next question.
        self.connection = None;
        ElectionError {
            backend: "redis",
            reason: error.category().to_owned(),
        }
    }
}

impl LeaderElection for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn every(&self) -> Duration {
        super::next_question(self.term / 3, self.free_in)
    }

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        Box::pin(async move {
            self.free_in = None;
            match self.take().await {
                Ok((0, leader, left)) => {
                    // A key without an end, which none of ours is, says nothing.
                    self.free_in = u64::try_from(left).ok().map(Duration::from_millis);
                    Ok(Leadership::Follower { leader: Some(leader) })
                }
                Ok((term, _, _)) => Ok(Leadership::Leader {
                    term,
                    lasts: self.term,
                }),
                Err(error) => Err(self.trouble(&error)),
            }
        })
    }

    fn resign(&mut self) -> ElectionAnswer<'_, ()> {
        Box::pin(async move {
            let result = async {
                let mut connection = self.connection().await?;
                let script = Script::new(RESIGN);
                let mut call = script.key(&self.lock);
                call.arg(&self.identity).invoke_async::<()>(&mut connection).await
            };
            result.await.map_err(|error| self.trouble(&error))
        })
    }
}
