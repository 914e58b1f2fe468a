use retryguard_controller::actuator::{Held, Wish};
use serde_json::json;

use super::cluster::{Cluster, RAMP, apply, found, to};

#[tokio::test]
async fn whoever_comes_after_a_crash_finds_everything_and_gives_it_back() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let spec = json!({"hosts": ["a"], "http": [
        {"route": to("a"), "retries": {"attempts": 4, "retryOn": "5xx"}},
        {"route": to("b")},
    ]});
    cluster.create("both", spec).await;
    let before = cluster.text("both").await;
    let killed = cluster.istio(&["a", "b", "c"]);
    apply(&killed, "a", Wish::Off).await;
    apply(&killed, "b", RAMP[1]).await;
    apply(&killed, "c", Wish::Off).await;
    drop(killed);
    // The configuration has changed meanwhile: nobody knows `b` and `c` any more.
    let next = cluster.istio(&["a"]);
    let all = [("a", Wish::Off), ("b", RAMP[1]), ("c", Wish::Off)]
        .map(|(target, wish)| (target.to_owned(), Held::Ours(wish)));
    assert_eq!(found(&next).await, all);
    for target in ["a", "b", "c"] {
        apply(&next, target, Wish::Original).await;
    }
    assert_eq!(cluster.text("both").await, before);
    assert_eq!(cluster.names().await, ["both"]);
}

#[tokio::test]
async fn killed_half_way_through_several_objects_is_seen_as_neither_off_nor_original() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let spec = json!({"hosts": ["a"], "http": [{"route": to("a"), "retries": {"attempts": 4}}]});
    cluster.create("one", spec.clone()).await;
    let killed = cluster.istio(&["a"]);
    apply(&killed, "a", Wish::Off).await;
    cluster.create("two", spec.clone()).await;
    let next = cluster.istio(&["a"]);
    let [(_, Held::Ours(wish))] = found(&next).await[..] else {
        panic!("not found")
    };
    assert!(wish != Wish::Off && wish != Wish::Original);
    apply(&next, "a", Wish::Original).await;
    for name in ["one", "two"] {
        assert_eq!(cluster.spec(name).await, spec);
    }
}
