//! What a handler gets of the request's key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Held, KeyId, Open};
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
    pub(super) hold: Hold,
    pub(super) backend: Backend,
    pub(super) keep: Duration,
    /// The largest response that may be stored.
    pub(super) limit: usize,
    /// Whether another request was faster.
    pub(super) lost: Lost,
}

/// How the key is held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hold {
    /// A record says so.
    Claimed(Held),
    /// No record yet: the transaction of the effect stores it.
    Open(Open),
}

/// Set when a claim could not be completed because another request was faster.
#[derive(Debug, Clone, Default)]
pub(super) struct Lost(Arc<AtomicBool>);

impl Lost {
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Claim {
    pub(super) const fn new(hold: Hold, backend: Backend, keep: Duration, limit: usize, lost: Lost) -> Self {
        Self {
            hold,
            lost,
            backend,
            keep,
            limit,
        }
    }

    /// The key, scoped by principal and route: the same for every duplicate of the request. Where the effect is
    /// not in the store's database, make it unique there.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        match &self.hold {
            Hold::Claimed(held) => held.id,
            Hold::Open(open) => open.asked.id,
        }
    }

    /// The fencing token: a later claim of the key has a greater one. None where the key is claimed in the
    /// transaction of the effect ([`super::IdempotencyLayer::in_transaction`]), which fences by itself.
    #[must_use]
    pub const fn token(&self) -> Option<i64> {
        match &self.hold {
            Hold::Claimed(held) => Some(held.token),
            Hold::Open(_) => None,
        }
    }
}

/// A response that the handler has stored in its own transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completed;
