//! A payment by diesel: effect, event, claim and response are one transaction of diesel's.
//!
//! `cargo run --manifest-path examples/orm/Cargo.toml --example store_diesel`
//!
//! The store has a text and values for each of its statements. `execute` below hands them to diesel.

use std::sync::{Arc, Mutex};

use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    http::{Response, StatusCode},
    response::IntoResponse as _,
    routing::post,
};
use diesel::{
    Connection as _, ExpressionMethods as _, QueryDsl as _, RunQueryDsl as _, SqliteConnection,
    connection::SimpleConnection as _,
    sql_types::{BigInt, Binary, Bool, Nullable, Text},
    sqlite::Sqlite,
};
use retryguard_examples_orm::pay_twice;
use retryguard_store::{
    Statement, Value,
    idempotency::{Claim, IdempotencyLayer, SqliteStore},
    outbox::{Event, OutboxStore as _, SqliteOutbox},
};

diesel::table! {
    payments (id) {
        id -> Integer,
        cents -> Integer,
    }
}

type Database = Arc<Mutex<SqliteConnection>>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("payments.db");
    // The store makes its tables, and keeps connections of its own for the layer.
    let store = SqliteStore::open(&file).await?;
    let outbox = SqliteOutbox::new(store.pool().clone());
    let mut connection = SqliteConnection::establish(&file.to_string_lossy())?;
    connection.batch_execute(
        "PRAGMA busy_timeout = 5000;
         CREATE TABLE payments (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)",
    )?;
    let database: Database = Arc::new(Mutex::new(connection));
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotencyLayer::new(store).in_transaction(true))
        .with_state(database.clone());
    pay_twice(&app).await?;
    let paid: i64 = {
        let mut connection = database
            .lock()
            .map_err(|_| anyhow::anyhow!("a handler panicked"))?;
        payments::table.count().get_result(&mut *connection)?
    };
    println!("payments: {paid}, events: {}", outbox.counts().await?.pending);
    Ok(())
}

/// diesel waits for its database, so the work has a thread of its own.
async fn pay(State(database): State<Database>, Extension(claim): Extension<Claim>) -> Response<Body> {
    let paid = tokio::task::spawn_blocking(move || {
        let mut connection = database
            .lock()
            .map_err(|_| anyhow::anyhow!("a handler panicked"))?;
        connection.immediate_transaction(|connection| pay_once(connection, &claim))
    });
    match paid.await {
        Ok(Ok(response)) => response,
        // Also where another request was faster: the layer then sends that one's response.
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn pay_once(connection: &mut SqliteConnection, claim: &Claim) -> anyhow::Result<Response<Body>> {
    diesel::insert_into(payments::table)
        .values(payments::cents.eq(1000))
        .execute(connection)?;
    let event = Event::new("payments.made", "10 euros").key("ann");
    execute(connection, &SqliteOutbox::statement(&event)?)?;
    let completion = claim.completion(Response::new("paid"))?;
    let rows = execute(connection, completion.statement())?;
    Ok(completion.executed(rows)?)
}

/// Executes a statement of the store by diesel, and says how many rows it changed.
fn execute(connection: &mut SqliteConnection, statement: &Statement) -> anyhow::Result<u64> {
    let mut query = diesel::sql_query(statement.text).into_boxed::<Sqlite>();
    for value in &statement.values {
        query = match value {
            Value::Integer(value) => query.bind::<BigInt, _>(*value),
            Value::Boolean(value) => query.bind::<Bool, _>(*value),
            Value::Text(value) => query.bind::<Nullable<Text>, _>(value.clone()),
            Value::Bytes(value) => {
                query.bind::<Nullable<Binary>, _>(value.as_ref().map(|bytes| bytes.to_vec()))
            }
        };
    }
    Ok(u64::try_from(query.execute(connection)?)?)
}
