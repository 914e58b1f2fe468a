//! The chart of deploy/helm, rendered and installed by helm itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::Api;
use retryguard_controller::config::Config;
use retryguard_controller::config::election::Election;
use retryguard_parts::need;
use serde_json::{Value, json};

use super::cluster::Cluster;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn helm(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    Command::new(need("helm"))
        .args(arguments)
        .current_dir(deploy().join("helm"))
        // Nothing of the user's own helm is read or written.
        .env("HELM_CACHE_HOME", home.path())
        .env("HELM_CONFIG_HOME", home.path())
        .env("HELM_DATA_HOME", home.path())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs Helm"]
fn the_chart_is_sound_and_refuses_wrong_values() {
    said(&helm(&["lint", "--strict", "retryguard-controller"]));
    for (wrong, told) in [
        ("replicas=two", "replicas"),
        ("replicas=0", "replicas"),
        ("rbac.namespaces={Shop}", "namespaces"),
        ("imagee.tag=1", "imagee"),
        ("config.limits.hold=90s", "config.sources is missing"),
    ] {
        let output = helm(&["template", "guard", "retryguard-controller", "--set", wrong]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && error.contains(told),
            "{wrong}: {error}"
        );
    }
    // A backend of the user's own choice is not joined by ours.
    let redis = "config.leaderElection.redis.urlFile=/etc/redis/url";
    let own = values();
    let text = said(&helm(&[
        "template",
        "guard",
        "retryguard-controller",
        "--values",
        own.path().to_str().unwrap(),
        "--set",
        redis,
    ]));
    assert!(!text.contains("kubernetes:"), "{text}");
    // Helm merges values with the chart's defaults: targets and rights of the example stayed in every installation.
    for foreign in ["reviews", "bookinfo", "virtualservices"] {
        assert!(!text.contains(foreign), "{foreign} is in\n{text}");
    }
    for ours in ["httproutes", "listen: 0.0.0.0:9464"] {
        assert!(text.contains(ours), "{ours} is not in\n{text}");
    }
}

/// Values of a user who has the Gateway API and no Istio.
fn values() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "config:\n  sources: {prometheus: {url: 'http://prometheus:9090'}}\n  actuators: {gateway-api: {namespaces: [shop]}}\n  \
                limits: {hold: 90s}\n  targets:\n    ratings:\n      prometheus: {istio: {service: ratings, namespace: shop}}\n      \
                gateway-api: {service: ratings.shop}\n";
    std::fs::write(file.path(), text).unwrap();
    file
}

/// With its own values the chart is what the kustomization is; an upgrade changes what it says, and a rollback takes it back.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes and Helm"]
async fn the_chart_installs_what_the_kustomization_does() {
    let cluster = Cluster::start().await;
    let kubeconfig = cluster.server.kubeconfig();
    let release = |arguments: &[&str]| {
        let mut all = vec![
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--namespace",
            &cluster.namespace,
        ];
        all.extend(arguments);
        tokio::task::block_in_place(|| said(&helm(&all)))
    };
    release(&["install", "guard", "retryguard-controller"]);

    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let installed = deployments.get("guard").await.unwrap();
    let own = same_as_manifest(&cluster, &installed).await;
    assert_eq!(pod(&installed), pod(&own));
    assert_eq!(installed.spec.as_ref().unwrap().replicas, Some(2));
    let roles: Api<ClusterRole> = Api::all(cluster.client.clone());
    let rules = roles
        .get(&format!("{}-guard", cluster.namespace))
        .await
        .unwrap()
        .rules;
    let manifest = std::fs::read_to_string(deploy().join("kubernetes/role.yaml")).unwrap();
    for rule in rules.unwrap() {
        let verbs = format!("verbs: [{}]", rule.verbs.join(", "));
        assert!(manifest.contains(&verbs), "{verbs} is not in role.yaml");
    }
    let leases: Api<Role> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let lease = leases.get("guard-lease").await.unwrap().rules.unwrap();
    assert_eq!(
        lease[1].resource_names.as_deref(),
        Some(&["guard".to_owned()][..])
    );
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let text = maps.get("guard").await.unwrap().data.unwrap()["controller.yaml"].clone();
    let config = Config::parse(&text, Path::new(".")).unwrap();
    let Election::Kubernetes(lease) = &config.election else {
        panic!("{:?}", config.election);
    };
    assert_eq!((lease.name.as_str(), config.targets.len()), ("guard", 1));

    let own_values = values();
    release(&[
        "upgrade",
        "guard",
        "retryguard-controller",
        "--set",
        "replicas=3",
        "--values",
        own_values.path().to_str().unwrap(),
    ]);
    let upgraded = deployments.get("guard").await.unwrap();
    assert_eq!(upgraded.spec.as_ref().unwrap().replicas, Some(3));
    assert_ne!(
        pod(&upgraded),
        pod(&installed),
        "a new configuration makes new pods"
    );
    release(&["rollback", "guard", "1"]);
    let back = deployments.get("guard").await.unwrap();
    assert_eq!(back.spec, installed.spec);
    let again = maps.get("guard").await.unwrap().data.unwrap()["controller.yaml"].clone();
    assert_eq!(again, text);
    release(&["uninstall", "guard"]);
    assert!(deployments.get_opt("guard").await.unwrap().is_none());
}

/// The kustomization's Deployment, as the server fills it in.
async fn same_as_manifest(cluster: &Cluster, installed: &Deployment) -> Deployment {
    let text = std::fs::read_to_string(deploy().join("kubernetes/deployment.yaml")).unwrap();
    let text = text
        .replace(
            "namespace: retryguard\n",
            &format!("namespace: {}\n", cluster.namespace),
        )
        .replace("  name: retryguard-controller\n", "  name: own\n");
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", cluster.namespace);
    super::cluster::post(&cluster.client, &path, &text).await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut own = deployments.get("own").await.unwrap();
    // What differs by design: names, the label of the release, and the checksum of the configuration.
    let template = &mut own.spec.as_mut().unwrap().template;
    let theirs = &installed.spec.as_ref().unwrap().template;
    template.metadata.clone_from(&theirs.metadata);
    let (spec, theirs) = (template.spec.as_mut().unwrap(), theirs.spec.as_ref().unwrap());
    assert_eq!(theirs.service_account_name.as_deref(), Some("guard"));
    spec.service_account_name.clone_from(&theirs.service_account_name);
    spec.service_account.clone_from(&theirs.service_account);
    spec.volumes.clone_from(&theirs.volumes);
    let spread = spec.topology_spread_constraints.iter_mut().flatten();
    for (own, theirs) in spread.zip(theirs.topology_spread_constraints.iter().flatten()) {
        own.label_selector.clone_from(&theirs.label_selector);
    }
    own
}

fn pod(deployment: &Deployment) -> Value {
    json!(deployment.spec.as_ref().unwrap().template)
}
