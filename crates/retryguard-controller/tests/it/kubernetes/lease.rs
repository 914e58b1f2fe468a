use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use retryguard_controller::adapters::election::kubernetes::Lease;
use retryguard_controller::clock::{Clock, sleep};
use retryguard_controller::reconcile::election::{LeaderElection as _, Leadership};
use retryguard_core::Instant;
use retryguard_parts::Kubernetes;
use serde_json::json;

use super::cluster::{Cluster, client};

/// Ends within a test. Questions may take a fifth of it, so it is no shorter.
const SHORT: Duration = Duration::from_secs(5);
/// Does not end within a test, however slow the machine.
const LONG: Duration = Duration::from_secs(300);

fn lease(cluster: &Cluster, instance: &str, term: Duration) -> Lease {
    Lease::new(
        cluster.client.clone(),
        &cluster.namespace,
        "guard",
        instance,
        term,
    )
}

/// The first answer: on a slow machine a question may take longer than a short term allows.
async fn answer(lease: &mut Lease) -> Leadership {
    for _ in 0..600 {
        if let Ok(standing) = lease.campaign().await {
            return standing;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("no answer");
}

/// Asks until the answer is yes.
async fn wins(lease: &mut Lease) -> u64 {
    for _ in 0..600 {
        if let Some(number) = term(&answer(lease).await) {
            return number;
        }
        sleep(Duration::from_millis(200)).await;
    }
    panic!("never leads");
}

fn term(standing: &Leadership) -> Option<u64> {
    match standing {
        Leadership::Leader { term, .. } => Some(*term),
        Leadership::Follower { .. } => None,
    }
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_first_leads_the_second_follows_and_takes_over_at_once_when_the_first_resigns() {
    let cluster = Cluster::start().await;
    let (mut one, mut two) = (lease(&cluster, "one", LONG), lease(&cluster, "two", LONG));
    let first = one.campaign().await.unwrap();
    let Leadership::Leader {
        term: number, lasts, ..
    } = first
    else {
        panic!("{first:?}")
    };
    assert!(lasts < LONG);
    let leader = Some(one.identity().to_owned());
    assert_eq!(two.campaign().await.unwrap(), Leadership::Follower { leader });
    assert_eq!(
        term(&one.campaign().await.unwrap()),
        Some(number),
        "the same while it is kept"
    );
    two.resign().await.unwrap();
    assert_eq!(
        term(&one.campaign().await.unwrap()),
        Some(number),
        "only the holder can resign"
    );
    one.resign().await.unwrap();
    let next = term(&two.campaign().await.unwrap()).unwrap();
    assert!(next > number);
    assert_eq!(term(&one.campaign().await.unwrap()), None);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_lease_is_handed_over_to_the_controller_that_asks() {
    let cluster = Cluster::start().await;
    let mut all = ["one", "two", "three"].map(|instance| lease(&cluster, instance, LONG));
    let [one, two, three] = &mut all;
    let asked_by = |standing: &Leadership| match standing {
        Leadership::Leader { asked_by, .. } => asked_by.clone(),
        Leadership::Follower { .. } => panic!("lost: {standing:?}"),
    };
    let number = term(&one.campaign().await.unwrap()).unwrap();
    two.ask(true);
    // Its second question writes nothing: it would only disturb the leader.
    for _ in 0..2 {
        assert_eq!(term(&two.campaign().await.unwrap()), None);
    }
    two.ask(false);
    let standing = one.campaign().await.unwrap();
    assert_eq!(asked_by(&standing).as_deref(), Some(two.identity()));
    assert_eq!(
        asked_by(&one.campaign().await.unwrap()),
        None,
        "a request is answered once"
    );
    three.hand_over("four").await.unwrap();
    assert_eq!(
        term(&one.campaign().await.unwrap()),
        Some(number),
        "only the holder can hand over"
    );
    let to = two.identity().to_owned();
    one.hand_over(&to).await.unwrap();
    assert_eq!(term(&one.campaign().await.unwrap()), None);
    assert_eq!(term(&three.campaign().await.unwrap()), None);
    assert_eq!(term(&two.campaign().await.unwrap()), Some(number + 1));
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn of_many_that_reach_for_a_free_lease_one_gets_it() {
    let cluster = Cluster::start().await;
    let mut all: Vec<Lease> = (0..8)
        .map(|number| lease(&cluster, &number.to_string(), LONG))
        .collect();
    for _ in 0..3 {
        let mut tasks = Vec::new();
        for mut one in all.drain(..) {
            tasks.push(tokio::spawn(async move {
                let standing = one.campaign().await.unwrap();
                (one, standing)
            }));
        }
        let mut leaders = Vec::new();
        for task in tasks {
            let (one, standing) = task.await.unwrap();
            if term(&standing).is_some() {
                leaders.push(all.len());
            }
            all.push(one);
        }
        // A candidate that resigns before all have asked makes the Lease free for the slowest of them.
        assert_eq!(leaders.len(), 1);
        all[leaders[0]].resign().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_leader_that_died_is_followed_after_a_whole_term_however_wrong_its_clock_was() {
    let cluster = Cluster::start().await;
    let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    for wrong in ["1999-01-01T00:00:00.000000Z", "2222-01-01T00:00:00.000000Z"] {
        let (mut dead, mut heir) = (lease(&cluster, "dead", SHORT), lease(&cluster, "heir", SHORT));
        let number = wins(&mut dead).await;
        let patch = json!({"spec": {"renewTime": wrong, "acquireTime": wrong}});
        api.patch("guard", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        let clock = Clock::start();
        let first = clock.now();
        assert_eq!(
            term(&answer(&mut heir).await),
            None,
            "seen for the first time just now"
        );
        let next = wins(&mut heir).await;
        assert!(clock.now().since(first) >= SHORT, "not before the term has ended");
        assert!(next > number);
        // The heir's term may have ended meanwhile on a slow machine; a number is never given twice.
        assert_ne!(term(&answer(&mut dead).await), Some(number));
        heir.resign().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_number_of_the_term_rises_even_when_the_lease_is_deleted() {
    let cluster = Cluster::start().await;
    let mut one = lease(&cluster, "one", LONG);
    let number = term(&one.campaign().await.unwrap()).unwrap();
    sleep(Duration::from_millis(1_100)).await;
    let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    api.delete("guard", &DeleteParams::default()).await.unwrap();
    assert!(term(&one.campaign().await.unwrap()).unwrap() > number);
}

/// A server of its own, because it is paused: tests that share one would be paused too.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn behind_a_partition_no_leader_outlasts_its_term_and_another_follows() {
    let mut server = tokio::task::spawn_blocking(Kubernetes::start).await.unwrap();
    let client = client(&server.kubeconfig()).await;
    let new = |instance: &str| Lease::new(client.clone(), "default", "guard", instance, SHORT);
    let (mut one, mut two) = (Believer::new(new("one")), Believer::new(new("two")));
    let clock = Clock::start();
    let alone = |one: &Believer, two: &Believer| {
        let now = clock.now();
        assert!(!(one.leads(now) && two.leads(now)), "never two at a time");
    };
    for _ in 0..600 {
        one.ask(&clock).await;
        two.ask(&clock).await;
        alone(&one, &two);
        if one.leads(clock.now()) {
            break;
        }
    }
    assert!(one.leads(clock.now()));
    server.process().pause();
    // No verdict: what was believed holds until its end, and no longer.
    for _ in 0..600 {
        one.ask(&clock).await;
        two.ask(&clock).await;
        alone(&one, &two);
        if !one.leads(clock.now()) {
            break;
        }
    }
    assert!(!one.leads(clock.now()), "a term without an end");
    server.process().resume();
    // The first one has died meanwhile.
    for _ in 0..600 {
        two.ask(&clock).await;
        alone(&one, &two);
        if two.leads(clock.now()) {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
    panic!("no candidate leads after the partition");
}

/// A controller, as far as it believes to lead.
struct Believer {
    lease: Lease,
    until: Option<Instant>,
}

impl Believer {
    fn new(lease: Lease) -> Self {
        Self { lease, until: None }
    }

    async fn ask(&mut self, clock: &Clock) {
        let asked = clock.now();
        if let Ok(standing) = self.lease.campaign().await {
            self.until = match standing {
                Leadership::Leader { lasts, .. } => Some(asked.after(lasts)),
                Leadership::Follower { .. } => None,
            };
        }
    }

    fn leads(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}
