//! Reads what HTTP, gRPC and the network say as an [`Outcome`].
//!
//! By the rules for safe clients: client errors are never retried, used-up quotas never, server errors and
//! network errors yes, timeouts too (budget, guard and idempotency are the care that they need), 429 and 503
//! by their Retry-After. Three readings are kept apart, because they answer three questions: is another
//! attempt worth it (`retryable`), is the failure a sign of overload (`rejection`, what the guard and the
//! throttle count), is the target unwell (`unhealthy`, what the breaker counts).

mod signal;
mod table;

use std::sync::Arc;

use retryguard_core::outcome::{Failure, FailureKind, Hints, Outcome};

pub use signal::GRPC_STATUS;
pub(crate) use signal::Signal;
pub(crate) use table::{Lists, Reading, Table};

/// What a network did instead of delivering an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetworkError {
    /// No connection came about, so the request certainly never left.
    Connect,
    /// The target's HTTP layer refused the request before it was processed (REFUSED_STREAM, or a GOAWAY whose last
    /// stream is an earlier one), or the connection ended before the request was written.
    Unprocessed,
    /// The client itself refused the request: it cannot be sent as it is, now or later.
    Invalid,
    /// The connection broke while the request was under way.
    Reset,
    /// No answer came in time.
    Timeout,
    /// The caller gave up.
    Cancelled,
    /// Anything else below the protocol. Read as a broken connection: the request may have been carried out.
    Other,
}

/// The readings of one service's policy.
///
/// One pointer to a table that is made when the policy is compiled, so that a request costs a look-up and
/// no allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classifier(Arc<Table>);

impl Classifier {
    pub(crate) fn new(table: Table) -> Self {
        Self(Arc::new(table))
    }

    /// Reads an HTTP status. Below 400 is success; gRPC hides its failures behind 200, so a gRPC driver asks
    /// [`Classifier::grpc`] with the status of the trailers instead.
    #[inline]
    #[must_use]
    pub fn http(&self, status: u16, hints: Hints) -> Outcome {
        if (100..400).contains(&status) {
            return Outcome::Success;
        }
        const TOO_MANY_REQUESTS: u16 = 429;
        Outcome::Failure(marked(self.0.http(status), hints, status == TOO_MANY_REQUESTS))
    }

    /// Reads a gRPC status code. Codes above 16 are read as UNKNOWN, as the protocol asks.
    #[inline]
    #[must_use]
    pub fn grpc(&self, code: u8, hints: Hints) -> Outcome {
        if code == 0 {
            return Outcome::Success;
        }
        const RESOURCE_EXHAUSTED: u8 = 8;
        Outcome::Failure(marked(self.0.grpc(code), hints, code == RESOURCE_EXHAUSTED))
    }

    /// Reads a failure of the network.
    #[inline]
    #[must_use]
    pub fn network(&self, error: NetworkError) -> Outcome {
        let kind = match error {
            NetworkError::Connect | NetworkError::Unprocessed => FailureKind::Unreachable,
            NetworkError::Invalid => FailureKind::Request,
            NetworkError::Reset | NetworkError::Other => FailureKind::Disconnected,
            NetworkError::Timeout => FailureKind::Timeout,
            NetworkError::Cancelled => FailureKind::Cancelled,
        };
        let hints = Hints {
            never_sent: matches!(error, NetworkError::Connect | NetworkError::Unprocessed),
            ..Hints::NONE
        };
        Outcome::Failure(self.0.kind(kind).with_hints(hints))
    }

    /// How an attempt is read that ran out of the time its policy gave it.
    #[must_use]
    pub fn timeout(&self) -> Failure {
        self.0.kind(FailureKind::Timeout)
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0
    }
}

impl Default for Classifier {
    fn default() -> Self {
        Self::new(Table::new(&Lists::default()))
    }
}

/// The overload mark is a sign of overload whatever it came with: a server that sheds behind a 500 is still one
/// that sheds.
///
/// `limits_callers` is for 429 and RESOURCE_EXHAUSTED without the mark. They count as load, yet they are most often
/// the limit of one user or one key, given by a target that is well: its Retry-After must not close the
/// target for other users, and its failures must not open the breaker for them.
fn marked(mut failure: Failure, mut hints: Hints, limits_callers: bool) -> Failure {
    if hints.do_not_retry && !hints.caller_only {
        failure.rejection = true;
    } else if limits_callers {
        hints.caller_only = true;
        failure.unhealthy = false;
    }
    failure.with_hints(hints)
}

#[cfg(test)]
mod tests;
