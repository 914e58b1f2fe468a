//! Keys in a SQL database: what SQLite and PostgreSQL have in common.

use std::{fmt, time::Duration};

use sqlx::{Database, Pool, pool::PoolConnection};

use super::{
    Asked, Held, IdempotencyStore, Open, Standing, StoreFuture, StoredResponse,
    machine::{self, TransactionalRecords},
};
use crate::{Backend, StoreError};

/// A store on a pool of connections that hold records.
pub(super) trait Pooled: fmt::Debug + Send + Sync + 'static {
    type Database: Database<Connection: TransactionalRecords>;

    fn connections(&self) -> &Pool<Self::Database>;

    /// The connections by which keys are forgotten.
    fn cleaner(&self) -> &Pool<Self::Database> {
        self.connections()
    }
}

/// Which backend a store is.
const fn backend<S: Pooled>() -> Backend {
    <<S::Database as Database>::Connection as TransactionalRecords>::BACKEND
}

async fn connection<S: Pooled>(store: &S) -> Result<PoolConnection<S::Database>, StoreError> {
    acquire::<S>(store.connections()).await
}

async fn acquire<S: Pooled>(pool: &Pool<S::Database>) -> Result<PoolConnection<S::Database>, StoreError> {
    let failed = |error| StoreError::from_sqlx(backend::<S>(), error);
    pool.acquire().await.map_err(failed)
}

impl<S: Pooled> IdempotencyStore for S {
    fn backend(&self) -> Backend {
        backend::<S>()
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(async move { machine::claim(&mut *connection(self).await?, asked).await })
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move { machine::complete(&mut *connection(self).await?, held, response, keep).await })
    }

    fn look(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(async move { machine::look(&mut *connection(self).await?, asked).await })
    }

    fn store<'a>(
        &'a self,
        open: &'a Open,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move { machine::store(&mut *connection(self).await?, open, response, keep).await })
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        Box::pin(async move { machine::release(&mut *connection(self).await?, held).await })
    }

    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        Box::pin(async move { acquire::<S>(self.cleaner()).await?.sweep(limit).await })
    }
}
