//! The same with claim, effect and response in one transaction: bugs are planted into what the layer reads of a key, and into
//! the statement that claims the key and stores the response.

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use http::{Response, StatusCode};
use retryguard_store::{
    Statement, StoreError, Value,
    idempotency::{Claim, IdempotencyLayer},
};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, SqliteConnection, SqlitePool};

use super::{
    super::{
        backends::{self, Place},
        payments::{Payments, new_effect},
    },
    Bug, CLIENTS, Mutant, World, ask, drive,
};
use crate::{clock, history};

/// A bug in the statement, or in how it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// It stores the response over whatever is there: the unique key decides nothing.
    Overwrites,
    /// It is not executed, and said to have changed one row.
    Forgets,
    /// It is executed before the effect's transaction, and not in it.
    Apart,
    /// How many rows it changed is not looked at.
    CommitsAnyway,
    /// No bug: the statement and the commit are one call.
    InOne,
}

/// What is planted, and whether the checker finds it.
const PLANTED: [(Bug, Flaw, bool); 11] = [
    (Bug::None, Flaw::InOne, false),
    (Bug::IgnoresRequests, Flaw::None, true),
    (Bug::IgnoresRequests, Flaw::InOne, true),
    (Bug::MixesResponses, Flaw::None, true),
    (Bug::MixesResponses, Flaw::InOne, true),
    // A completed key is called open: the statement still knows better, so that this alone does no harm.
    (Bug::RepeatsCompleted, Flaw::None, false),
    (Bug::RepeatsCompleted, Flaw::InOne, false),
    (Bug::None, Flaw::CommitsAnyway, true),
    (Bug::None, Flaw::Overwrites, true),
    (Bug::None, Flaw::Forgets, true),
    (Bug::None, Flaw::Apart, true),
];

/// Two clients at each.
const SERVERS: usize = CLIENTS / 2;

#[derive(Clone)]
struct Shop {
    payments: Payments,
    flaw: Flaw,
}

async fn pay(State(shop): State<Shop>, Extension(claim): Extension<Claim>, body: String) -> Response<Body> {
    let (key, _) = body.split_once('/').unwrap();
    clock::sleep(Duration::from_millis(clock::below(3))).await;
    if clock::below(8) == 0 {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let paid = match &shop.payments {
        Payments::Sqlite(pool) => pay_sqlite(pool, shop.flaw, &claim, key).await,
        Payments::Postgres(pool) => pay_postgres(pool, shop.flaw, &claim, key).await,
        Payments::Redis(_) => panic!("Redis has no transactions"),
    };
    // Whatever went wrong, the transaction was rolled back.
    paid.unwrap_or_else(|_| StatusCode::SERVICE_UNAVAILABLE.into_response())
}

/// After the statement, so that what it did outside of the transaction is seen.
fn changes_its_mind() -> bool {
    clock::below(6) == 0
}

async fn pay_sqlite(
    pool: &SqlitePool,
    flaw: Flaw,
    claim: &Claim,
    key: &str,
) -> Result<Response<Body>, StoreError> {
    let effect = new_effect();
    let completion = claim.completion(Response::new(effect.clone()))?;
    let mut rows = 1;
    if flaw == Flaw::Apart {
        rows = execute_sqlite(&mut pool.acquire().await.unwrap(), flaw, completion.statement()).await;
    }
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let insert = sqlx::query("INSERT INTO payments VALUES (?, ?)").bind(key);
    insert.bind(&effect).execute(&mut *transaction).await.unwrap();
    if flaw == Flaw::InOne {
        if changes_its_mind() {
            return Err(StoreError::ClaimLost);
        }
        return claim.commit(transaction, Response::new(effect)).await;
    }
    if matches!(flaw, Flaw::None | Flaw::Overwrites | Flaw::CommitsAnyway) {
        rows = execute_sqlite(&mut transaction, flaw, completion.statement()).await;
    }
    if flaw == Flaw::CommitsAnyway {
        rows = 1;
    }
    let response = completion.executed(rows)?;
    if changes_its_mind() {
        return Err(StoreError::ClaimLost);
    }
    transaction.commit().await.unwrap();
    Ok(response)
}

async fn pay_postgres(
    pool: &PgPool,
    flaw: Flaw,
    claim: &Claim,
    key: &str,
) -> Result<Response<Body>, StoreError> {
    let effect = new_effect();
    let completion = claim.completion(Response::new(effect.clone()))?;
    let mut rows = 1;
    if flaw == Flaw::Apart {
        rows = execute_postgres(&mut pool.acquire().await.unwrap(), flaw, completion.statement()).await;
    }
    let mut transaction = pool.begin().await.unwrap();
    let insert = sqlx::query("INSERT INTO payments VALUES ($1, $2)").bind(key);
    insert.bind(&effect).execute(&mut *transaction).await.unwrap();
    if flaw == Flaw::InOne {
        if changes_its_mind() {
            return Err(StoreError::ClaimLost);
        }
        return claim.commit(transaction, Response::new(effect)).await;
    }
    if matches!(flaw, Flaw::None | Flaw::Overwrites | Flaw::CommitsAnyway) {
        rows = execute_postgres(&mut transaction, flaw, completion.statement()).await;
    }
    if flaw == Flaw::CommitsAnyway {
        rows = 1;
    }
    let response = completion.executed(rows)?;
    if changes_its_mind() {
        return Err(StoreError::ClaimLost);
    }
    transaction.commit().await.unwrap();
    Ok(response)
}

/// The statement's text with its bug. It was seen to be open, so it is the insertion.
fn text(statement: &Statement, flaw: Flaw) -> AssertSqlSafe<String> {
    const DECIDES: &str = "ON CONFLICT (id) DO NOTHING";
    assert!(statement.text.contains(DECIDES), "{}", statement.text);
    let decides = if flaw == Flaw::Overwrites {
        "ON CONFLICT (id) DO UPDATE SET status = excluded.status, headers = excluded.headers, body = excluded.body"
    } else {
        DECIDES
    };
    AssertSqlSafe(statement.text.replace(DECIDES, decides))
}

macro_rules! execute {
    ($connection:expr, $flaw:expr, $statement:expr) => {{
        let mut query = sqlx::query(text($statement, $flaw));
        for value in &$statement.values {
            query = match value {
                Value::Integer(value) => query.bind(*value),
                Value::Boolean(value) => query.bind(*value),
                Value::Text(value) => query.bind(value.clone()),
                Value::Bytes(value) => query.bind(value.as_ref().map(|bytes| bytes.to_vec())),
            };
        }
        query.execute($connection).await.unwrap().rows_affected()
    }};
}

async fn execute_sqlite(connection: &mut SqliteConnection, flaw: Flaw, statement: &Statement) -> u64 {
    execute!(connection, flaw, statement)
}

async fn execute_postgres(connection: &mut PgConnection, flaw: Flaw, statement: &Statement) -> u64 {
    execute!(connection, flaw, statement)
}

/// Nothing remains of the keys and effects of an earlier run.
async fn forget(payments: &Payments) {
    const ALL: &str = "DELETE FROM payments; DELETE FROM retryguard_idempotency";
    match payments {
        Payments::Sqlite(pool) => drop(sqlx::raw_sql(ALL).execute(pool).await.unwrap()),
        Payments::Postgres(pool) => drop(sqlx::raw_sql(ALL).execute(pool).await.unwrap()),
        Payments::Redis(_) => panic!("Redis has no transactions"),
    }
}

async fn observe(place: &Place, payments: &Payments, bug: Bug, flaw: Flaw) -> Result<usize, String> {
    forget(payments).await;
    let world = Arc::new(World::default());
    let mutant = Arc::new(Mutant::new(place.store.clone(), bug));
    let server = |_| {
        let layer = IdempotencyLayer::shared(mutant.clone())
            .in_transaction(true)
            .store_timeout(Duration::from_secs(30));
        Router::new()
            .route("/pay", post(pay))
            .layer(layer)
            .with_state(Shop {
                payments: payments.clone(),
                flaw,
            })
    };
    // Within one server the second request waits for the first, so that only several servers need the statement's key.
    let servers: Vec<Router> = (0..SERVERS).map(server).collect();
    drive(&servers, &world).await;
    let effects = payments.effects().await;
    let histories = world.histories.lock().unwrap();
    history::check_all(&histories, &effects)?;
    Ok(histories.values().map(Vec::len).sum())
}

/// Nothing is wrong with the backend, and the planted bugs are found. A bug needs its moment to show, so it has some tries.
async fn holds(place: &Place) {
    let payments = Payments::open(place.address.as_ref().unwrap()).await;
    let operations = observe(place, &payments, Bug::None, Flaw::None).await.unwrap();
    println!("{operations} operations without a fault");
    for (bug, flaw, is_found) in PLANTED {
        let mut found = None;
        for _ in 0..10 {
            found = observe(place, &payments, bug, flaw).await.err();
            if found.is_some() || !is_found {
                break;
            }
        }
        assert_eq!(found.is_some(), is_found, "{bug:?}, {flaw:?}: {found:?}");
        let found = found.unwrap_or_default();
        println!(
            "{bug:?}, {flaw:?}: {}",
            found.lines().next().unwrap_or("harmless")
        );
    }
    late_storage(place, &payments).await;
}

/// A handler that leaves its response to the layer, which stores it afterwards. Its duplicates come one after the other,
/// because there is no claim that could hold them up.
async fn late_storage(place: &Place, payments: &Payments) {
    async fn pay(State(payments): State<Payments>, body: String) -> String {
        let (key, _) = body.split_once('/').unwrap();
        let effect = new_effect();
        payments.pay_with(key, &effect).await;
        effect
    }
    for (bug, is_right) in [
        (Bug::None, true),
        (Bug::ForgetsResponses, false),
        (Bug::IgnoresRequests, false),
    ] {
        forget(payments).await;
        let world = World::default();
        let layer = IdempotencyLayer::new(Mutant::new(place.store.clone(), bug)).in_transaction(true);
        let app = Router::new()
            .route("/pay", post(pay))
            .layer(layer)
            .with_state(payments.clone());
        for request in ["request 0", "request 0", "request 1"] {
            ask(&app, &world, "key", request, None).await;
        }
        let effects = payments.effects().await;
        let checked = history::check_all(&world.histories.lock().unwrap(), &effects);
        assert_eq!(checked.is_ok(), is_right, "{bug:?}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    holds(&backends::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    holds(&place).await;
}
