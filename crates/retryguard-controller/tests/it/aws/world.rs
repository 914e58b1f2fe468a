//! An emulator, a way to it that can fail, and the user who works with it beside us.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{Environment, FunctionCode, LastUpdateStatus, Runtime};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use retryguard_controller::clock::sleep;
use retryguard_controller::config::Config;
use retryguard_controller::config::aws::AwsAccess;
use retryguard_controller::domain::state::{Change, Loss, Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::{Actuator, ActuatorError};
use retryguard_controller::reconcile::source::Source;
use retryguard_controller::start;
use retryguard_core::Ratio;
use retryguard_parts::{Aws, AwsKind};

pub(super) const RAMP: [RetryState; 3] = [part(0, 125_000_000), part(1, 250_000_000), part(2, 500_000_000)];

const fn part(step: u8, parts: u64) -> RetryState {
    RetryState::Part {
        step,
        share: Ratio::from_parts(parts),
    }
}

/// A part of an emulator that no other test sees: an account on the one, a region on the other.
pub(super) struct World {
    pub(super) aws: Arc<Aws>,
    /// The user's own settings of the SDK.
    pub(super) sdk: aws_config::SdkConfig,
    /// What stands between the controller and the emulator.
    pub(super) way: Arc<FaultyProxy>,
    address: String,
    region: &'static str,
    account: u32,
    credentials: String,
}

/// How long a question may take: the emulators are slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const REGIONS: [&str; 12] = [
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "us-east-1",
    "us-west-2",
];

impl World {
    pub(super) async fn start(kind: AwsKind) -> Self {
        let aws = tokio::task::spawn_blocking(move || Aws::shared(kind))
            .await
            .unwrap();
        Self::of(aws).await
    }

    pub(super) async fn of(aws: Arc<Aws>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let region = REGIONS[usize::try_from(number).unwrap() % REGIONS.len()];
        let account = 100 + number;
        let credentials = aws.credentials(account);
        let reach = AwsAccess {
            region: Some(region.to_owned()),
            endpoint: Some(aws.url()),
            credentials_file: Some(credentials.clone().into()),
            profile: None,
            request_timeout: PATIENCE,
        };
        let sdk = retryguard_controller::adapters::aws::configuration("test", &reach)
            .await
            .unwrap();
        let (way, address) = FaultyProxy::open(aws.url()).await;
        Self {
            aws,
            sdk,
            way,
            address,
            region,
            account,
            credentials,
        }
    }

    /// The key and the region that a program signs with.
    pub(super) fn identity(&self) -> (String, &'static str) {
        (format!("{:012}", self.account), self.region)
    }

    /// The keys by which a configuration reaches the emulator.
    pub(super) fn reach(&self) -> String {
        self.reach_at(&self.address)
    }

    /// As [`World::reach`], by another address.
    pub(super) fn reach_at(&self, endpoint: &str) -> String {
        let (region, file, retry) = (self.region, &self.credentials, PATIENCE.as_secs());
        format!(
            "region: {region}, endpoint: \"{endpoint}\", credentialsFile: \"{file}\", requestTimeout: {retry}s"
        )
    }

    /// The actuator of a configuration whose targets are these lines of YAML.
    pub(super) async fn actuator(&self, targets: &str) -> Arc<dyn Actuator> {
        let targets = with_source(targets);
        let text = format!(
            "sources: {{prometheus: {{url: \"http://127.0.0.1:1\"}}}}\nactuators: {{aws: {{{}}}}}\ntargets:\n{targets}",
            self.reach()
        );
        start::actuators(&config(&text)).await.unwrap().pop().unwrap()
    }

    /// The source of a configuration whose targets are these lines of YAML.
    pub(super) async fn source(&self, targets: &str) -> Box<dyn Source> {
        let text = format!(
            "sources: {{cloudwatch: {{{}}}}}\nactuators: {{istio: {{}}}}\nlimits: {{staleAfter: 5m, hold: 10m}}\ntargets:\n{targets}",
            self.reach()
        );
        start::sources(&config(&text)).await.unwrap().pop().unwrap()
    }

    pub(super) fn lambda(&self) -> aws_sdk_lambda::Client {
        aws_sdk_lambda::Client::new(&self.sdk)
    }

    pub(super) fn ssm(&self) -> aws_sdk_ssm::Client {
        aws_sdk_ssm::Client::new(&self.sdk)
    }

    /// The role that functions take on: one emulator wants it to exist.
    async fn create_role(&self) {
        let (account, region) = self.identity();
        let signed = format!(
            "AWS4-HMAC-SHA256 Credential={account}/20260101/{region}/iam/aws4_request, SignedHeaders=host, Signature=0"
        );
        let answer = reqwest::Client::new()
            .post(self.aws.url())
            .header("authorization", signed)
            .header("content-type", "application/x-www-form-urlencoded")
            .body("Action=CreateRole&Version=2010-05-08&RoleName=test&AssumeRolePolicyDocument=%7B%7D")
            .send()
            .await
            .unwrap();
        let status = answer.status().as_u16();
        // The accounts of the other emulator are one: another test may have been first.
        assert!(status == 200 || status == 409, "{status}");
    }

    /// A Python function that answers with its number of attempts.
    pub(super) async fn create_function(&self, name: &str, variables: &[(&str, &str)]) {
        self.create_role().await;
        let code = "import os\ndef handler(event, context):\n    return os.environ.get('AWS_MAX_ATTEMPTS', 'unset')\n";
        let code = FunctionCode::builder()
            .zip_file(Blob::new(zip("app.py", code.as_bytes())))
            .build();
        self.lambda()
            .create_function()
            .function_name(name)
            .runtime(Runtime::Python311)
            .role("arn:aws:iam::123456789012:role/test")
            .handler("app.handler")
            .code(code)
            .environment(environment(variables))
            .send()
            .await
            .unwrap();
        self.updated(name).await;
    }

    /// Waits as every deployment does until the function has taken its configuration on.
    async fn updated(&self, name: &str) {
        for _ in 0..600 {
            let answer = self
                .lambda()
                .get_function_configuration()
                .function_name(name)
                .send()
                .await
                .unwrap();
            if answer.last_update_status() != Some(&LastUpdateStatus::InProgress) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} never takes its configuration on");
    }

    /// The user's own change of a function's whole environment.
    pub(super) async fn set_variables(&self, name: &str, variables: &[(&str, &str)]) {
        self.lambda()
            .update_function_configuration()
            .function_name(name)
            .environment(environment(variables))
            .send()
            .await
            .unwrap();
        self.updated(name).await;
    }

    pub(super) async fn variables(&self, name: &str) -> BTreeMap<String, String> {
        let answer = self
            .lambda()
            .get_function_configuration()
            .function_name(name)
            .send()
            .await
            .unwrap();
        let variables = answer
            .environment()
            .and_then(|environment| environment.variables());
        variables.cloned().unwrap_or_default().into_iter().collect()
    }

    pub(super) async fn put_parameter(&self, name: &str, value: &str) {
        self.ssm()
            .put_parameter()
            .name(name)
            .value(value)
            .r#type(aws_sdk_ssm::types::ParameterType::String)
            .overwrite(true)
            .send()
            .await
            .unwrap();
    }

    pub(super) async fn parameter(&self, name: &str) -> Option<String> {
        let answer = self.ssm().get_parameter().name(name).send().await;
        match answer {
            Ok(answer) => answer.parameter.and_then(|parameter| parameter.value),
            Err(error) if error.as_service_error().unwrap().is_parameter_not_found() => None,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A target needs a source; these tests never ask theirs.
pub(super) fn with_source(targets: &str) -> String {
    targets.replace("{aws:", "{prometheus: {envoy: {}}, aws:")
}

pub(super) fn config(text: &str) -> Config {
    Config::parse(text, Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Environment::builder()
        .set_variables(Some(variables.collect()))
        .build()
}

pub(super) fn change(target: &str, desired: RetryState) -> Change {
    Change {
        target: TargetName::new(target),
        desired,
        why: "a test".to_owned(),
        term: 7,
    }
}

pub(super) async fn try_apply(
    actuator: &dyn Actuator,
    target: &str,
    desired: RetryState,
) -> Result<Vec<Loss>, ActuatorError> {
    actuator.apply(&change(target, desired)).await
}

pub(super) async fn apply(actuator: &dyn Actuator, target: &str, desired: RetryState) -> Vec<Loss> {
    try_apply(actuator, target, desired)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(super) async fn found(actuator: &dyn Actuator) -> Vec<(String, Observed)> {
    let found = actuator.find().await.unwrap_or_else(|error| panic!("{error}"));
    found
        .into_iter()
        .map(|found| (found.target.to_string(), found.held))
        .collect()
}

/// A proxy on loopback that fails as it is instructed to.
#[derive(Default)]
pub(super) struct FaultyProxy {
    upstream: String,
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Rules {
    /// So many requests are answered with this instead of being passed on.
    fail: Option<(u32, Failure)>,
    /// Runs once, before the next change is passed on.
    before_change: Option<tokio::sync::oneshot::Sender<tokio::sync::oneshot::Sender<()>>>,
    /// Requests that have arrived.
    count: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: &'static str,
}

impl FaultyProxy {
    async fn open(upstream: String) -> (Arc<Self>, String) {
        let way = Arc::new(Self {
            upstream,
            rules: Mutex::default(),
        });
        let app = axum::Router::new().fallback(pass).with_state(Arc::clone(&way));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (way, address)
    }

    /// The next `times` requests fail.
    pub(super) fn fail(&self, times: u32, failure: Failure) {
        self.rules.lock().unwrap().fail = Some((times, failure));
    }

    /// How many requests came since this was last asked.
    pub(super) fn count(&self) -> u32 {
        std::mem::take(&mut self.rules.lock().unwrap().count)
    }

    /// Holds the next change back: the answer resolves when it has come, and it is passed on when what it resolves to
    /// is used.
    pub(super) fn hold_change(&self) -> tokio::sync::oneshot::Receiver<tokio::sync::oneshot::Sender<()>> {
        let (send, held) = tokio::sync::oneshot::channel();
        self.rules.lock().unwrap().before_change = Some(send);
        held
    }
}

async fn pass(State(way): State<Arc<FaultyProxy>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 16 * 1024 * 1024).await.unwrap();
    let held = {
        let mut rules = way.rules.lock().unwrap();
        rules.count += 1;
        if let Some((times, failure)) = &mut rules.fail
            && *times > 0
        {
            *times -= 1;
            let headers = [
                ("x-amzn-errortype", failure.kind),
                ("content-type", "application/json"),
            ];
            return (
                StatusCode::from_u16(failure.status).unwrap(),
                headers,
                failure.body,
            )
                .into_response();
        }
        if parts.method == "PUT" {
            rules.before_change.take()
        } else {
            None
        }
    };
    if let Some(held) = held {
        let (go, gone) = tokio::sync::oneshot::channel();
        held.send(go).unwrap();
        let _ = gone.await;
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = reqwest::Client::new()
        .request(parts.method, format!("{}{path}", way.upstream))
        .headers(parts.headers)
        .body(body)
        .send()
        .await
        .unwrap();
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove("transfer-encoding");
    headers.remove("content-length");
    (status, headers, answer.bytes().await.unwrap()).into_response()
}

/// An archive of one file, stored as it is.
fn zip(name: &str, content: &[u8]) -> Vec<u8> {
    let short = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let long = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let mut common = Vec::new();
    // Version, flags, method, time, date; a date of zero is none that readers like.
    for number in [20, 0, 0, 0, 0x21] {
        common.extend(short(number));
    }
    common.extend(crc(content).to_le_bytes());
    common.extend(long(content.len()));
    common.extend(long(content.len()));
    common.extend(short(name.len()));
    common.extend(short(0));
    let mut file = b"PK\x03\x04".to_vec();
    file.extend(&common);
    file.extend(name.as_bytes());
    file.extend(content);
    let directory = file.len();
    file.extend(b"PK\x01\x02");
    file.extend(short(20));
    file.extend(&common);
    // Comment, disk, attributes; readable by all.
    for number in [0, 0, 0] {
        file.extend(short(number));
    }
    file.extend(long(0o644 << 16));
    file.extend(long(0));
    file.extend(name.as_bytes());
    let size = file.len() - directory;
    file.extend(b"PK\x05\x06");
    for number in [0, 0, 1, 1] {
        file.extend(short(number));
    }
    file.extend(long(size));
    file.extend(long(directory));
    file.extend(short(0));
    file
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (0_u32.wrapping_sub(crc & 1)));
        }
    }
    !crc
}
