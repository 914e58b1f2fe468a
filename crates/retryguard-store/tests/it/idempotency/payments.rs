//! What tests pay with: an effect in a table without any constraint, so that one done twice is two rows.

use std::collections::HashMap;

use sqlx::{
    PgPool, Row as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

/// The place of the effects: the database of the keys, or the server of the keys.
#[derive(Clone)]
pub(crate) enum Payments {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    Redis(redis::aio::ConnectionManager),
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS payments (payer TEXT NOT NULL, effect TEXT NOT NULL)";

/// A pool as a program would have it beside the store's own.
pub(crate) async fn sqlite_pool(file: &str) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // A killed process loses nothing that the operating system has; only power failures need more.
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(std::time::Duration::from_secs(20));
    SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await
        .unwrap()
}

impl Payments {
    pub(crate) async fn open(address: &str) -> Self {
        if address.starts_with("redis:") {
            let client = redis::Client::open(address).unwrap();
            return Self::Redis(redis::aio::ConnectionManager::new(client).await.unwrap());
        }
        if address.starts_with("postgres:") {
            let pool = PgPool::connect(address).await.unwrap();
            // Two processes that make one table at the same moment may collide; the other has made it then.
            let _ = sqlx::raw_sql(TABLE).execute(&pool).await;
            return Self::Postgres(pool);
        }
        let pool = sqlite_pool(address).await;
        sqlx::raw_sql(TABLE).execute(&pool).await.unwrap();
        Self::Sqlite(pool)
    }

    /// Pays, in no transaction with anything else.
    pub(crate) async fn pay(&self, payer: &str) {
        self.pay_with(payer, &new_effect()).await;
    }

    /// Pays with an effect of this name.
    pub(crate) async fn pay_with(&self, payer: &str, effect: &str) {
        match self {
            Self::Sqlite(pool) => {
                let query = sqlx::query("INSERT INTO payments VALUES (?, ?)").bind(payer);
                query.bind(effect).execute(pool).await.unwrap();
            }
            Self::Postgres(pool) => {
                let query = sqlx::query("INSERT INTO payments VALUES ($1, $2)").bind(payer);
                query.bind(effect).execute(pool).await.unwrap();
            }
            Self::Redis(connection) => {
                let mut command = redis::cmd("RPUSH");
                command.arg(format!("payments:{payer}")).arg(effect);
                let _: i64 = command.query_async(&mut connection.clone()).await.unwrap();
            }
        }
    }

    /// The effects of each payer.
    pub(crate) async fn effects(&self) -> HashMap<String, Vec<String>> {
        const ALL: &str = "SELECT payer, effect FROM payments";
        let rows: Vec<(String, String)> = match self {
            Self::Sqlite(pool) => {
                let rows = sqlx::query(ALL).fetch_all(pool).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            Self::Postgres(pool) => {
                let rows = sqlx::query(ALL).fetch_all(pool).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            Self::Redis(connection) => redis_effects(connection.clone()).await,
        };
        let mut all: HashMap<String, Vec<String>> = HashMap::new();
        for (payer, effect) in rows {
            all.entry(payer).or_default().push(effect);
        }
        all
    }

    /// How often each payer has paid.
    pub(crate) async fn count(&self) -> HashMap<String, usize> {
        let effects = self.effects().await.into_iter();
        effects.map(|(payer, effects)| (payer, effects.len())).collect()
    }
}

async fn redis_effects(mut connection: redis::aio::ConnectionManager) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("payments:*")
        .query_async(&mut connection)
        .await
        .unwrap();
    for key in keys {
        let effects: Vec<String> = redis::cmd("LRANGE")
            .arg(&key)
            .arg(0)
            .arg(-1)
            .query_async(&mut connection)
            .await
            .unwrap();
        let payer = key.trim_start_matches("payments:").to_owned();
        all.extend(effects.into_iter().map(|effect| (payer.clone(), effect)));
    }
    all
}

/// A name that no other effect has.
pub(crate) fn new_effect() -> String {
    format!("{:016x}", crate::clock::below(u64::MAX))
}
