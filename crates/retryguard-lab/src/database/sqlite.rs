//! One SQLite file for each service. One connection writes; SQLite has no more than one writer anyway, and so
//! no writer finds the file busy.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::body::Body;
use http::Response;
use retryguard_store::outbox::{Event, SqliteOutbox};
use sqlx::{
    Sqlite as Engine, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use tokio::sync::Notify;

use super::{
    DatabaseError, Finish, Item, Reservation, Reserved,
    reservation::{Lock, StockResult, written},
    statements::statements,
};
use crate::{clock, name::Name};

/// The database of one service.
#[derive(Debug, Clone)]
pub struct Sqlite {
    pool: SqlitePool,
    /// Notified when rows of this process are freed, so that waiting requests need not poll.
    freed: Arc<Notify>,
}

/// How soon a request that waits for a locked row looks again without a notification: the holder may be another process, or may have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL, amount INTEGER NOT NULL,
    status TEXT NOT NULL, at INTEGER NOT NULL, key TEXT UNIQUE);
CREATE INDEX IF NOT EXISTS orders_by_reference ON orders (reference);
CREATE TABLE IF NOT EXISTS charges (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL, amount INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stock (
    sku INTEGER PRIMARY KEY, quantity INTEGER NOT NULL CHECK (quantity >= 0), holder INTEGER,
    held_until INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS reservations (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL, sku INTEGER NOT NULL, quantity INTEGER NOT NULL,
    at INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS off_the_shelf AFTER INSERT ON reservations BEGIN
    UPDATE stock SET quantity = quantity - NEW.quantity, holder = NULL WHERE sku = NEW.sku; END;
CREATE TABLE IF NOT EXISTS notifications (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL, at INTEGER NOT NULL);
";

statements!(Sqlite);

impl Sqlite {
    /// Opens the file of a service, and makes its tables.
    ///
    /// # Errors
    /// Where the folder cannot be written.
    pub async fn open(folder: &Path, name: Name) -> anyhow::Result<Self> {
        let path = folder.join(format!("{name}.sqlite"));
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // A crash of the machine ends an experiment anyway; a killed process loses nothing by this.
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options)
            .await
            .with_context(|| format!("cannot open the database {}", path.display()))?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self {
            pool,
            freed: Arc::default(),
        })
    }

    /// The connections, for what is written in one transaction with the rows of others.
    #[must_use]
    pub const fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Makes a charge; the answer is made from its number.
    pub(crate) async fn charge(
        &self,
        reference: &str,
        amount: i64,
        finish: impl FnOnce(i64) -> Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        let mut transaction = self.begin().await?;
        let number: i64 = sqlx::query_scalar(
            "INSERT INTO charges (reference, amount, at) VALUES (?, ?, ?) RETURNING number",
        )
        .bind(reference)
        .bind(amount)
        .bind(clock::wall_millis())
        .fetch_one(&mut *transaction)
        .await?;
        let response = finish(number).write(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(response)
    }

    /// Records that a customer was notified.
    pub(crate) async fn notify(
        &self,
        reference: &str,
        finish: Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        let mut transaction = self.begin().await?;
        sqlx::query("INSERT INTO notifications (reference, at) VALUES (?, ?)")
            .bind(reference)
            .bind(clock::wall_millis())
            .execute(&mut *transaction)
            .await?;
        let response = finish.write(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(response)
    }

    /// Notes that an order is paid, with the event that its customer is to be told where there is an outbox.
    pub(crate) async fn conclude(
        &self,
        number: i64,
        event: Option<(&SqliteOutbox, &Event)>,
        finish: Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE orders SET status = 'paid' WHERE number = ?")
            .bind(number)
            .execute(&mut *transaction)
            .await?;
        if let Some((outbox, event)) = event {
            outbox.put(&mut transaction, event).await?;
        }
        let response = finish.write(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(response)
    }

    /// `IMMEDIATE`: a transaction that reads first and writes later may find that another has written in between.
    async fn begin(&self) -> sqlx::Result<Transaction<'static, Engine>> {
        self.pool.begin_with("BEGIN IMMEDIATE").await
    }

    /// Fills the shelves, unless they are filled.
    pub(crate) async fn stock_up(&self, goods: u32, each: i64) -> sqlx::Result<()> {
        sqlx::query(
            "WITH RECURSIVE shelf (sku) AS (SELECT 0 UNION ALL SELECT sku + 1 FROM shelf WHERE sku + 1 < ?)
             INSERT OR IGNORE INTO stock (sku, quantity) SELECT sku, ? FROM shelf",
        )
        .bind(goods)
        .bind(each)
        .execute(&self.pool)
        .await
        .map(|_| ())
    }

    /// Locks the rows of the goods, holds them, takes the goods and frees the rows.
    pub(crate) async fn reserve(
        &self,
        wanted: &Reservation,
        finish: Finish,
    ) -> Result<Reserved, DatabaseError> {
        let mut rows = Rows {
            holder: wanted.holder,
            database: self.clone(),
            held: true,
        };
        if !self.lock_rows(&wanted.items, wanted.holder, wanted.lease).await? {
            return Ok(Reserved::Unknown);
        }
        clock::sleep(wanted.hold).await;
        let taken = self.take(wanted, finish).await;
        rows.held = taken.is_err();
        taken
    }

    /// Locks the rows of some goods for one holder, all of them or none, and waits while another holds one.
    /// SQLite locks whole files, so the lock is written into the row itself, with an end for holders that died.
    /// False where one of the goods is not on sale.
    ///
    /// One statement a try: every statement is a trip to the connection's thread, and a busy machine makes each
    /// of them slow.
    async fn lock_rows(&self, items: &[Item], holder: i64, lease: Duration) -> sqlx::Result<bool> {
        let wanted = as_json(items);
        loop {
            // Asked for before the look, so that a row freed in between is not missed.
            let freed = self.freed.notified();
            let now = clock::wall_millis();
            let until = now + i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 2);
            let locked = sqlx::query(
                "UPDATE stock SET holder = ?1, held_until = ?2
                 WHERE sku IN (SELECT value ->> 'sku' FROM json_each(?3))
                 AND NOT EXISTS (SELECT 1 FROM stock AS other
                    WHERE other.sku IN (SELECT value ->> 'sku' FROM json_each(?3))
                    AND other.holder IS NOT NULL AND other.holder <> ?1 AND other.held_until >= ?4)",
            )
            .bind(holder)
            .bind(until)
            .bind(&wanted)
            .bind(now)
            .execute(&self.pool)
            .await?
            .rows_affected();
            let locked = usize::try_from(locked).unwrap_or_default();
            // Asked only where it matters: every statement is a trip to the connection's thread.
            let on_sale = if locked == 0 {
                self.on_sale(&wanted).await?
            } else {
                locked
            };
            match Lock::of(items.len(), locked, on_sale) {
                Lock::Held => return Ok(true),
                Lock::Unknown => return Ok(false),
                // Told or not, the row is looked at again.
                Lock::Busy => {
                    let _ = tokio::time::timeout(LOOK_AGAIN, freed).await;
                }
            }
        }
    }

    /// Takes the goods off the shelves and frees the rows.
    async fn take(&self, wanted: &Reservation, finish: Finish) -> Result<Reserved, DatabaseError> {
        let mut transaction = self.begin().await?;
        let taken = sqlx::query(
            "INSERT INTO reservations (reference, sku, quantity, at)
             SELECT ?1, value ->> 'sku', value ->> 'quantity', ?2 FROM json_each(?3)
             WHERE EXISTS (SELECT 1 FROM stock WHERE stock.sku = value ->> 'sku' AND stock.holder = ?4)",
        )
        .bind(&wanted.order)
        .bind(clock::wall_millis())
        .bind(as_json(&wanted.items))
        .bind(wanted.holder)
        .execute(&mut *transaction)
        .await
        .map(|done| done.rows_affected());
        let reserved = match StockResult::of(wanted.items.len(), written(taken)?) {
            StockResult::Done => {
                let response = finish.write(&mut *transaction).await?;
                transaction.commit().await?;
                Reserved::Done(response)
            }
            StockResult::Lost => Reserved::TooFew,
            StockResult::TooFew => {
                transaction.rollback().await?;
                self.free(wanted.holder).await?;
                Reserved::TooFew
            }
        };
        self.freed.notify_waiters();
        Ok(reserved)
    }

    /// Frees what a holder has locked.
    async fn free(&self, holder: i64) -> sqlx::Result<()> {
        sqlx::query("UPDATE stock SET holder = NULL WHERE holder = ?")
            .bind(holder)
            .execute(&self.pool)
            .await?;
        self.freed.notify_waiters();
        Ok(())
    }

    /// How many of the goods have a row.
    async fn on_sale(&self, wanted: &str) -> sqlx::Result<usize> {
        let known: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM stock WHERE sku IN (SELECT value ->> 'sku' FROM json_each(?))",
        )
        .bind(wanted)
        .fetch_one(&self.pool)
        .await?;
        Ok(usize::try_from(known).unwrap_or_default())
    }
}

/// Locked rows. Dropping this frees them, also where the request was cancelled before it took the goods.
struct Rows {
    holder: i64,
    database: Sqlite,
    held: bool,
}

impl Drop for Rows {
    fn drop(&mut self) {
        if self.held
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (database, holder) = (self.database.clone(), self.holder);
            // A database that is closed needs nothing freed; a lease ends by itself.
            runtime.spawn(async move {
                let _ = database.free(holder).await;
            });
        }
    }
}

fn as_json(items: &[Item]) -> String {
    serde_json::to_string(items).unwrap_or_default()
}
