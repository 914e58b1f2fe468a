//! A payment by sea-orm: effect, event, claim and response are one transaction of sea-orm's.
//!
//! `cargo run --manifest-path examples/orm/Cargo.toml --example store_sea_orm`
//!
//! The store has a text and values for each of its statements. `execute` below hands them to sea-orm.

use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    http::{Response, StatusCode},
    response::IntoResponse as _,
    routing::post,
};
use retryguard_examples_orm::pay_twice;
use retryguard_store::{
    Statement, Value,
    idempotency::{Claim, IdempotencyLayer, SqliteStore},
    outbox::{Event, OutboxStore as _, SqliteOutbox},
};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, TransactionTrait as _,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("payments.db");
    // The store makes its tables, and keeps connections of its own for the layer.
    let store = SqliteStore::open(&file).await?;
    let outbox = SqliteOutbox::new(store.pool().clone());
    let mut options = ConnectOptions::new(format!("sqlite://{}", file.display()));
    options.max_connections(1);
    let database = Database::connect(options).await?;
    database
        .execute_unprepared("CREATE TABLE payments (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)")
        .await?;
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotencyLayer::new(store).in_transaction(true))
        .with_state(database.clone());
    pay_twice(&app).await?;
    let count = sea_orm::Statement::from_string(DbBackend::Sqlite, "SELECT count(*) AS paid FROM payments");
    let row = database.query_one_raw(count).await?;
    let paid: i64 = row.map(|row| row.try_get("", "paid")).transpose()?.unwrap_or(0);
    println!("payments: {paid}, events: {}", outbox.counts().await?.pending);
    Ok(())
}

async fn pay(
    State(database): State<DatabaseConnection>,
    Extension(claim): Extension<Claim>,
) -> Response<Body> {
    match pay_once(&database, &claim).await {
        Ok(response) => response,
        // Also where another request was faster: the layer then sends that one's response.
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn pay_once(database: &DatabaseConnection, claim: &Claim) -> anyhow::Result<Response<Body>> {
    let transaction = database.begin().await?;
    transaction
        .execute_unprepared("INSERT INTO payments (cents) VALUES (1000)")
        .await?;
    let event = Event::new("payments.made", "10 euros").key("ann");
    execute(&transaction, &SqliteOutbox::statement(&event)?).await?;
    let completion = claim.completion(Response::new("paid"))?;
    let rows = execute(&transaction, completion.statement()).await?;
    // Where the claim was lost this leaves, and the transaction rolls back when it is dropped.
    let response = completion.executed(rows)?;
    transaction.commit().await?;
    Ok(response)
}

/// Executes a statement of the store by sea-orm, and says how many rows it changed.
async fn execute(transaction: &impl ConnectionTrait, statement: &Statement) -> anyhow::Result<u64> {
    let values = statement.values.iter().map(|value| match value {
        Value::Integer(value) => (*value).into(),
        Value::Boolean(value) => (*value).into(),
        Value::Text(value) => value.clone().into(),
        Value::Bytes(value) => value.as_ref().map(|bytes| bytes.to_vec()).into(),
    });
    let values: Vec<sea_orm::Value> = values.collect();
    let statement = sea_orm::Statement::from_sql_and_values(DbBackend::Sqlite, statement.text, values);
    Ok(transaction.execute_raw(statement).await?.rows_affected())
}
