//! What is asked of Redis: one script for each change, and one question for each target after a connection.

use std::time::Duration;

use redis::{Script, Value, aio::MultiplexedConnection};

use super::{
    member::{Reply, Request},
    shared::Settings,
};

/// Notes an opening, unless another's stands. The epoch is the server's time and grows in any case, so that one
/// that was kept by a replica while the server lost its memory never comes again.
const OPEN: &str = "
local known = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
if known[1] and known[2] ~= ARGV[1] then
    return {'open', known[1], known[2], redis.call('PTTL', KEYS[1])}
end
local time = redis.call('TIME')
local epoch = tonumber(time[1]) * 1000000 + tonumber(time[2])
if known[1] and tonumber(known[1]) >= epoch then epoch = tonumber(known[1]) + 1 end
epoch = string.format('%.0f', epoch)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'owner', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], 'open ' .. epoch .. ' ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[4])
return {'open', epoch, ARGV[1], tonumber(ARGV[2])}";

/// Ends the opening of this epoch, unless another stands.
const CLOSE: &str = "
local known = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
if known[1] and known[1] ~= ARGV[1] then
    return {'open', known[1], known[2], redis.call('PTTL', KEYS[1])}
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], 'closed ' .. ARGV[1] .. ' ' .. ARGV[3])
return {'closed', ARGV[1]}";

const READ: &str = "
local known = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
if not known[1] then return {'nothing'} end
return {'open', known[1], known[2], redis.call('PTTL', KEYS[1])}";

pub(super) struct Scripts {
    open: Script,
    close: Script,
    read: Script,
    settings: Settings,
    me: String,
}

impl Scripts {
    pub(super) fn new(settings: Settings, me: String) -> Self {
        Self {
            open: Script::new(OPEN),
            close: Script::new(CLOSE),
            read: Script::new(READ),
            settings,
            me,
        }
    }

    pub(super) fn channel(&self) -> String {
        format!("{}:changes", self.settings.prefix)
    }

    pub(super) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        target: &str,
        request: &Request,
    ) -> redis::RedisResult<Reply> {
        let mut call = match request {
            Request::Open(left) => {
                let mut call = self.open.arg(&self.me);
                call.arg(millis(*left + self.settings.margin)).arg(self.channel());
                call
            }
            Request::Close(epoch) => {
                let mut call = self.close.arg(*epoch);
                call.arg(self.channel());
                call
            }
        };
        call.arg(target).key(self.key(target));
        answer(call.invoke_async(connection).await?)
    }

    pub(super) async fn read(
        &self,
        connection: &mut MultiplexedConnection,
        target: &str,
    ) -> redis::RedisResult<Reply> {
        let call = self.read.key(self.key(target)).invoke_async(connection).await?;
        answer(call)
    }

    fn key(&self, target: &str) -> String {
        format!("{}:target:{target}", self.settings.prefix)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn answer(value: Value) -> redis::RedisResult<Reply> {
    let parts: Vec<String> = redis::from_redis_value(value)?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(match parts[..] {
        ["open", epoch, owner, left] => open(epoch, owner, left),
        ["closed", epoch] => epoch.parse().map_or(Reply::Nothing, Reply::Closed),
        _ => Reply::Nothing,
    })
}

/// A message: the reply, and the target that it is about. `None` where it is not one of ours.
pub(super) fn message(text: &str) -> Option<(Reply, &str)> {
    let (kind, rest) = text.split_once(' ')?;
    let (epoch, rest) = rest.split_once(' ')?;
    match kind {
        "open" => {
            let (owner, rest) = rest.split_once(' ')?;
            let (left, target) = rest.split_once(' ')?;
            Some((open(epoch, owner, left), target))
        }
        "closed" => Some((Reply::Closed(epoch.parse().ok()?), rest)),
        _ => None,
    }
}

fn open(epoch: &str, owner: &str, left: &str) -> Reply {
    match (epoch.parse(), left.parse::<u64>()) {
        (Ok(epoch), Ok(left)) => Reply::Open(epoch, owner.to_owned(), Duration::from_millis(left)),
        // A key without an end, or one that another program wrote: such a key keeps no breaker open for ever.
        _ => Reply::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_nonsense_is_not() {
        let second = Duration::from_secs(1);
        assert_eq!(
            message("open 7 me 1000 a target"),
            Some((Reply::Open(7, "me".to_owned(), second), "a target"))
        );
        assert_eq!(message("closed 7 a target"), Some((Reply::Closed(7), "a target")));
        assert_eq!(message("open 7 me -1 a"), Some((Reply::Nothing, "a")));
        for nonsense in ["", "open", "open 7", "closed x a", "what 7 a", "open 7 me 10"] {
            assert_eq!(message(nonsense), None, "{nonsense}");
        }
    }
}
