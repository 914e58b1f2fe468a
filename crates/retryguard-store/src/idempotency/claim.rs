//! What a handler gets of the request's key.

use std::time::Duration;

use super::{Held, KeyId};
use crate::Backend;

/// The handler's hold on the key of its request, in the request's extensions: take it with axum's
/// `Extension<Claim>`, or `Option<Extension<Claim>>` where requests without a key are let in.
///
/// It makes effect and record one: write both in one transaction with [`Claim::complete_in`].
#[derive(Debug, Clone)]
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "only databases with transactions complete a claim")
)]
pub struct Claim {
    pub(super) held: Held,
    pub(super) backend: Backend,
    pub(super) keep: Duration,
    /// The largest response that may be stored.
    pub(super) limit: usize,
}

impl Claim {
    pub(super) const fn new(held: Held, backend: Backend, keep: Duration, limit: usize) -> Self {
        Self {
            held,
            backend,
            keep,
            limit,
        }
    }

    /// The key, scoped by principal and route: the same for every duplicate of the request. Where the effect is
    /// not in the store's database, make it unique there.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.held.id
    }

    /// The fencing token: whoever claims the key after us has a greater one.
    #[must_use]
    pub const fn token(&self) -> i64 {
        self.held.token
    }
}

/// A response that the handler has stored in its own transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completed;
