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

/// Answers `[term, holder, milliseconds left, who asked for it]`; the term is 0 where another controller holds it.
const TAKE: &str = r"
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  local asked_by = redis.call('GET', KEYS[3]) or ''
  redis.call('DEL', KEYS[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {tonumber(redis.call('GET', KEYS[2]) or '0'), holder, tonumber(ARGV[2]), asked_by}
end
if holder then
  if ARGV[4] == '1' then
    redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
  end
  return {0, holder, redis.call('PTTL', KEYS[1]), ''}
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], '0')
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
  return {0, ARGV[3], tonumber(ARGV[2]), ''}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {redis.call('INCR', KEYS[2]), ARGV[1], tonumber(ARGV[2]), ''}
";

const HAND_OVER: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
  redis.call('DEL', KEYS[3])
  return redis.call('INCR', KEYS[2])
end
return 0
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
    /// The key that names a controller which asks for the lock.
    request: String,
    asks: bool,
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
        // The braces keep the keys in one slot of a cluster.
        Ok(Self {
            client,
            connection: None,
            identity: identity.to_owned(),
            lock: format!("{{retryguard:{}}}:leader", lock.name),
            counter: format!("{{retryguard:{}}}:term", lock.name),
            request: format!("{{retryguard:{}}}:request", lock.name),
            asks: false,
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

    async fn take(&mut self) -> redis::RedisResult<(u64, String, i64, String)> {
        let mut connection = self.connection().await?;
        Script::new(TAKE)
            .key(&self.lock)
            .key(&self.counter)
            .key(&self.request)
            .arg(&self.identity)
            .arg(self.millis())
            .arg(KEPT_FREE)
            .arg(u8::from(self.asks))
            .invoke_async(&mut connection)
            .await
    }

    async fn give(&mut self, to: &str) -> redis::RedisResult<()> {
        let mut connection = self.connection().await?;
        Script::new(HAND_OVER)
            .key(&self.lock)
            .key(&self.counter)
            .key(&self.request)
            .arg(&self.identity)
            .arg(self.millis())
            .arg(to)
            .invoke_async(&mut connection)
            .await
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.term.as_millis()).unwrap_or(u64::MAX)
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

    fn ask(&mut self, asks: bool) {
        self.asks = asks;
    }

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        Box::pin(async move {
            self.free_in = None;
            match self.take().await {
                Ok((0, leader, left, _)) => {
                    // A key without an end, which none of ours is, says nothing.
                    self.free_in = u64::try_from(left).ok().map(Duration::from_millis);
                    Ok(Leadership::Follower { leader: Some(leader) })
                }
                Ok((term, _, _, asked_by)) => Ok(Leadership::Leader {
                    term,
                    lasts: self.term,
                    asked_by: super::by_another(asked_by, &self.identity),
                }),
                Err(error) => Err(self.trouble(&error)),
            }
        })
    }

    fn hand_over<'a>(&'a mut self, to: &'a str) -> ElectionAnswer<'a, ()> {
        Box::pin(async move {
            let given = self.give(to).await;
            given.map_err(|error| self.trouble(&error))
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
