//! Tools that apply the user's manifests again and again, as docs/guides/istio.md tells to configure them.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use kube::api::{Patch, PatchParams};
use retryguard_controller::clock::sleep;
use retryguard_controller::domain::state::{Observed, RetryState};
use serde_json::{Value, json};

use super::cluster::{Cluster, RAMP, apply, found, off, to};

fn manifest() -> Value {
    json!({"hosts": ["a"], "http": [{"name": "main", "route": to("a"), "retries": {"attempts": 4}}]})
}

/// A reconciler of manifests that are in `git`. As Argo CD with `ignoreDifferences` for `.spec.http[].retries` and
/// `RespectIgnoreDifferences=true`, it takes these fields from the cluster before it compares and before it writes.
struct Reconciler {
    git: Arc<Mutex<Value>>,
    rounds: Arc<AtomicU32>,
    writes: Arc<AtomicU32>,
    task: tokio::task::JoinHandle<()>,
}

impl Reconciler {
    fn start(cluster: &Cluster) -> Self {
        let git = Arc::new(Mutex::new(manifest()));
        let (rounds, writes) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
        let objects = cluster.objects();
        let (own_git, own_rounds, own_writes) = (Arc::clone(&git), Arc::clone(&rounds), Arc::clone(&writes));
        let task = tokio::spawn(async move {
            loop {
                let live = objects.get("a").await.unwrap().data["spec"].clone();
                let mut wanted = own_git.lock().unwrap().clone();
                for (route, held) in routes(&mut wanted)
                    .iter_mut()
                    .zip(live["http"].as_array().unwrap())
                {
                    let route = route.as_object_mut().unwrap();
                    match held.get("retries") {
                        Some(retries) => route.insert("retries".to_owned(), retries.clone()),
                        None => route.remove("retries"),
                    };
                }
                if wanted != live {
                    own_writes.fetch_add(1, Ordering::Relaxed);
                    let patch = Patch::Merge(json!({"spec": wanted}));
                    objects.patch("a", &PatchParams::default(), &patch).await.unwrap();
                }
                own_rounds.fetch_add(1, Ordering::Relaxed);
                sleep(std::time::Duration::from_millis(20)).await;
            }
        });
        Self {
            git,
            rounds,
            writes,
            task,
        }
    }

    /// Waits until it has looked at everything that is there now.
    async fn settled(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        while self.rounds.load(Ordering::Relaxed) < before + 2 {
            assert!(!self.task.is_finished(), "the reconciler has failed");
            sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

fn routes(spec: &mut Value) -> &mut Vec<Value> {
    spec["http"].as_array_mut().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes"]
async fn a_reconciler_that_ignores_the_retries_leaves_the_guard_its_work() {
    let cluster = Cluster::start().await;
    cluster.create("a", manifest()).await;
    let istio = cluster.istio(&["a"]);
    let reconciler = Reconciler::start(&cluster);
    for episode in 1_u32..=3 {
        apply(&istio, "a", RetryState::Off).await;
        reconciler.settled().await;
        assert_eq!(cluster.spec("a").await["http"][0]["retries"], off());
        // Another field changes in the manifests while retries are off.
        let timeout = format!("{episode}s");
        routes(&mut reconciler.git.lock().unwrap())[0]["timeout"] = json!(timeout);
        reconciler.settled().await;
        let spec = cluster.spec("a").await;
        assert_eq!(
            (&spec["http"][0]["timeout"], &spec["http"][0]["retries"]),
            (&json!(timeout), &off())
        );
        apply(&istio, "a", RAMP[0]).await;
        reconciler.settled().await;
        let [(_, Observed::Managed(_))] = found(&istio).await[..] else {
            panic!("the retries are held as before")
        };
        apply(&istio, "a", RetryState::Original).await;
        reconciler.settled().await;
        assert_eq!(cluster.spec("a").await, *reconciler.git.lock().unwrap());
        assert_eq!(
            reconciler.writes.load(Ordering::Relaxed),
            episode,
            "one write for each edit"
        );
    }
    reconciler.task.abort();
}

/// As Flux, which applies on the server: it is notified of a conflict, and with force takes the whole list back. That is not fought.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn an_apply_on_the_server_conflicts_and_with_force_it_stands() {
    let cluster = Cluster::start().await;
    let object = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "a"}, "spec": manifest(),
    });
    let flux = PatchParams::apply("flux");
    let objects = cluster.objects();
    objects.patch("a", &flux, &Patch::Apply(&object)).await.unwrap();
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    let refused = objects.patch("a", &flux, &Patch::Apply(&object)).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 409 && status.message.contains(".spec.http")),
        "{refused:?}"
    );
    assert_eq!(
        cluster.spec("a").await["http"][0]["retries"],
        off(),
        "a conflict changes nothing"
    );
    objects
        .patch("a", &flux.clone().force(), &Patch::Apply(&object))
        .await
        .unwrap();
    let [(_, Observed::Overridden(_))] = &found(&istio).await[..] else {
        panic!("what the tool wrote stands")
    };
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(cluster.spec("a").await, manifest());
    assert_eq!(found(&istio).await, []);
}
