//! The lead in real databases: one actor at a time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use retryguard_controller::{
    config::lead::{Address, Lock},
    lead::{Lead, Standing},
    secret::Secret,
};

const TERM: Duration = Duration::from_millis(600);

fn lock(url: &str) -> Lock {
    Lock {
        address: Address::Written(Secret::new(url)),
        name: "test".to_owned(),
        term: TERM,
    }
}

async fn term_of(lead: &mut dyn Lead) -> Option<u64> {
    match lead.ask().await.unwrap() {
        Standing::Leading { term, lasts } => {
            assert_eq!(lasts, TERM);
            Some(term)
        }
        Standing::Following { .. } => None,
    }
}

/// Asks until the answer is yes.
async fn wins(lead: &mut dyn Lead) -> u64 {
    for _ in 0..400 {
        if let Some(term) = term_of(lead).await {
            return term;
        }
        retryguard_controller::clock::sleep(TERM / 20).await;
    }
    panic!("nobody leads");
}

/// What every judge owes: one leader, kept by renewal, given up at once by resigning, lost by silence, and a
/// number that grows.
async fn keeps_its_word(one: &mut dyn Lead, two: &mut dyn Lead) {
    let first = wins(one).await;
    assert_eq!(term_of(two).await, None);
    for _ in 0..10 {
        retryguard_controller::clock::sleep(TERM / 4).await;
        assert_eq!(term_of(one).await, Some(first), "renewed, the term is the same");
        assert_eq!(term_of(two).await, None);
    }
    two.resign().await.unwrap();
    assert_eq!(
        term_of(one).await,
        Some(first),
        "nobody gives up what is another's"
    );
    one.resign().await.unwrap();
    let second = term_of(two).await.expect("free at once");
    assert!(second > first);
    assert_eq!(term_of(one).await, None);
    // The second falls silent, as in a partition; its term ends on the judge's clock.
    let third = wins(one).await;
    assert!(third > second);
    assert_eq!(term_of(two).await, None, "it comes back and follows");
}

#[cfg(feature = "redis")]
mod in_redis {
    use retryguard_controller::lead::redis::Redis;

    use super::*;

    #[tokio::test]
    async fn one_leads() {
        let Some(server) = retryguard_parts::Redis::start() else {
            return;
        };
        let lock = lock(&server.url());
        let mut one = Redis::new(&lock, "one").unwrap();
        let mut two = Redis::new(&lock, "two").unwrap();
        keeps_its_word(&mut one, &mut two).await;
    }

    /// Redis is killed and comes back empty while somebody leads: nobody may take the lead before the leader's
    /// own clock has ended its term.
    #[tokio::test]
    async fn a_server_that_forgot_gives_the_lead_to_nobody_for_a_term() {
        let Some(mut server) = retryguard_parts::Redis::start() else {
            return;
        };
        let lock = lock(&server.url());
        let mut one = Redis::new(&lock, "one").unwrap();
        let mut two = Redis::new(&lock, "two").unwrap();
        wins(&mut one).await;
        server.process().kill();
        assert!(one.ask().await.is_err());
        server.restart();
        let mut answers = Vec::new();
        for lead in [&mut two, &mut one] {
            // The first question after a broken connection may fail.
            let _ = lead.ask().await;
            answers.push(term_of(lead).await);
        }
        assert_eq!(answers, [None, None]);
        wins(&mut two).await;
    }

    #[tokio::test]
    async fn a_password_is_not_in_the_error() {
        let mut lead = Redis::new(&lock("redis://:s3cret@127.0.0.1:1/"), "one").unwrap();
        let error = lead.ask().await.unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
        let error = Redis::new(&lock("nonsense://:s3cret@x"), "one")
            .map(drop)
            .unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use retryguard_controller::lead::postgres::Postgres;

    use super::*;

    #[tokio::test]
    async fn one_leads() {
        let Some(server) = retryguard_parts::Postgres::start() else {
            return;
        };
        let lock = lock(&server.url());
        let mut one = Postgres::new(&lock, "one").unwrap();
        let mut two = Postgres::new(&lock, "two").unwrap();
        keeps_its_word(&mut one, &mut two).await;
    }

    /// The server ends every connection, as in a fail-over. An advisory lock of the session would be free now,
    /// while its holder believes that it leads.
    #[tokio::test]
    async fn a_server_that_restarts_keeps_the_term() {
        let Some(mut server) = retryguard_parts::Postgres::start() else {
            return;
        };
        let long = Lock {
            term: Duration::from_secs(600),
            ..lock(&server.url())
        };
        let mut one = Postgres::new(&long, "one").unwrap();
        let mut two = Postgres::new(&long, "two").unwrap();
        assert!(matches!(one.ask().await.unwrap(), Standing::Leading { .. }));
        server.restart();
        let _ = two.ask().await;
        assert!(matches!(two.ask().await.unwrap(), Standing::Following { .. }));
        let _ = one.ask().await;
        assert!(matches!(
            one.ask().await.unwrap(),
            Standing::Leading { term: 1, .. }
        ));
    }

    /// Twenty reach for a lead that nobody has, table and all.
    #[tokio::test]
    async fn of_twenty_at_once_one_leads() {
        let Some(server) = retryguard_parts::Postgres::start() else {
            return;
        };
        // No term may end meanwhile, however slow the machine.
        let lock = Lock {
            term: Duration::from_secs(600),
            ..lock(&server.url())
        };
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let mut lead = Postgres::new(&lock, &format!("number {number}")).unwrap();
            tasks.spawn(async move { lead.ask().await.unwrap() });
        }
        let leaders = tasks
            .join_all()
            .await
            .into_iter()
            .filter(|standing| matches!(standing, Standing::Leading { .. }))
            .count();
        assert_eq!(leaders, 1);
    }
}
