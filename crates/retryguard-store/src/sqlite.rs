//! Transactions on a SQLite file that survive a full disk.

use sqlx::{Connection as _, Error, Sqlite, SqlitePool, Transaction};

/// Begins a transaction that may write. It takes the write lock at once (`BEGIN IMMEDIATE`): a transaction that first reads
/// and then writes may find that another has written in between.
///
/// Where the disk is full, SQLite ends a transaction by itself. `sqlx` does not notice: it takes the connection to be in a
/// transaction from then on, and `pool.begin_with` refuses every later one. Here such a connection is closed, and the pool
/// opens another.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), sqlx::Error> {
/// let mut transaction = retryguard_store::sqlite::begin(&pool).await?;
/// sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 17").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Those of the database.
pub async fn begin(pool: &SqlitePool) -> Result<Transaction<'static, Sqlite>, Error> {
    /// More than a pool for one file has connections.
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match pool.begin_with("BEGIN IMMEDIATE").await {
            Err(Error::InvalidSavePointStatement) => close_if_stuck(pool).await?,
            begun => return begun,
        }
    }
    Err(Error::InvalidSavePointStatement)
}

/// A connection that waits in the pool is in no transaction. One that says otherwise is closed.
async fn close_if_stuck(pool: &SqlitePool) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    // What was begun on it before, such as a rollback, has ended when it answers.
    connection.ping().await?;
    if connection.is_in_transaction() {
        connection.close().await?;
    }
    Ok(())
}
