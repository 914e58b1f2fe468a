//! A loop for the messages of a broker, each with its effect once.

use std::{borrow::Cow, fmt, pin::Pin, time::Duration};

use retryguard_core::{
    Ratio,
    backoff::{Backoff, Growth, Jitter},
};

use crate::{StoreError, clock};

/// A message as a broker delivers it.
pub trait Delivery {
    /// What names the message to this consumer. It must be the same whenever the message is delivered again: a header that
    /// its producer wrote (the outbox's [`Message::id`](crate::outbox::Message)), or topic, partition and offset.
    fn id(&self) -> Cow<'_, str>;

    /// How often it was delivered before, where the broker counts.
    fn delivered_before(&self) -> u32 {
        0
    }
}

/// Where messages come from.
///
/// The broker is behind this trait, so this crate depends on no client. Kafka and SQS differ in one thing that
/// matters here: what becomes of a message whose effect failed. [`Source::failed`] decides it.
///
/// | broker | [`Source::receive`] | [`Source::acknowledge`] | [`Source::failed`] |
/// | --- | --- | --- | --- |
/// | a log (Kafka, `rdkafka`'s `StreamConsumer`) | `recv` | `store_offset_from_message` or `commit_message` | gives the message back, so that it is tried again before the next of its partition; after the last try it sends it to a dead-letter topic |
/// | a queue (SQS) | `receive_message` | `delete_message` | `change_message_visibility` to the wait, and nothing back: the queue delivers it again |
pub trait Source {
    /// A message.
    type Message: Delivery + Send + Sync;
    /// What the broker's client reports.
    type Error;

    /// Waits for the next message; none where there will be no more. Dropping the future must not lose a message.
    fn receive(&mut self) -> impl Future<Output = Result<Option<Self::Message>, Self::Error>> + Send;

    /// The effect of the message is committed, now or by an earlier delivery: it need not come again.
    fn acknowledge(&mut self, message: Self::Message)
    -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The effect of the message failed and was rolled back. Answers the message where it is to be tried again after
    /// [`Failure::wait`], before any other; none where the broker delivers it again or it was put aside.
    fn failed(
        &mut self,
        message: Self::Message,
        failure: &Failure,
    ) -> impl Future<Output = Result<Option<Self::Message>, Self::Error>> + Send;
}

/// How an effect failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// How often it has failed, earlier deliveries included.
    pub tries: u32,
    /// Whether that is as often as it may: put the message aside.
    pub last: bool,
    /// The wait before the next try.
    pub wait: Duration,
    /// What the handler reported.
    pub error: String,
}

/// An inbox whose marks are in the database of the effects.
pub trait TransactionalInbox: Sync {
    /// The transaction of the effect.
    type Transaction: Send;

    /// Begins a transaction and marks the message in it; none where it is marked already.
    fn begin(&self, id: &str) -> impl Future<Output = Result<Option<Self::Transaction>, StoreError>> + Send;

    /// Commits mark and effect.
    fn commit(&self, transaction: Self::Transaction) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What a delivery was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The first: its effect is committed.
    First,
    /// One that had its effect before: nothing was done.
    Again,
}

/// Why a message had no effect. It may have been committed only where the error is of the store.
#[derive(Debug, thiserror::Error)]
pub enum OnceError<E> {
    /// The handler failed, and everything was rolled back.
    #[error("{0}")]
    Handler(E),
    /// The database failed.
    #[error(transparent)]
    Store(StoreError),
}

/// An effect under way. Boxed, because it borrows the transaction and has to be sent between threads.
pub type Effect<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'a>>;

/// Has an effect once for each id: mark and effect are one transaction. This is the function for a consumer with a loop of
/// its own.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool, id: &str) -> Result<(), Box<dyn std::error::Error>> {
/// use retryguard_store::inbox::{SqliteInbox, once};
///
/// let inbox = SqliteInbox::new("mailer")?.on(pool);
/// once(&inbox, id, |transaction| {
///     Box::pin(async move {
///         let mail = sqlx::query("INSERT INTO mails (order_id) VALUES (17)");
///         mail.execute(&mut **transaction).await.map(drop)
///     })
/// })
/// .await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Where the handler or the database fails. Deliver the message again then: if its effect was committed all the same, the
/// next call answers [`Delivered::Again`].
pub async fn once<I, E>(
    inbox: &I,
    id: &str,
    effect: impl for<'a> FnOnce(&'a mut I::Transaction) -> Effect<'a, E>,
) -> Result<Delivered, OnceError<E>>
where
    I: TransactionalInbox,
{
    let Some(mut transaction) = inbox.begin(id).await.map_err(OnceError::Store)? else {
        return Ok(Delivered::Again);
    };
    effect(&mut transaction).await.map_err(OnceError::Handler)?;
    inbox.commit(transaction).await.map_err(OnceError::Store)?;
    Ok(Delivered::First)
}

/// Receives messages, has their effects once and acknowledges them, one after the other. Run one for each partition or
/// receiver: any number of them may share an inbox.
pub struct Consumer<S, I, H> {
    source: S,
    inbox: I,
    handler: H,
    tries: u32,
    backoff: Backoff,
}

/// Ten failures of a message are reported as the last; waits grow from 100 ms to a minute.
const TRIES: u32 = 10;
const BACKOFF: Backoff = Backoff {
    growth: Growth::Exponential(Ratio::percent(300)),
    initial: Duration::from_millis(100),
    cap: Duration::from_secs(60),
    jitter: Jitter::Equal,
    stop_beyond: None,
};

impl<S: Source, I: TransactionalInbox, H> Consumer<S, I, H> {
    /// A consumer whose handler writes the effect in the transaction that it is given, and nowhere else.
    #[must_use]
    pub fn new<E>(source: S, inbox: I, handler: H) -> Self
    where
        H: for<'a> Fn(&'a mut I::Transaction, &'a S::Message) -> Effect<'a, E>,
    {
        Self {
            source,
            inbox,
            handler,
            tries: TRIES,
            backoff: BACKOFF,
        }
    }

    /// How often a message may fail until [`Failure::last`] says so. Default: 10.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// The waits between the tries of a message, and between tries of a database that does not answer. Default: 100 ms,
    /// tripling to a minute, half of it by chance.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Works until `stop` ends or the source has no more, and gives the source back. A message that was received is brought
    /// to its end first; one that waits for another try is left to the broker, which delivers it again.
    ///
    /// # Errors
    /// What the source reports. A message whose acknowledgement failed comes again and has no second effect.
    pub async fn run<E>(self, stop: impl Future<Output = ()>) -> Result<S, S::Error>
    where
        H: for<'a> Fn(&'a mut I::Transaction, &'a S::Message) -> Effect<'a, E>,
        E: fmt::Display,
    {
        let Self {
            mut source,
            inbox,
            handler,
            tries,
            backoff,
        } = self;
        let wait = |failures| {
            let wait = backoff.delay(failures, Duration::ZERO, &mut clock::Random);
            wait.unwrap_or(backoff.cap)
        };
        let mut stop = std::pin::pin!(stop);
        loop {
            let received = tokio::select! {
                biased;
                () = &mut stop => return Ok(source),
                received = source.receive() => received?,
            };
            let Some(mut message) = received else {
                return Ok(source);
            };
            let mut failures = 0;
            loop {
                let pause = match attempt(&inbox, &handler, &message).await {
                    Ok(_) => {
                        source.acknowledge(message).await?;
                        break;
                    }
                    // Not the message's fault, so it does not count.
                    Err(OnceError::Store(error)) => {
                        tracing::warn!(target: "retryguard", %error, "the inbox of a consumer failed");
                        wait(1)
                    }
                    Err(OnceError::Handler(error)) => {
                        failures += 1;
                        let all = message.delivered_before().saturating_add(failures);
                        let failure = Failure {
                            tries: all,
                            last: all >= tries,
                            wait: wait(all),
                            error: error.to_string(),
                        };
                        let Some(again) = source.failed(message, &failure).await? else {
                            break;
                        };
                        message = again;
                        failure.wait
                    }
                };
                tokio::select! {
                    biased;
                    () = &mut stop => return Ok(source),
                    () = clock::sleep(pause) => {}
                }
            }
        }
    }
}

/// As [`once`]. A closure around the handler would have to promise that the message outlives every transaction.
async fn attempt<I, M, H, E>(inbox: &I, handler: &H, message: &M) -> Result<Delivered, OnceError<E>>
where
    I: TransactionalInbox,
    M: Delivery,
    H: for<'a> Fn(&'a mut I::Transaction, &'a M) -> Effect<'a, E>,
{
    let begun = inbox.begin(&message.id()).await.map_err(OnceError::Store)?;
    let Some(mut transaction) = begun else {
        return Ok(Delivered::Again);
    };
    handler(&mut transaction, message)
        .await
        .map_err(OnceError::Handler)?;
    inbox.commit(transaction).await.map_err(OnceError::Store)?;
    Ok(Delivered::First)
}

impl<S, I, H> fmt::Debug for Consumer<S, I, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Consumer");
        debug.field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// An inbox with the pool that the transactions come from.
#[derive(Debug, Clone)]
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub struct PooledInbox<I, P> {
    pub(super) inbox: I,
    pub(super) pool: P,
}
