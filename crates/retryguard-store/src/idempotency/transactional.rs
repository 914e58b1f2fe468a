//! Effect and record in one transaction.

use std::time::Duration;

use bytes::Bytes;
use http::Response;

use super::{
    Claim, Held, Open, StoredResponse,
    claim::{Completed, Hold},
};
use crate::{Backend, StoreError};

/// Only databases whose records this crate writes can complete a claim.
pub trait Sealed {}

/// A connection of a database that can hold a claim: SQLite's and PostgreSQL's.
pub trait Transactional: Sealed {
    /// Which database it is.
    const BACKEND: Backend;

    /// Stores the response, if the key is still the caller's.
    fn complete(
        &mut self,
        held: Held,
        response: &StoredResponse,
        keep: Duration,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Stores the response for a key that was seen open, if it still is.
    fn store(
        &mut self,
        open: &Open,
        response: &StoredResponse,
        keep: Duration,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

impl Claim {
    /// Stores the response in the caller's transaction and hands it back, to be returned once the transaction is
    /// committed. Effect and record are then one: both are there or neither is, whatever dies when.
    ///
    /// ```no_run
    /// # #[cfg(feature = "sqlite")] mod page {
    /// use axum::{Extension, body::Body};
    /// use http::Response;
    /// use retryguard_store::{StoreError, idempotency::Claim};
    ///
    /// async fn pay(claim: Claim, pool: sqlx::SqlitePool) -> Result<Response<Body>, Box<dyn std::error::Error>> {
    ///     // Immediate, because a SQLite transaction that first reads and then writes may find that another
    ///     // has written in between.
    ///     let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    ///     sqlx::query("INSERT INTO payments (cents) VALUES (1000)").execute(&mut *transaction).await?;
    ///     let response = claim.complete_in(&mut *transaction, Response::new("paid")).await?;
    ///     transaction.commit().await?;
    ///     Ok(response)
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::ClaimLost`] when another request has taken the key over meanwhile: roll back and answer with
    /// any 5xx. The layer then sends the other's response, or lets the client come back for it. [`StoreError::OtherDatabase`]
    /// and [`StoreError::TooLarge`] are mistakes of the program; otherwise the database's own.
    pub async fn complete_in<C, T, B>(
        &self,
        connection: &mut C,
        response: Response<T>,
    ) -> Result<Response<B>, StoreError>
    where
        C: Transactional,
        T: Into<Bytes>,
        B: From<Bytes>,
    {
        if self.backend != C::BACKEND {
            return Err(StoreError::OtherDatabase {
                claim: self.backend,
                transaction: C::BACKEND,
            });
        }
        let (mut head, body) = response.into_parts();
        let body = body.into();
        let stored = StoredResponse::of(&head, Some(body.clone()));
        if stored.size() > self.limit {
            return Err(StoreError::TooLarge {
                what: "response",
                size: stored.size(),
                limit: self.limit,
            });
        }
        let completed = match &self.hold {
            Hold::Claimed(held) => connection.complete(*held, &stored, self.keep).await?,
            Hold::Open(open) => connection.store(open, &stored, self.keep).await?,
        };
        if !completed {
            self.lost.set();
            return Err(StoreError::ClaimLost);
        }
        head.extensions.insert(Completed);
        Ok(Response::from_parts(head, body.into()))
    }
}
