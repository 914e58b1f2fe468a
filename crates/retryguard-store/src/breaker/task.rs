//! The task that listens: to this process's breakers, and to Redis.

use std::{collections::HashMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_core::Stream as _;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream},
};
use retryguard_core::breaker::{Handle, State};
use tokio::sync::mpsc;

use super::{
    member::{Member, Reply, Request},
    scripts::{self, Scripts},
    shared::Settings,
    telemetry,
};
use crate::clock;

/// What comes from this process.
pub(super) enum Input {
    Join(Arc<str>, Box<dyn Handle>),
    Changed(Arc<str>, State),
}

struct Connected {
    scripts: MultiplexedConnection,
    sink: PubSubSink,
    stream: PubSubStream,
}

/// Shares until it is aborted, or until no breaker is left to share.
pub(super) async fn run(client: Client, settings: Settings, mut inputs: mpsc::Receiver<Input>) {
    let me = clock::random_id();
    let mut replica = Replica {
        scripts: Scripts::new(settings.clone(), me.clone()),
        settings,
        members: HashMap::new(),
        me,
    };
    let mut failures = 0;
    loop {
        match replica.connect(&client).await {
            Ok(mut connected) => {
                failures = 0;
                telemetry::connected(true);
                if let Err(error) = replica.share(&mut connected, &mut inputs).await {
                    tracing::warn!(target: "retryguard", %error, "shared breakers go on alone");
                } else {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(target: "retryguard", %error, "shared breakers: Redis is away");
            }
        }
        telemetry::connected(false);
        failures += 1;
        let backoff = &replica.settings.backoff;
        let wait = backoff
            .delay(failures, Duration::ZERO, &mut clock::Random)
            .unwrap_or(backoff.cap);
        // Never at once, whatever is drawn.
        clock::sleep(wait.max(Duration::from_millis(10))).await;
        // What changed meanwhile is sent by the comparison that begins the next connection.
        while let Ok(input) = inputs.try_recv() {
            replica.note(input);
        }
    }
}

struct Replica {
    scripts: Scripts,
    settings: Settings,
    members: HashMap<Arc<str>, Member>,
    me: String,
}

impl Replica {
    async fn connect(&self, client: &Client) -> RedisResult<Connected> {
        let limit = self.settings.limit;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(limit));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let scripts = within(limit, connection).await?;
        let (mut sink, stream) = within(limit, client.get_async_pubsub()).await?.split();
        within(limit, sink.subscribe(self.scripts.channel())).await?;
        Ok(Connected {
            scripts,
            sink,
            stream,
        })
    }

    /// Ends with an error when Redis does not answer, and without one when this process has nothing to say.
    async fn share(
        &mut self,
        connected: &mut Connected,
        inputs: &mut mpsc::Receiver<Input>,
    ) -> RedisResult<()> {
        // The subscription stands already, so nothing is missed between the comparison and the first message.
        let names: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for name in names {
            self.rejoin(connected, &name).await?;
        }
        loop {
            tokio::select! {
                input = inputs.recv() => match input {
                    None => return Ok(()),
                    Some(Input::Changed(name, state)) => self.on_change(connected, &name, state).await?,
                    Some(input) => {
                        if let Some(name) = self.note(input) {
                            self.rejoin(connected, &name).await?;
                        }
                    }
                },
                message = next(&mut connected.stream) => self.on_message(&message?),
                () = clock::sleep(self.settings.ping) => {
                    within(self.settings.limit, connected.sink.ping::<redis::Value>()).await?;
                }
            }
        }
    }

    /// Takes up a target that joins; answers its name.
    fn note(&mut self, input: Input) -> Option<Arc<str>> {
        match input {
            Input::Join(name, breaker) => {
                let member = Member::new(breaker, self.me.clone());
                self.members.insert(name.clone(), member);
                Some(name)
            }
            Input::Changed(..) => None,
        }
    }

    async fn rejoin(&mut self, connected: &mut Connected, name: &str) -> RedisResult<()> {
        let read = self.scripts.read(&mut connected.scripts, name);
        let reply = within(self.settings.limit, read).await;
        telemetry::called("rejoin", reply.is_ok());
        let reply = reply?;
        let Some(member) = self.members.get_mut(name) else {
            return Ok(());
        };
        let (adopted, request) = member.on_rejoin(reply);
        adopted.inspect(|to| telemetry::adopted(name, *to));
        match request {
            Some(request) => self.send(connected, name, &request).await,
            None => Ok(()),
        }
    }

    async fn on_change(&mut self, connected: &mut Connected, name: &str, state: State) -> RedisResult<()> {
        match self
            .members
            .get_mut(name)
            .and_then(|member| member.on_change(state))
        {
            Some(request) => self.send(connected, name, &request).await,
            None => Ok(()),
        }
    }

    async fn send(&mut self, connected: &mut Connected, name: &str, request: &Request) -> RedisResult<()> {
        let call = self.scripts.send(&mut connected.scripts, name, request);
        let answer: RedisResult<Reply> = within(self.settings.limit, call).await;
        let kind = match request {
            Request::Open(_) => "open",
            Request::Close(_) => "close",
        };
        telemetry::called(kind, answer.is_ok());
        let answer = answer?;
        if let Some(member) = self.members.get_mut(name) {
            member
                .on_answer(answer)
                .inspect(|to| telemetry::adopted(name, *to));
        }
        Ok(())
    }

    fn on_message(&mut self, message: &redis::Msg) {
        let Ok(text) = message.get_payload::<String>() else {
            return;
        };
        if let Some((reply, name)) = scripts::message(&text)
            && let Some(member) = self.members.get_mut(name)
        {
            member.on_reply(reply).inspect(|to| telemetry::adopted(name, *to));
        }
    }
}

async fn next(stream: &mut PubSubStream) -> RedisResult<redis::Msg> {
    let message = std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await;
    message.ok_or_else(|| RedisError::from((ErrorKind::Io, "the subscription has ended")))
}

async fn within<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "no answer in time"))))
}
