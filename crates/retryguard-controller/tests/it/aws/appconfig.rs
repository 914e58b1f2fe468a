use aws_sdk_appconfig::Client;
use aws_sdk_appconfig::primitives::Blob;
use aws_sdk_appconfig::types::ReplicateTo;
use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::reconcile::actuator::ActuatorError;
use retryguard_parts::AwsKind;

use super::world::{RAMP, World, apply, found, try_apply};

const ORDERS: &str = "  orders: {aws: {appconfig: {application: shop, environment: prod, profile: limits, \
                      strategy: at-once, pointer: /retries/maxAttempts}}}";

/// With spaces and an order of keys of the user's own.
const DOCUMENT: &str =
    "{ \"retries\": {\"maxAttempts\": 5, \"base\": \"50ms\"},  \"banner\": \"h\u{e9}llo\" }";

/// The user's side of AppConfig.
struct Shop {
    client: Client,
    application: String,
    environment: String,
    profile: String,
    strategy: String,
}

impl Shop {
    async fn open(world: &World) -> Self {
        let client = Client::new(&world.sdk);
        let application = client.create_application().name("shop").send().await.unwrap();
        let application = application.id.unwrap();
        let environment = client
            .create_environment()
            .application_id(&application)
            .name("prod");
        let environment = environment.send().await.unwrap().id.unwrap();
        let profile = client
            .create_configuration_profile()
            .application_id(&application)
            .name("limits")
            .location_uri("hosted");
        let profile = profile.send().await.unwrap().id.unwrap();
        let strategy = client
            .create_deployment_strategy()
            .name("at-once")
            .deployment_duration_in_minutes(0)
            .final_bake_time_in_minutes(0)
            .growth_factor(100.0)
            .replicate_to(ReplicateTo::None);
        let strategy = strategy.send().await.unwrap().id.unwrap();
        Self {
            client,
            application,
            environment,
            profile,
            strategy,
        }
    }

    async fn deploy(&self, document: &str) {
        let version = self
            .client
            .create_hosted_configuration_version()
            .application_id(&self.application)
            .configuration_profile_id(&self.profile)
            .content(Blob::new(document))
            .content_type("application/json")
            .send()
            .await
            .unwrap();
        self.client
            .start_deployment()
            .application_id(&self.application)
            .environment_id(&self.environment)
            .configuration_profile_id(&self.profile)
            .deployment_strategy_id(&self.strategy)
            .configuration_version(version.version_number().to_string())
            .send()
            .await
            .unwrap();
    }

    async fn versions(&self) -> usize {
        let versions = self
            .client
            .list_hosted_configuration_versions()
            .application_id(&self.application)
            .configuration_profile_id(&self.profile)
            .send()
            .await
            .unwrap();
        versions.items().len()
    }

    /// What a caller gets, as a program in any language would poll it.
    async fn polled(&self, world: &World) -> String {
        let http = reqwest::Client::new();
        let session = serde_json::json!({
            "ApplicationIdentifier": self.application,
            "EnvironmentIdentifier": self.environment,
            "ConfigurationProfileIdentifier": self.profile,
        });
        let (account, region) = world.identity();
        let signed = format!(
            "AWS4-HMAC-SHA256 Credential={account}/20260101/{region}/appconfig/aws4_request, SignedHeaders=host, Signature=0"
        );
        let session = http
            .post(format!("{}/configurationsessions", world.aws.url()))
            .header("authorization", &signed)
            .header("content-type", "application/json")
            .body(session.to_string())
            .send()
            .await
            .unwrap();
        let session: serde_json::Value = serde_json::from_str(&session.text().await.unwrap()).unwrap();
        let token = session["InitialConfigurationToken"].as_str().unwrap().to_owned();
        let mut url = reqwest::Url::parse(&format!("{}/configuration", world.aws.url())).unwrap();
        url.query_pairs_mut().append_pair("configuration_token", &token);
        let answer = http
            .get(url)
            .header("authorization", signed)
            .send()
            .await
            .unwrap();
        answer.text().await.unwrap()
    }

    async fn attempts(&self, world: &World) -> u64 {
        let document: serde_json::Value = serde_json::from_str(&self.polled(world).await).unwrap();
        assert_eq!(document["banner"], "h\u{e9}llo");
        document["retries"]["maxAttempts"].as_u64().unwrap()
    }
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn a_polled_number_goes_off_up_the_ramp_and_back_to_the_byte() {
    let world = World::start(AwsKind::Ministack).await;
    let shop = Shop::open(&world).await;
    let actuator = world.actuator(ORDERS).await;
    let nothing = try_apply(&*actuator, "orders", RetryState::Off)
        .await
        .unwrap_err();
    assert!(
        nothing.to_string().contains("deploy a first version"),
        "{nothing}"
    );

    shop.deploy(DOCUMENT).await;
    assert_eq!(shop.attempts(&world).await, 5);
    let mut seen = Vec::new();
    for desired in [RetryState::Off, RAMP[0], RAMP[1], RAMP[2]] {
        apply(&*actuator, "orders", desired).await;
        seen.push(shop.attempts(&world).await);
        assert_eq!(
            found(&*actuator).await,
            [("orders".to_owned(), Observed::Managed(desired))]
        );
        // Versions of ours do not pile up.
        assert_eq!(shop.versions().await, 2);
    }
    assert_eq!(seen, [1, 2, 2, 3]);
    drop(actuator);

    let next = world.actuator(ORDERS).await;
    assert_eq!(
        found(&*next).await,
        [("orders".to_owned(), Observed::Managed(RAMP[2]))]
    );
    apply(&*next, "orders", RetryState::Original).await;
    assert_eq!(shop.polled(&world).await, DOCUMENT);
    assert_eq!(shop.versions().await, 1);
    assert_eq!(found(&*next).await, []);
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn what_is_written_wrongly_is_said_by_its_name() {
    let world = World::start(AwsKind::Ministack).await;
    let shop = Shop::open(&world).await;
    shop.deploy("{\"other\": true}").await;
    let wrong = world.actuator(&ORDERS.replace("prod", "production")).await;
    let error = try_apply(&*wrong, "orders", RetryState::Off).await.unwrap_err();
    assert!(
        error.to_string().contains("no environment `production`"),
        "{error}"
    );
    let actuator = world.actuator(ORDERS).await;
    let error = try_apply(&*actuator, "orders", RetryState::Off)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ActuatorError::Refused { reason, .. } if reason.contains("pointer")),
        "{error}"
    );
    assert_eq!(shop.versions().await, 1);
}

/// A new version of the user's is deployed while retries are off: it is what comes back, to the byte.
#[tokio::test]
#[ignore = "needs Ministack"]
async fn a_version_that_a_user_deploys_meanwhile_is_what_comes_back() {
    let world = World::start(AwsKind::Ministack).await;
    let shop = Shop::open(&world).await;
    shop.deploy(DOCUMENT).await;
    let actuator = world.actuator(ORDERS).await;
    apply(&*actuator, "orders", RetryState::Off).await;
    let newer = DOCUMENT.replace("\"maxAttempts\": 5", "\"maxAttempts\": 8");
    shop.deploy(&newer).await;
    assert_ne!(
        found(&*actuator).await,
        [("orders".to_owned(), Observed::Managed(RetryState::Off))],
        "the loop must say it again"
    );
    apply(&*actuator, "orders", RetryState::Off).await;
    assert_eq!(shop.attempts(&world).await, 1);
    apply(&*actuator, "orders", RetryState::Original).await;
    assert_eq!(shop.polled(&world).await, newer);
    assert_eq!(found(&*actuator).await, []);
}
