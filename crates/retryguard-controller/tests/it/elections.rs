//! Leader election in real databases: one leader at a time.
//!
//! No assertion here can be spoilt by a slow machine: where a candidate must still lead, the term is ten minutes; where
//! a term must end, it is short and its end is waited for.

use std::time::Duration;

use retryguard_controller::clock::sleep;
use retryguard_controller::config::election::{Address, Lock};
use retryguard_controller::reconcile::election::{LeaderElection, Leadership};
use retryguard_controller::secret::Secret;

/// Ends within a test.
const SHORT: Duration = Duration::from_millis(500);
/// Does not end within a test, however slow the machine.
const LONG: Duration = Duration::from_secs(600);

fn lock(url: &str, term: Duration) -> Lock {
    Lock {
        address: Address::Written(Secret::new(url)),
        name: "test".to_owned(),
        term,
    }
}

async fn term_of(election: &mut dyn LeaderElection) -> Option<u64> {
    match answer(election).await {
        Leadership::Leader { term, .. } => Some(term),
        Leadership::Follower { .. } => None,
    }
}

/// Asks until the answer is yes.
async fn wins(election: &mut dyn LeaderElection) -> u64 {
    for _ in 0..1_200 {
        if let Some(term) = term_of(election).await {
            return term;
        }
        sleep(SHORT / 10).await;
    }
    panic!("no candidate leads");
}

/// The first answer: a question after a broken connection may fail, and so may one on a machine that is slower than
/// a client's retry.
async fn answer(election: &mut dyn LeaderElection) -> Leadership {
    for _ in 0..1_200 {
        if let Ok(leadership) = election.campaign().await {
            return leadership;
        }
        sleep(SHORT / 10).await;
    }
    panic!("no answer");
}

async fn resigns(election: &mut dyn LeaderElection) {
    for _ in 0..1_200 {
        if election.resign().await.is_ok() {
            return;
        }
        sleep(SHORT / 10).await;
    }
    panic!("no answer");
}

async fn hands_over(election: &mut dyn LeaderElection, to: &str) {
    for _ in 0..1_200 {
        if election.hand_over(to).await.is_ok() {
            return;
        }
        sleep(SHORT / 10).await;
    }
    panic!("no answer");
}

fn asked_by(standing: &Leadership) -> Option<&str> {
    match standing {
        Leadership::Leader { asked_by, .. } => asked_by.as_deref(),
        Leadership::Follower { .. } => None,
    }
}

/// A leader whose term is ten minutes and that was not asked to hand it over.
fn leader(term: u64) -> Leadership {
    Leadership::Leader {
        term,
        lasts: LONG,
        asked_by: None,
    }
}

fn follows(standing: &Leadership) -> bool {
    matches!(standing, Leadership::Follower { .. })
}

/// What every backend owes: one leader, kept by renewal, given up at once by resigning, lost by silence, and a
/// number that grows. `new` makes one that signs with a name and leads for a term.
async fn keeps_its_word<L: LeaderElection>(new: impl Fn(&str, Duration) -> L) {
    let (mut one, mut two) = (new("one", LONG), new("two", LONG));
    // A backend may keep a lock that is new free for one term.
    let mut first = new("first", SHORT);
    wins(&mut first).await;
    resigns(&mut first).await;

    let first = wins(&mut one).await;
    assert_eq!(term_of(&mut two).await, None);
    assert_eq!(
        term_of(&mut one).await,
        Some(first),
        "renewed, the term is the same"
    );
    resigns(&mut two).await;
    assert_eq!(
        term_of(&mut one).await,
        Some(first),
        "a candidate cannot resign another's term"
    );
    resigns(&mut one).await;
    let second = term_of(&mut two).await.expect("free at once");
    assert!(second > first);
    assert_eq!(term_of(&mut one).await, None);
    resigns(&mut two).await;

    // A candidate asks, and the leader hands over: the next term is that one's at once, and no other's.
    let led = wins(&mut one).await;
    two.ask(true);
    assert_eq!(term_of(&mut two).await, None);
    two.ask(false);
    assert_eq!(asked_by(&answer(&mut one).await), Some("two"));
    assert_eq!(
        asked_by(&answer(&mut one).await),
        None,
        "a request is answered once"
    );
    hands_over(&mut two, "three").await;
    assert_eq!(
        term_of(&mut one).await,
        Some(led),
        "only the leader can hand over"
    );
    hands_over(&mut one, "two").await;
    assert_eq!(term_of(&mut one).await, None);
    assert_eq!(term_of(&mut two).await, Some(led + 1));
    resigns(&mut two).await;
    // A request that is older than a term of its author is none.
    let mut gone = new("gone", SHORT);
    let led = wins(&mut one).await;
    gone.ask(true);
    assert_eq!(term_of(&mut gone).await, None);
    sleep(SHORT * 2).await;
    assert_eq!(answer(&mut one).await, leader(led));
    resigns(&mut one).await;

    // One falls silent, as in a partition; its term ends on the backend's clock.
    let mut silent = new("silent", SHORT);
    let third = wins(&mut silent).await;
    assert!(third > second);
    let fourth = wins(&mut one).await;
    assert!(fourth > third);
    assert_eq!(term_of(&mut silent).await, None, "it comes back and follows");
    resigns(&mut one).await;

    // A renewal counts: a term that would be over goes on. A leader that renews too late gets another number, and has
    // shown nothing yet.
    let mut again = new("silent", LONG);
    loop {
        let taken = wins(&mut silent).await;
        if term_of(&mut again).await == Some(taken) {
            break;
        }
        resigns(&mut again).await;
    }
    sleep(SHORT * 2).await;
    assert_eq!(term_of(&mut two).await, None);
}

#[cfg(feature = "redis")]
mod in_redis {
    use retryguard_controller::adapters::election::redis::Redis;

    use super::*;

    #[tokio::test]
    #[ignore = "needs Redis"]
    async fn one_leads() {
        let server = retryguard_parts::Redis::start();
        let url = server.url();
        keeps_its_word(|name, term| Redis::new(&lock(&url, term), name).unwrap()).await;
    }

    /// Redis is killed and comes back empty while a leader holds the term: no other may take it before the leader's
    /// own clock has ended its term.
    #[tokio::test]
    #[ignore = "needs Redis"]
    async fn after_a_server_lost_its_data_there_is_no_leader_for_a_term() {
        let mut server = retryguard_parts::Redis::start();
        let url = server.url();
        let new = |name: &str, term| Redis::new(&lock(&url, term), name).unwrap();
        let (mut one, mut two) = (new("one", LONG), new("two", LONG));
        let mut first = new("first", SHORT);
        wins(&mut first).await;
        resigns(&mut first).await;
        wins(&mut one).await;
        server.process().kill();
        assert!(one.campaign().await.is_err());
        server.restart();
        for lead in [&mut two, &mut one] {
            let standing = answer(lead).await;
            assert!(follows(&standing), "{standing:?}");
        }
        // And not for ever: a lock of a shorter term, as empty.
        let short = Lock {
            name: "another".to_owned(),
            ..lock(&url, SHORT)
        };
        let mut third = Redis::new(&short, "three").unwrap();
        assert!(follows(&answer(&mut third).await));
        wins(&mut third).await;
    }

    /// An upgrade: the keys as the first version wrote them, by its name and not by this program.
    #[tokio::test]
    #[ignore = "needs Redis"]
    async fn the_lock_of_an_older_controller_is_respected_and_its_terms_go_on() {
        let server = retryguard_parts::Redis::start();
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut set = async |key: &str, value: &str, millis: Option<u64>| {
            let mut command = redis::cmd("SET");
            command.arg(format!("{{retryguard:test}}:{key}")).arg(value);
            if let Some(millis) = millis {
                command.arg("PX").arg(millis);
            }
            command.query_async::<()>(&mut connection).await.unwrap();
        };
        set("term", "7", None).await;
        set("leader", "old-machine-1-00", Some(600_000)).await;
        let mut new = Redis::new(&lock(&server.url(), SHORT), "new").unwrap();
        let leader = Some("old-machine-1-00".to_owned());
        assert_eq!(answer(&mut new).await, Leadership::Follower { leader });
        assert_eq!(new.every(), SHORT / 3);
        // It is asked for when the old one ends, though that is sooner than usual.
        set("leader", "old-machine-1-00", Some(60)).await;
        if follows(&answer(&mut new).await) {
            assert!(new.every() <= Duration::from_millis(70));
        }
        assert_eq!(wins(&mut new).await, 8);
    }

    #[tokio::test]
    async fn a_password_is_not_in_the_error() {
        let mut election = Redis::new(&lock("redis://:s3cret@127.0.0.1:1/", LONG), "one").unwrap();
        let error = election.campaign().await.unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
        let error = Redis::new(&lock("nonsense://:s3cret@x", LONG), "one")
            .map(drop)
            .unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use retryguard_controller::adapters::election::postgres::Postgres;

    use super::*;

    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn one_leads() {
        let server = retryguard_parts::Postgres::start();
        let url = server.url();
        keeps_its_word(|name, term| Postgres::new(&lock(&url, term), name).unwrap()).await;
    }

    /// The server ends every connection, as in a fail-over. An advisory lock of the session would be free now,
    /// while its holder believes that it leads.
    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn a_server_that_restarts_keeps_the_term() {
        let mut server = retryguard_parts::Postgres::start();
        let long = lock(&server.url(), LONG);
        let mut one = Postgres::new(&long, "one").unwrap();
        let mut two = Postgres::new(&long, "two").unwrap();
        assert!(!follows(&answer(&mut one).await));
        server.restart();
        assert!(follows(&answer(&mut two).await));
        assert!(matches!(
            answer(&mut one).await,
            Leadership::Leader { term: 1, .. }
        ));
    }

    /// An upgrade: the table and the row as the first version wrote them, not by this program.
    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn the_lock_of_an_older_controller_is_respected_and_its_terms_go_on() {
        use sqlx::Connection as _;
        let server = retryguard_parts::Postgres::start();
        let mut connection = sqlx::PgConnection::connect(&server.url()).await.unwrap();
        for statement in [
            "CREATE TABLE retryguard_lead (name text PRIMARY KEY, holder text NOT NULL, term bigint NOT NULL, ends timestamptz NOT NULL)",
            "INSERT INTO retryguard_lead VALUES ('test', 'old', 7, clock_timestamp() + interval '10 minutes')",
        ] {
            sqlx::query(statement).execute(&mut connection).await.unwrap();
        }
        let mut new = Postgres::new(&lock(&server.url(), SHORT), "new").unwrap();
        let leader = Some("old".to_owned());
        assert_eq!(answer(&mut new).await, Leadership::Follower { leader });
        assert_eq!(new.every(), SHORT / 3);
        sqlx::query("UPDATE retryguard_lead SET ends = clock_timestamp() + interval '60 milliseconds'")
            .execute(&mut connection)
            .await
            .unwrap();
        if follows(&answer(&mut new).await) {
            assert!(new.every() <= Duration::from_millis(70));
        }
        assert_eq!(wins(&mut new).await, 8);
    }

    /// Twenty candidates reach for a free term, and for the table that holds it.
    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn of_twenty_at_once_one_leads() {
        let server = retryguard_parts::Postgres::start();
        let lock = lock(&server.url(), LONG);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let mut election = Postgres::new(&lock, &format!("number {number}")).unwrap();
            tasks.spawn(async move { answer(&mut election).await });
        }
        let leaders = tasks
            .join_all()
            .await
            .into_iter()
            .filter(|standing| matches!(standing, Leadership::Leader { .. }))
            .count();
        assert_eq!(leaders, 1);
    }
}
