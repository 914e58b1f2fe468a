use std::future::Future;

use super::Message;

/// Where events go: a queue, a broker, another service.
///
/// A closure from a [`Message`] to a future is one.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes one event. The worker asks for the next of the same key only after this one has succeeded, and
    /// gives up after [`Settings::publish_timeout`](super::Settings::publish_timeout).
    ///
    /// # Errors
    /// Whether another try can help.
    fn publish(&self, message: &Message) -> impl Future<Output = Result<(), PublishError>> + Send;
}

impl<F, R> Publisher for F
where
    F: Fn(Message) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), PublishError>> + Send,
{
    fn publish(&self, message: &Message) -> impl Future<Output = Result<(), PublishError>> + Send {
        self(message.clone())
    }
}

/// Why an event was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Another try may succeed.
    #[error("{0}")]
    Retry(String),
    /// No other try will: the event is parked at once.
    #[error("{0}")]
    Poison(String),
}

impl PublishError {
    /// Another try may succeed after this error.
    pub fn retry(error: impl std::fmt::Display) -> Self {
        Self::Retry(error.to_string())
    }

    /// No other try will succeed after this error.
    pub fn poison(error: impl std::fmt::Display) -> Self {
        Self::Poison(error.to_string())
    }
}
