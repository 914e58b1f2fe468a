use std::time::Duration;

use redis::{Script, aio::ConnectionManager};

use super::{check_consumer, check_id};
use crate::{Backend, StoreError};

/// The mark and the effects in one script: Redis runs it whole or, where the mark is there, not at all. Each
/// effect comes as the number of its parts and the parts.
const APPLY: &str = "
if not redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return 0 end
local at = 2
while at <= #ARGV do
    local count = tonumber(ARGV[at])
    local answer = redis.pcall(unpack(ARGV, at + 1, at + count))
    if type(answer) == 'table' and answer.err then
        if at == 2 then redis.call('DEL', KEYS[1]) end
        return answer
    end
    at = at + count + 1
end
return 1";

/// The inbox of a consumer whose effects are in one Redis server.
///
/// Redis has no transaction that a program could keep open, so the effects are given as commands and run
/// together with the mark. A command that fails (a wrong type, a syntax error) ends the script where it is. Redis
/// rolls nothing back: where the first command fails the event stays unmarked, where a later one does the mark and
/// the effects before it stay. So put the only command that may fail first.
/// For effects elsewhere use the inbox of that database.
#[derive(Clone)]
pub struct RedisInbox {
    connection: ConnectionManager,
    consumer: String,
    keep: Duration,
    limit: Duration,
    script: Script,
}

impl RedisInbox {
    /// The most commands of one event.
    pub const MOST_COMMANDS: usize = 100;

    /// The inbox of the consumer with this name. Marks expire after `keep` (see [`KEEP`](super::KEEP)); no
    /// question takes longer than `limit`.
    ///
    /// # Errors
    /// Where the name is empty or too long.
    pub fn new(
        connection: ConnectionManager,
        consumer: impl Into<String>,
        keep: Duration,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let consumer = consumer.into();
        check_consumer(&consumer)?;
        Ok(Self {
            connection,
            consumer,
            keep,
            limit,
            script: Script::new(APPLY),
        })
    }

    /// Runs the commands if this consumer sees the event for the first time, and says whether it did. Where it
    /// does not answer in time the commands may have run: ask again with the same id.
    ///
    /// # Errors
    /// Where the id is empty or too long, there are too many commands, or Redis does not answer.
    pub async fn apply(&self, id: &str, commands: &[redis::Cmd]) -> Result<bool, StoreError> {
        check_id(id)?;
        if commands.len() > Self::MOST_COMMANDS {
            return Err(StoreError::TooLarge {
                what: "list of commands of an event",
                size: commands.len(),
                limit: Self::MOST_COMMANDS,
            });
        }
        let mut call = self.script.prepare_invoke();
        call.key(format!("retryguard:inbox:{}:{id}", self.consumer));
        call.arg(u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX).max(1));
        for command in commands {
            let parts: Vec<&[u8]> = command
                .args_iter()
                .map(|part| match part {
                    redis::Arg::Simple(part) => part,
                    // Only scans have one.
                    _ => b"0",
                })
                .collect();
            call.arg(parts.len());
            for part in parts {
                call.arg(part);
            }
        }
        let mut connection = self.connection.clone();
        match tokio::time::timeout(self.limit, call.invoke_async::<bool>(&mut connection)).await {
            Ok(answer) => answer.map_err(StoreError::from_redis),
            Err(_) => Err(StoreError::Slow {
                backend: Backend::Redis,
                waited: self.limit,
            }),
        }
    }
}

impl std::fmt::Debug for RedisInbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisInbox")
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}
