//! The keys of the actuator `aws`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::aws::AwsAccess;

/// The variable by which Amazon's SDKs take their number of attempts.
pub const VARIABLE: &str = "AWS_MAX_ATTEMPTS";
/// How many attempts a caller makes by default: the SDKs' standard mode.
pub const ATTEMPTS: u32 = 3;
/// The most functions whose retries one target stands for.
pub const MOST_FUNCTIONS: usize = 100;

/// How Amazon's services are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSettings {
    /// The region or endpoint, and the credentials.
    pub reach: AwsAccess,
    /// The name under which this controller keeps what it must give back of SSM's parameters. Controllers with
    /// different targets in one account each need one of their own.
    pub owner: String,
}

/// Where the retries of a target's callers are configured: at least one place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsTarget {
    /// The environment of Lambda functions that call the target.
    pub lambda: Option<Lambda>,
    /// A parameter that callers read.
    pub ssm: Option<Ssm>,
    /// A hosted configuration that callers poll.
    pub appconfig: Option<AppConfig>,
}

/// Functions that call the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lambda {
    /// Their names.
    pub functions: Vec<String>,
    /// The variable that holds their number of attempts.
    pub variable: String,
    /// How many attempts they make without it.
    pub attempts: u32,
}

/// A parameter of the Systems Manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssm {
    /// Its name.
    pub parameter: String,
    /// How many attempts callers make without it.
    pub attempts: u32,
}

/// A number in a JSON document that AppConfig hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppConfig {
    /// The application's id or name.
    pub application: String,
    /// The environment's id or name.
    pub environment: String,
    /// The configuration profile's id or name.
    pub profile: String,
    /// The deployment strategy's id or name: one without bake time, or a storm waits for it.
    pub strategy: String,
    /// Where the number of attempts stands in the document, as a JSON pointer.
    pub pointer: String,
    /// How many attempts callers make without it.
    pub attempts: u32,
}

impl AwsSettings {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let reach = AwsAccess::read(&mut block, place, mistakes);
        let at = block.at();
        let owner = block
            .text("owner", "a name of this controller's own", mistakes)
            .unwrap_or("retryguard");
        let fits = owner.len() <= 100
            && owner
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if !fits {
            mistakes.add(
                at,
                "`owner` cannot be a part of a parameter's name",
                "write at most 100 letters, digits, - and _",
            );
        }
        block.close(mistakes);
        Some(Self {
            reach,
            owner: owner.to_owned(),
        })
    }
}

impl AwsTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let at = block.at();
        let target = Self {
            lambda: block
                .block("lambda", mistakes)
                .and_then(|inner| Lambda::read(name, inner, mistakes)),
            ssm: block
                .block("ssm", mistakes)
                .and_then(|inner| Ssm::read(inner, mistakes)),
            appconfig: block
                .block("appconfig", mistakes)
                .and_then(|inner| AppConfig::read(inner, mistakes)),
        };
        if target == Self::default() {
            mistakes.add(
                at,
                format!("`{name}` does not say where its callers' retries are configured"),
                "give its aws block at least one of lambda, ssm, appconfig",
            );
            return None;
        }
        Some(target)
    }
}

fn attempts(block: &mut Block<'_>, mistakes: &mut Mistakes) -> u32 {
    block.count("attempts", 1..=100, mistakes).unwrap_or(ATTEMPTS)
}

fn needed(block: &mut Block<'_>, key: &'static str, wanted: &str, mistakes: &mut Mistakes) -> Option<String> {
    let (text, _) = block.need_text(key, wanted, mistakes)?;
    Some(text.to_owned())
}

impl Lambda {
    fn read(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let at = block.at();
        let functions = block.texts(
            "functions",
            "the names of functions that call the target",
            mistakes,
        );
        let functions: Vec<String> = functions
            .unwrap_or_else(|| vec![name])
            .into_iter()
            .map(str::to_owned)
            .collect();
        let variable = block
            .text("variable", "the name of a variable", mistakes)
            .unwrap_or(VARIABLE);
        let attempts = attempts(&mut block, mistakes);
        block.close(mistakes);
        if functions.is_empty() || functions.len() > MOST_FUNCTIONS {
            mistakes.add(
                at,
                format!("{} functions", functions.len()),
                format!("write 1 to {MOST_FUNCTIONS} under `functions:`"),
            );
        }
        // A published version cannot be changed; its alias would hide that nothing happens.
        for function in functions.iter().filter(|name| is_qualified(name)) {
            mistakes.add(
                at,
                format!("`{function}` names a version or an alias, whose environment is fixed"),
                "write the function's name; only what runs as $LATEST can be switched",
            );
        }
        Some(Self {
            functions,
            variable: variable.to_owned(),
            attempts,
        })
    }
}

/// `name:alias`, or an ARN with one part too many.
fn is_qualified(function: &str) -> bool {
    let parts = function.split(':').count();
    if function.starts_with("arn:") {
        parts > 7
    } else {
        parts > 1
    }
}

impl Ssm {
    fn read(mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let parameter = needed(&mut block, "parameter", "the name of a parameter", mistakes);
        let attempts = attempts(&mut block, mistakes);
        block.close(mistakes);
        Some(Self {
            parameter: parameter?,
            attempts,
        })
    }
}

impl AppConfig {
    fn read(mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let at = block.at();
        let application = needed(
            &mut block,
            "application",
            "the id or name of an application",
            mistakes,
        );
        let environment = needed(
            &mut block,
            "environment",
            "the id or name of an environment",
            mistakes,
        );
        let profile = needed(
            &mut block,
            "profile",
            "the id or name of a hosted configuration",
            mistakes,
        );
        let wanted = "the id or name of a deployment strategy without bake time";
        let strategy = needed(&mut block, "strategy", wanted, mistakes);
        let pointer = block
            .text("pointer", "a JSON pointer, such as /maxAttempts", mistakes)
            .unwrap_or("/maxAttempts");
        let attempts = attempts(&mut block, mistakes);
        block.close(mistakes);
        if !pointer.starts_with('/') {
            mistakes.add(
                at,
                "`pointer` is not a JSON pointer",
                "begin it with /, such as /maxAttempts",
            );
        }
        Some(Self {
            application: application?,
            environment: environment?,
            profile: profile?,
            strategy: strategy?,
            pointer: pointer.to_owned(),
            attempts,
        })
    }
}
