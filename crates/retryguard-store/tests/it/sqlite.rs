//! Transactions of a SQLite file after a full disk.

use retryguard_store::sqlite::begin;
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions, sqlite::SqlitePoolOptions};

/// A pool of so many connections to a file that has no room for another page.
async fn full(file: &std::path::Path, connections: u32) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .pragma("max_page_count", "2");
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .connect_with(options)
        .await
        .unwrap();
    let table = "CREATE TABLE IF NOT EXISTS notes (text BLOB)";
    sqlx::raw_sql(table).execute(&pool).await.unwrap();
    pool
}

/// A full disk in the middle of a transaction; the transaction is dropped.
async fn run_out_of_room(pool: &SqlitePool) {
    let mut transaction = begin(pool).await.unwrap();
    let large = sqlx::query("INSERT INTO notes VALUES (zeroblob(100000))");
    let error = large.execute(&mut *transaction).await.unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
}

#[tokio::test]
async fn a_full_disk_does_not_spoil_the_next_transaction() {
    let folder = tempfile::tempdir().unwrap();
    for connections in [1, 4] {
        let pool = full(&folder.path().join("notes.db"), connections).await;
        for _ in 0..3 {
            run_out_of_room(&pool).await;
        }
        let mut transaction = begin(&pool).await.unwrap();
        let small = sqlx::query("INSERT INTO notes VALUES ('small')");
        small.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        pool.close().await;
    }
}
