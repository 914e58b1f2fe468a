use retryguard_controller::domain::state::{Change, Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::{Actuator as _, ActuatorError};
use serde_json::{Value, json};

use super::cluster::{Cluster, RAMP, apply, found, off, to};

fn bookinfo() -> Value {
    json!({
        "hosts": ["reviews"],
        "gateways": ["mesh", "bookinfo"],
        "http": [
            {"name": "v2", "match": [{"headers": {"end-user": {"exact": "jason"}}}], "route": to("reviews"),
             "retries": {"attempts": 5, "retryOn": "5xx,reset", "perTryTimeout": "2s", "backoff": "25ms", "share": 0.1}},
            {"route": to("ratings"), "retries": {"attempts": 3}, "timeout": "10s"},
            {"route": [{"destination": {"host": "reviews", "subset": "v1"}, "weight": 90},
                       {"destination": {"host": "reviews", "subset": "v3"}, "weight": 10}],
             "fault": {"delay": {"fixedDelay": "1s", "percentage": {"value": 0.30000000000000004}}}},
        ],
        "tcp": [{"route": to("reviews")}],
    })
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn retries_go_off_come_back_by_steps_and_end_as_they_were_to_the_byte() {
    let cluster = Cluster::start().await;
    cluster.create("reviews", bookinfo()).await;
    let before = cluster.text("reviews").await;
    let istio = cluster.istio(&["reviews", "ratings"]);
    assert_eq!(found(&istio).await, []);

    apply(&istio, "reviews", RetryState::Off).await;
    let spec = cluster.spec("reviews").await;
    assert_eq!(
        spec["http"][0]["retries"],
        off(),
        "alone, as Istio's validation wants"
    );
    assert_eq!(spec["http"][1], bookinfo()["http"][1], "another target's");
    assert_eq!(spec["http"][2]["retries"], off());
    assert_eq!(
        found(&istio).await,
        [("reviews".to_owned(), Observed::Managed(RetryState::Off))]
    );

    for (desired, attempts) in RAMP.into_iter().zip([[1, 1], [2, 1], [3, 1]]) {
        let losses = apply(&istio, "reviews", desired).await;
        let spec = cluster.spec("reviews").await;
        assert_eq!(spec["http"][0]["retries"]["attempts"], attempts[0]);
        assert_eq!(spec["http"][0]["retries"]["retryOn"], "5xx,reset");
        assert_eq!(spec["http"][2]["retries"], json!({"attempts": attempts[1]}));
        assert!(
            losses.iter().any(|loss| loss.0.contains("whole retries")),
            "{losses:?}"
        );
        assert_eq!(
            found(&istio).await,
            [("reviews".to_owned(), Observed::Managed(desired))]
        );
    }

    apply(&istio, "reviews", RetryState::Original).await;
    assert_eq!(cluster.text("reviews").await, before);
    assert_eq!(found(&istio).await, []);

    let events = cluster.events("reviews").await;
    let reasons: Vec<&str> = events.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "RetriesOff",
            "RetriesRamping",
            "RetriesRamping",
            "RetriesRamping",
            "RetriesRestored"
        ]
    );
    assert!(
        events
            .iter()
            .all(|(_, note)| note.contains("40.0 % above 20.0 %"))
    );
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn what_is_as_wanted_is_not_written_again() {
    let cluster = Cluster::start().await;
    cluster.create("reviews", bookinfo()).await;
    let istio = cluster.istio(&["reviews"]);
    let version = || async {
        cluster
            .objects()
            .get("reviews")
            .await
            .unwrap()
            .metadata
            .resource_version
    };
    apply(&istio, "reviews", RetryState::Original).await;
    let first = version().await;
    apply(&istio, "reviews", RetryState::Off).await;
    let second = version().await;
    assert_ne!(first, second);
    apply(&istio, "reviews", RetryState::Off).await;
    assert_eq!(version().await, second);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn routes_are_found_in_every_object_and_under_every_form_of_the_host() {
    let cluster = Cluster::start().await;
    let namespace = &cluster.namespace;
    let forms = [
        "reviews".to_owned(),
        format!("reviews.{namespace}"),
        format!("reviews.{namespace}.svc"),
        format!("reviews.{namespace}.svc.cluster.local"),
    ];
    for (number, form) in forms.iter().enumerate() {
        let spec =
            json!({"hosts": ["reviews"], "http": [{"route": to(form)}, {"route": to("reviews.elsewhere")}]});
        cluster.create(&format!("v{number}"), spec).await;
    }
    let istio = cluster.istio(&["reviews"]);
    apply(&istio, "reviews", RetryState::Off).await;
    for number in 0..forms.len() {
        let spec = cluster.spec(&format!("v{number}")).await;
        assert_eq!(spec["http"][0]["retries"], off());
        assert_eq!(spec["http"][1].get("retries"), None);
    }
    apply(&istio, "reviews", RetryState::Original).await;
    for number in 0..forms.len() {
        let spec = cluster.spec(&format!("v{number}")).await;
        assert_eq!(
            spec["http"][0].get("retries"),
            None,
            "Istio's default is not a block"
        );
    }
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn all_concurrent_writers_are_kept() {
    let cluster = Cluster::start().await;
    cluster.create("reviews", bookinfo()).await;
    let before = cluster.text("reviews").await;
    let istio = cluster.istio(&["reviews", "ratings"]);
    // Another process writes labels into the same object as fast as the server takes them: most of our first
    // writes are stale.
    let writer = async {
        for number in 0..60 {
            let label =
                json!([{"op": "add", "path": "/metadata/labels", "value": {"n": number.to_string()}}]);
            cluster.patch("reviews", label).await;
        }
    };
    let switch = |target: &'static str| {
        let istio = &istio;
        async move {
            for desired in [
                RetryState::Off,
                RAMP[1],
                RetryState::Off,
                RetryState::Original,
                RetryState::Off,
            ] {
                // Only a conflict that lasts through all tries is told; the loop then asks again.
                let change = Change {
                    target: TargetName::new(target),
                    desired,
                    why: "test".to_owned(),
                    term: 1,
                };
                loop {
                    match istio.apply(&change).await {
                        Ok(_) => break,
                        Err(ActuatorError::Busy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    };
    tokio::join!(writer, switch("reviews"), switch("ratings"));
    let spec = cluster.spec("reviews").await;
    for route in 0..3 {
        assert_eq!(spec["http"][route]["retries"], off());
    }
    apply(&istio, "reviews", RetryState::Original).await;
    apply(&istio, "ratings", RetryState::Original).await;
    cluster
        .patch("reviews", json!([{"op": "remove", "path": "/metadata/labels"}]))
        .await;
    assert_eq!(cluster.text("reviews").await, before);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_route_of_two_targets_follows_the_stricter_one() {
    let cluster = Cluster::start().await;
    let both =
        json!([{"destination": {"host": "a"}, "weight": 50}, {"destination": {"host": "b"}, "weight": 50}]);
    cluster
        .create(
            "both",
            json!({"hosts": ["a"], "http": [{"route": both, "retries": {"attempts": 4}}]}),
        )
        .await;
    let before = cluster.text("both").await;
    let istio = cluster.istio(&["a", "b"]);
    let losses = apply(&istio, "a", RetryState::Off).await;
    assert!(
        losses.iter().any(|loss| loss.0.contains("also sends to b.")),
        "{losses:?}"
    );
    apply(&istio, "b", RAMP[2]).await;
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(
        cluster.spec("both").await["http"][0]["retries"],
        json!({"attempts": 2})
    );
    apply(&istio, "b", RetryState::Original).await;
    assert_eq!(cluster.text("both").await, before);
}
