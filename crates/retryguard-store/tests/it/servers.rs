//! Real servers that tests share while any of them runs (the last one to end stops its server), and how often they are killed.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU32, Ordering},
};

use retryguard_parts::Postgres;

/// How often each test that kills a process does so, where `RETRYGUARD_TEST_KILLS` says it.
pub(crate) fn kills() -> Option<usize> {
    let wanted = std::env::var("RETRYGUARD_TEST_KILLS").ok();
    wanted.map(|wanted| wanted.parse().expect("RETRYGUARD_TEST_KILLS is a number"))
}

/// A database of its own, named by its address, on a server that is shared.
pub(crate) async fn postgres_database() -> (Arc<Postgres>, String) {
    static SERVER: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let server = {
        let mut known = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        match known.upgrade() {
            Some(server) => server,
            None => {
                let server = Arc::new(Postgres::start());
                *known = Arc::downgrade(&server);
                server
            }
        }
    };
    let name = format!("d{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&server.url())
        .await
        .unwrap();
    let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
    let address = server.url();
    let (host, _) = address.rsplit_once('/').unwrap();
    let url = format!("{host}/{name}");
    (server, url)
}
