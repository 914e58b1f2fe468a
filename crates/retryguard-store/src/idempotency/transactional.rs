//! Effect and record in one transaction.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use sqlx::{Database, Transaction};

use super::{
    Claim, StoredResponse,
    claim::{Completed, Hold, Lost},
    machine::{Change, TransactionalRecords, Version},
    store::no_transactions,
};
use crate::{Backend, Statement, StoreError};

/// Only databases whose records this crate writes can complete a claim.
pub trait Sealed {}

/// A connection of a database that can hold a claim: SQLite's and PostgreSQL's.
pub trait Transactional: Sealed {
    /// Which database it is.
    const BACKEND: Backend;

    /// Executes a statement of this crate and says how many rows it changed.
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

impl<C: TransactionalRecords> Sealed for C {}

impl<C: TransactionalRecords> Transactional for C {
    const BACKEND: Backend = <C as TransactionalRecords>::BACKEND;

    async fn execute(&mut self, statement: &Statement) -> Result<u64, StoreError> {
        TransactionalRecords::execute(self, statement).await
    }
}

/// A database whose transactions can hold a claim: [`sqlx::Sqlite`] and [`sqlx::Postgres`].
pub trait CommittingDatabase: Database<Connection: Transactional> {
    /// Executes a statement of this crate as the last of the transaction, and says how many rows it changed. Commits where
    /// it is one row, and rolls back otherwise.
    fn finish(
        transaction: Transaction<'static, Self>,
        statement: &Statement,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

impl Claim {
    /// Stores the response in the caller's transaction, commits it, and hands the response back. This is
    /// [`Claim::complete_in`] and the commit in one: on PostgreSQL (12 or later) both are one round trip where the key was seen
    /// open ([`super::IdempotencyLayer::in_transaction`]) and the response has no more than 8 KiB.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")] mod page {
    /// use axum::body::Body;
    /// use http::Response;
    /// use retryguard_store::idempotency::Claim;
    ///
    /// async fn pay(claim: Claim, pool: sqlx::PgPool) -> Result<Response<Body>, Box<dyn std::error::Error>> {
    ///     let mut transaction = pool.begin().await?;
    ///     sqlx::query("INSERT INTO payments (cents) VALUES (1000)").execute(&mut *transaction).await?;
    ///     Ok(claim.commit(transaction, Response::new("paid")).await?)
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Claim::complete_in`], and those of the commit. The transaction is rolled back then, unless the connection
    /// was lost while it was being committed: what became of it is not known, and a duplicate finds out.
    pub async fn commit<D, T, B>(
        &self,
        transaction: Transaction<'static, D>,
        response: Response<T>,
    ) -> Result<Response<B>, StoreError>
    where
        D: CommittingDatabase,
        T: Into<Bytes>,
        B: From<Bytes>,
    {
        self.check_database(D::Connection::BACKEND)?;
        let completion = self.completion(response)?;
        let rows = D::finish(transaction, completion.statement()).await?;
        completion.executed(rows)
    }

    /// Stores the response in the caller's transaction and hands it back, to be returned once the transaction is
    /// committed. Effect and record are then one: both are there or neither is, whichever process ends at any moment.
    ///
    /// ```no_run
    /// # #[cfg(feature = "sqlite")] mod page {
    /// use axum::{Extension, body::Body};
    /// use http::Response;
    /// use retryguard_store::{StoreError, idempotency::Claim};
    ///
    /// async fn pay(claim: Claim, pool: sqlx::SqlitePool) -> Result<Response<Body>, Box<dyn std::error::Error>> {
    ///     let mut transaction = retryguard_store::sqlite::begin(&pool).await?;
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
        self.check_database(C::BACKEND)?;
        let completion = self.completion(response)?;
        let rows = connection.execute(completion.statement()).await?;
        completion.executed(rows)
    }

    /// The same for a driver other than sqlx: the statement that stores the response, to be executed in the caller's
    /// transaction, and the response, to be had for the number of rows that it changed.
    ///
    /// ```no_run
    /// # #[cfg(feature = "sqlite")] mod page {
    /// use http::Response;
    /// use retryguard_store::{Statement, StoreError, idempotency::Claim};
    ///
    /// # trait AnyDriver { fn execute(&mut self, statement: &Statement) -> u64; fn commit(self); }
    /// fn pay(claim: &Claim, mut transaction: impl AnyDriver) -> Result<Response<String>, StoreError> {
    ///     let completion = claim.completion(Response::new("paid".to_owned()))?;
    ///     let rows = transaction.execute(completion.statement());
    ///     let response = completion.executed(rows)?;
    ///     transaction.commit();
    ///     Ok(response.map(|body: bytes::Bytes| String::from_utf8_lossy(&body).into_owned()))
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], and [`StoreError::Refused`] where the keys are not in a database with transactions.
    pub fn completion<T, B>(&self, response: Response<T>) -> Result<Completion<B>, StoreError>
    where
        T: Into<Bytes>,
        B: From<Bytes>,
    {
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
        let statement = match self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => statement::<sqlx::SqliteConnection>(&self.hold, &stored, self.keep),
            #[cfg(feature = "postgres")]
            Backend::Postgres => statement::<sqlx::PgConnection>(&self.hold, &stored, self.keep),
            other => return Err(no_transactions(other)),
        };
        head.extensions.insert(Completed);
        Ok(Completion {
            statement,
            response: Response::from_parts(head, body.into()),
            lost: self.lost.clone(),
        })
    }
}

impl Claim {
    fn check_database(&self, transaction: Backend) -> Result<(), StoreError> {
        if self.backend == transaction {
            return Ok(());
        }
        Err(StoreError::OtherDatabase {
            claim: self.backend,
            transaction,
        })
    }
}

fn statement<C: TransactionalRecords>(hold: &Hold, stored: &StoredResponse, keep: Duration) -> Statement {
    match hold {
        Hold::Claimed(held) => C::replacement(held.id, Version::held(*held), Change::Complete(stored, keep)),
        Hold::Open(open) => C::storage(open, stored, keep),
    }
}

/// The completion of a claim that a driver other than sqlx executes: see [`Claim::completion`].
#[derive(Debug)]
#[must_use = "the claim is completed by executing the statement"]
pub struct Completion<B> {
    statement: Statement,
    response: Response<B>,
    lost: Lost,
}

impl<B> Completion<B> {
    /// What to execute.
    #[must_use]
    pub const fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The response, to be returned once the transaction is committed, where the statement has changed one row.
    ///
    /// # Errors
    /// [`StoreError::ClaimLost`] where it has changed none: roll back and answer with any 5xx.
    pub fn executed(self, rows: u64) -> Result<Response<B>, StoreError> {
        if rows == 1 {
            return Ok(self.response);
        }
        self.lost.set();
        Err(StoreError::ClaimLost)
    }
}
