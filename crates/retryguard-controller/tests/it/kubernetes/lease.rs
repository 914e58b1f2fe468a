use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use retryguard_controller::clock::sleep;
use retryguard_controller::lead::kubernetes::Lease;
use retryguard_controller::lead::{Lead as _, Standing};
use retryguard_parts::Kubernetes;
use serde_json::json;

use super::cluster::{Cluster, client};

/// The shortest term that can be configured.
const TERM: Duration = Duration::from_secs(3);

fn lease(cluster: &Cluster, instance: &str) -> Lease {
    Lease::new(
        cluster.client.clone(),
        &cluster.namespace,
        "guard",
        instance,
        TERM,
    )
}

fn term(standing: &Standing) -> Option<u64> {
    match standing {
        Standing::Leading { term, .. } => Some(*term),
        Standing::Following { .. } => None,
    }
}

#[tokio::test]
async fn the_first_leads_the_second_follows_and_takes_over_at_once_when_the_first_resigns() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let (mut one, mut two) = (lease(&cluster, "one"), lease(&cluster, "two"));
    let first = one.ask().await.unwrap();
    let Standing::Leading { term: number, lasts } = first else {
        panic!("{first:?}")
    };
    assert!(lasts < TERM);
    let leader = Some(one.identity().to_owned());
    assert_eq!(two.ask().await.unwrap(), Standing::Following { leader });
    assert_eq!(
        term(&one.ask().await.unwrap()),
        Some(number),
        "the same while it is kept"
    );
    two.resign().await.unwrap();
    assert_eq!(
        term(&one.ask().await.unwrap()),
        Some(number),
        "only the holder can resign"
    );
    one.resign().await.unwrap();
    let next = term(&two.ask().await.unwrap()).unwrap();
    assert!(next > number);
    assert_eq!(term(&one.ask().await.unwrap()), None);
}

#[tokio::test]
async fn of_many_that_reach_for_a_free_lease_one_gets_it() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let mut all: Vec<Lease> = (0..8)
        .map(|number| lease(&cluster, &number.to_string()))
        .collect();
    for _ in 0..3 {
        let mut tasks = Vec::new();
        for mut one in all.drain(..) {
            tasks.push(tokio::spawn(async move {
                let standing = one.ask().await.unwrap();
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
        // Whoever resigns before all have asked makes the Lease free for the slowest of them.
        assert_eq!(leaders.len(), 1);
        all[leaders[0]].resign().await.unwrap();
    }
}

#[tokio::test]
async fn a_leader_that_died_is_followed_after_a_whole_term_however_wrong_its_clock_was() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    for wrong in ["1999-01-01T00:00:00.000000Z", "2222-01-01T00:00:00.000000Z"] {
        let (mut dead, mut heir) = (lease(&cluster, "dead"), lease(&cluster, "heir"));
        let number = term(&dead.ask().await.unwrap()).unwrap();
        let patch = json!({"spec": {"renewTime": wrong, "acquireTime": wrong}});
        api.patch("guard", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        assert_eq!(
            term(&heir.ask().await.unwrap()),
            None,
            "seen for the first time just now"
        );
        let clock = retryguard_controller::clock::Clock::start();
        let first = clock.now();
        let next = loop {
            if let Some(next) = term(&heir.ask().await.unwrap()) {
                break next;
            }
            sleep(heir.every()).await;
        };
        assert!(
            clock.now().since(first) + Duration::from_millis(500) >= TERM,
            "not before the term has ended"
        );
        assert!(next > number);
        assert_eq!(term(&dead.ask().await.unwrap()), None);
        heir.resign().await.unwrap();
    }
}

#[tokio::test]
async fn the_number_of_the_term_rises_even_when_the_lease_is_deleted() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let mut one = lease(&cluster, "one");
    let number = term(&one.ask().await.unwrap()).unwrap();
    sleep(Duration::from_millis(1_100)).await;
    let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    api.delete("guard", &DeleteParams::default()).await.unwrap();
    assert!(term(&one.ask().await.unwrap()).unwrap() > number);
}

/// A server of its own, because it is held still: whoever shares one would stand still too.
#[tokio::test]
async fn behind_a_partition_nobody_leads_longer_than_the_term_and_one_leads_after_it() {
    let Some(mut server) = tokio::task::spawn_blocking(Kubernetes::start).await.unwrap() else {
        return;
    };
    let client = client(&server.kubeconfig()).await;
    let new = |instance: &str| Lease::new(client.clone(), "default", "guard", instance, TERM);
    let (mut one, mut two) = (new("one"), new("two"));
    let clock = retryguard_controller::clock::Clock::start();
    // What each believes: until when it leads, on the one clock that this test has.
    let mut until = [None, None];
    let mut overlaps = 0;
    let mut changes = 0;
    for round in 0..40 {
        if round == 6 {
            server.process().pause();
        }
        if round == 16 {
            server.process().resume();
        }
        for (number, lease) in [&mut one, &mut two].into_iter().enumerate() {
            // The first one dies after the partition.
            if round >= 16 && number == 0 {
                continue;
            }
            let asked = clock.now();
            // No verdict: what was believed holds until its end.
            if let Ok(standing) = lease.ask().await {
                let before = until[number].is_some();
                until[number] = match standing {
                    Standing::Leading { lasts, .. } => Some(asked.after(lasts)),
                    Standing::Following { .. } => None,
                };
                changes += u32::from(before != until[number].is_some());
            }
            let now = clock.now();
            overlaps += u32::from(until.iter().all(|until| until.is_some_and(|until| until > now)));
        }
        sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(overlaps, 0, "never two at a time");
    assert!(
        until[1].is_some_and(|until| until > clock.now()),
        "the other one leads at the end"
    );
    assert!(changes >= 2);
}
