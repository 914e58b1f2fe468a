//! Faults of a PostgreSQL server, and of the network before it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{Router, routing::post};
use retryguard_parts::Postgres;
use retryguard_store::idempotency::PostgresStore;
use sqlx::{PgPool, postgres::PgPoolOptions};

use super::{super::payments::Payments, Fault, World, form, layer, pay, survives};
use crate::{clock, proxy::Proxy};

struct PostgresWorld {
    server: Postgres,
    proxy: Proxy,
    /// The pool of store and handlers, through the proxy.
    pool: PgPool,
    held: Vec<sqlx::pool::PoolConnection<sqlx::Postgres>>,
}

impl PostgresWorld {
    /// Past the proxy.
    async fn direct(&self, statements: &[&'static str]) {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect(&self.server.url())
            .await
            .unwrap();
        for statement in statements {
            sqlx::raw_sql(*statement).execute(&pool).await.unwrap();
        }
        pool.close().await;
    }

    /// Two transactions that take two rows in opposite orders, by the handlers' pool.
    async fn deadlock(&self) {
        let lock = async |first: &'static str, second: &'static str| {
            let mut transaction = self.pool.begin().await?;
            sqlx::raw_sql(first).execute(&mut *transaction).await?;
            clock::sleep(Duration::from_millis(20)).await;
            sqlx::raw_sql(second).execute(&mut *transaction).await?;
            transaction.commit().await
        };
        const A: &str = "UPDATE accounts SET cents = cents + 1 WHERE name = 'a'";
        const B: &str = "UPDATE accounts SET cents = cents + 1 WHERE name = 'b'";
        let (one, other) = tokio::join!(lock(A, B), lock(B, A));
        // The server ends one of the two, unless one was late.
        drop((one, other));
    }
}

impl World for PostgresWorld {
    const FAULTS: &'static [Fault] = &[
        Fault::Cut,
        Fault::Kill,
        Fault::ReadOnly,
        Fault::Full,
        Fault::Deadlock,
        Fault::Exhausted,
        Fault::ClockBack,
        Fault::ClockForward,
    ];

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => self.proxy.cut(),
            Fault::Kill => {
                let process = self.server.process();
                tokio::task::block_in_place(|| process.kill());
            }
            Fault::ReadOnly => {
                self.direct(&[
                    "ALTER SYSTEM SET default_transaction_read_only = on",
                    "SELECT pg_reload_conf()",
                ])
                .await;
            }
            Fault::Full => {
                self.direct(&["ALTER TABLE payments ENABLE TRIGGER full_disk"])
                    .await;
            }
            Fault::Deadlock => self.deadlock().await,
            Fault::Exhausted => {
                while let Ok(connection) = self.pool.acquire().await {
                    self.held.push(connection);
                    if u32::try_from(self.held.len()).unwrap() == self.pool.options().get_max_connections() {
                        break;
                    }
                }
            }
            Fault::ClockBack => {
                self.direct(&[
                    "UPDATE retryguard_idempotency SET locked_until = locked_until + interval '1 hour',
                    expires_at = expires_at + interval '1 hour'",
                ])
                .await;
            }
            Fault::ClockForward => {
                self.direct(&[
                    "UPDATE retryguard_idempotency SET locked_until = locked_until - interval '1 hour',
                    expires_at = expires_at - interval '1 hour'",
                ])
                .await;
            }
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => tokio::task::block_in_place(|| self.server.restart()),
            Fault::ReadOnly => {
                self.direct(&[
                    "SET default_transaction_read_only = off",
                    "ALTER SYSTEM RESET default_transaction_read_only",
                    "SELECT pg_reload_conf()",
                ])
                .await;
            }
            Fault::Full => {
                self.direct(&["ALTER TABLE payments DISABLE TRIGGER full_disk"])
                    .await;
            }
            Fault::Exhausted => self.held.clear(),
            _ => {}
        }
    }

    fn cut(&self) -> usize {
        self.proxy.count()
    }

    async fn effects(&self) -> HashMap<String, Vec<String>> {
        let pool = PgPool::connect(&self.server.url()).await.unwrap();
        Payments::Postgres(pool).effects().await
    }
}

async fn postgres_survives(in_transaction: bool) {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port()).await;
    drop(Payments::open(&server.url()).await);
    let pool = PgPoolOptions::new()
        .max_connections(6)
        .acquire_timeout(Duration::from_secs(1))
        .connect(&proxy.through(&server.url()))
        .await
        .unwrap();
    let store = Arc::new(PostgresStore::with_pool(pool.clone()).await.unwrap());
    let world = PostgresWorld {
        server,
        proxy,
        pool: pool.clone(),
        held: Vec::new(),
    };
    world
        .direct(&[
            "ALTER SYSTEM SET deadlock_timeout = '50ms'",
            "SELECT pg_reload_conf()",
            "CREATE TABLE accounts (name TEXT PRIMARY KEY, cents BIGINT NOT NULL)",
            "INSERT INTO accounts VALUES ('a', 0), ('b', 0)",
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
            "CREATE TRIGGER full_disk BEFORE INSERT ON payments EXECUTE FUNCTION full_disk()",
            "ALTER TABLE payments DISABLE TRIGGER full_disk",
        ])
        .await;
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer(store).in_transaction(in_transaction))
        .with_state(Payments::Postgres(pool));
    survives(form("PostgreSQL", in_transaction), world, app).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    postgres_survives(false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres_in_one_transaction() {
    postgres_survives(true).await;
}
