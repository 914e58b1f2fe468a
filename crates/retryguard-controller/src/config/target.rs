//! The key `targets`.

use retryguard_core::{Ratio, guard};
use retryguard_policy::{
    Policy, Position,
    reading::{Block, Entry, Mistakes, Node, entries, shortened},
};

use crate::config::actuator::Actuators;
use crate::config::source::Sources;
use crate::config::{MOST_TARGETS, actuator, guard as guards, source};
use crate::domain::target::TargetName;

/// One target: a service, or one caller's way to it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The operator's name for it.
    pub name: TargetName,
    /// The guards that it can have, in the order in which they are wanted: the first whose signal its source
    /// can measure is the one in force. Never empty.
    pub guards: Vec<guard::Settings>,
    /// The least gain for which a retry is worth sending.
    pub price: Ratio,
    /// How `prometheus` finds it.
    pub prometheus: Option<source::prometheus::PrometheusTarget>,
    /// How `scrape` finds it.
    pub scrape: Option<source::scrape::ScrapeTarget>,
    /// How `cloudwatch` finds it.
    pub cloudwatch: Option<source::cloudwatch::CloudWatchTarget>,
    /// How `envoy-rtds` addresses it.
    pub envoy_rtds: Option<actuator::envoy::EnvoyTarget>,
    /// How `envoy-admin` addresses it.
    pub envoy_admin: Option<actuator::envoy::EnvoyTarget>,
    /// How `grpc-xds` addresses it.
    pub grpc_xds: Option<actuator::grpc_xds::GrpcXdsTarget>,
    /// How `haproxy` addresses it.
    pub haproxy: Option<actuator::haproxy::HaproxyTarget>,
    /// How `istio` addresses it.
    pub istio: Option<actuator::istio::IstioTarget>,
    /// How `gateway-api` addresses it.
    pub gateway_api: Option<actuator::gateway_api::GatewayApiTarget>,
    /// How `linkerd` addresses it.
    pub linkerd: Option<actuator::linkerd::LinkerdTarget>,
    /// How `aws` addresses it.
    pub aws: Option<actuator::aws::AwsTarget>,
    /// How `policy-server` addresses it.
    pub policy_server: Option<actuator::policy_server::PolicyServerTarget>,
}

impl Target {
    /// The word of its source.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        match (&self.prometheus, &self.scrape) {
            (Some(_), _) => "prometheus",
            (None, Some(_)) => "scrape",
            (None, None) => "cloudwatch",
        }
    }

    /// The words of its actuators.
    #[must_use]
    pub fn actuators(&self) -> Vec<&'static str> {
        [
            ("envoy-rtds", self.envoy_rtds.is_some()),
            ("envoy-admin", self.envoy_admin.is_some()),
            ("grpc-xds", self.grpc_xds.is_some()),
            ("haproxy", self.haproxy.is_some()),
            ("istio", self.istio.is_some()),
            ("gateway-api", self.gateway_api.is_some()),
            ("linkerd", self.linkerd.is_some()),
            ("aws", self.aws.is_some()),
            ("policy-server", self.policy_server.is_some()),
        ]
        .into_iter()
        .filter_map(|(word, has)| has.then_some(word))
        .collect()
    }
}

/// The longest name of a target; it becomes a label, a key and a part of names in data planes.
pub(super) const LONGEST_NAME: usize = 200;

pub(super) fn read(
    node: &Node,
    policy: &Policy,
    sources: &Sources,
    actuators: &Actuators,
    mistakes: &mut Mistakes,
) -> Vec<Target> {
    let list = entries(node, "targets", mistakes).unwrap_or_default();
    if list.is_empty() {
        mistakes.add(node.at, "no target", "name at least one service to watch");
    }
    if list.len() > MOST_TARGETS {
        mistakes.add(
            node.at,
            format!("{} targets", list.len()),
            format!("one controller watches at most {MOST_TARGETS}; split them over several"),
        );
        return Vec::new();
    }
    list.iter()
        .filter_map(|entry| target(entry, policy, sources, actuators, mistakes))
        .collect()
}

/// Whether a character does not show, or changes in which order others do: two names could look alike in a table or an alert.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn target(
    entry: &Entry,
    policy: &Policy,
    sources: &Sources,
    actuators: &Actuators,
    mistakes: &mut Mistakes,
) -> Option<Target> {
    let name = entry.key.as_str();
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(is_hidden);
    if !fits {
        mistakes.add(
            entry.at,
            format!("`{}` is not a name for a target", shortened(name)),
            format!("write 1 to {LONGEST_NAME} printable characters"),
        );
    }
    let mut block = Block::open(&entry.value, name, mistakes)?;
    let service = block
        .text("service", "the name of a service in the policy", mistakes)
        .unwrap_or(name);
    let (guards, price) = guards::read(&mut block, service, policy, mistakes);
    let mut target = Target {
        name: TargetName::new(name),
        guards,
        price,
        prometheus: None,
        scrape: None,
        cloudwatch: None,
        envoy_rtds: None,
        envoy_admin: None,
        grpc_xds: None,
        haproxy: None,
        istio: None,
        gateway_api: None,
        linkerd: None,
        aws: None,
        policy_server: None,
    };
    read_sources(sources, &mut block, &mut target, entry.at, mistakes);
    read_actuators(actuators, &mut block, &mut target, entry.at, mistakes);
    block.close(mistakes);
    Some(target)
}

/// The blocks of one target under the names of sources.
fn read_sources(
    sources: &Sources,
    block: &mut Block<'_>,
    target: &mut Target,
    at: Position,
    mistakes: &mut Mistakes,
) {
    let only = sources.count() == 1;
    let name = target.name.as_str().to_owned();
    let reads_delay = |guard: &guard::Settings| guard.signal == guard::Signal::Delay;
    let delay = target.guards.iter().any(reads_delay);
    let has = sources.prometheus.is_some();
    target.prometheus = part(
        block,
        "prometheus",
        has,
        only && has,
        mistakes,
        |inner, mistakes| source::prometheus::PrometheusTarget::read(&name, delay, inner, mistakes),
    );
    let has = sources.scrape.is_some();
    target.scrape = part(block, "scrape", has, only && has, mistakes, |inner, mistakes| {
        source::scrape::ScrapeTarget::read(&name, delay, inner, mistakes)
    });
    let has = sources.cloudwatch.is_some();
    target.cloudwatch = part(
        block,
        "cloudwatch",
        has,
        only && has,
        mistakes,
        |inner, mistakes| source::cloudwatch::CloudWatchTarget::read(&name, inner, mistakes),
    );
    let blocks = [
        target.prometheus.is_some(),
        target.scrape.is_some(),
        target.cloudwatch.is_some(),
    ];
    if blocks.into_iter().filter(|written| *written).count() != 1 && sources.count() > 1 {
        mistakes.add(
            at,
            format!("`{name}` has not exactly one source"),
            "give it one block of prometheus, scrape, cloudwatch",
        );
    }
}

/// The blocks of one target under the names of actuators.
fn read_actuators(
    actuators: &Actuators,
    block: &mut Block<'_>,
    target: &mut Target,
    at: Position,
    mistakes: &mut Mistakes,
) {
    let words = actuators.configured();
    let name = target.name.as_str().to_owned();
    let mut own = OwnBlocks {
        block,
        name: &name,
        configured: &words,
    };
    target.envoy_rtds = own.read("envoy-rtds", actuator::envoy::EnvoyTarget::read, mistakes);
    target.envoy_admin = own.read("envoy-admin", actuator::envoy::EnvoyTarget::read, mistakes);
    target.grpc_xds = own.read("grpc-xds", actuator::grpc_xds::GrpcXdsTarget::read, mistakes);
    target.haproxy = own.read("haproxy", actuator::haproxy::HaproxyTarget::read, mistakes);
    target.istio = own.read("istio", actuator::istio::IstioTarget::read, mistakes);
    target.gateway_api = own.read(
        "gateway-api",
        actuator::gateway_api::GatewayApiTarget::read,
        mistakes,
    );
    target.linkerd = own.read("linkerd", actuator::linkerd::LinkerdTarget::read, mistakes);
    target.aws = own.read("aws", actuator::aws::AwsTarget::read, mistakes);
    target.policy_server = own.read(
        "policy-server",
        actuator::policy_server::PolicyServerTarget::read,
        mistakes,
    );
    if target.actuators().is_empty() && words.len() > 1 {
        mistakes.add(
            at,
            format!("`{name}` has no actuator"),
            format!("give it a block of {}", words.join(" or ")),
        );
    }
}

/// What a target writes under the names of actuators.
struct OwnBlocks<'a, 'b> {
    block: &'a mut Block<'b>,
    name: &'a str,
    /// The actuators of the file.
    configured: &'a [&'static str],
}

impl OwnBlocks<'_, '_> {
    fn read<T>(
        &mut self,
        key: &'static str,
        read: fn(&str, &mut Block<'_>, &mut Mistakes) -> Option<T>,
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        let configured = self.configured.contains(&key);
        let only = self.configured == [key];
        let name = self.name;
        part(self.block, key, configured, only, mistakes, |inner, mistakes| {
            read(name, inner, mistakes)
        })
    }
}

/// A target's block for a source or an actuator, written or not: where only one of them is configured, every
/// target is its, and an empty block stands for itself.
fn part<T>(
    block: &mut Block<'_>,
    key: &'static str,
    configured: bool,
    only: bool,
    mistakes: &mut Mistakes,
    read: impl FnOnce(&mut Block<'_>, &mut Mistakes) -> Option<T>,
) -> Option<T> {
    let mut inner = match block.take(key) {
        None if !only => return None,
        None => Block::empty(key, block.at()),
        Some(node) => {
            if !configured {
                mistakes.add(
                    node.at,
                    format!("`{key}` is not configured"),
                    format!("add `{key}:` under `sources:` or `actuators:` at the top of the file"),
                );
            }
            Block::open(node, key, mistakes)?
        }
    };
    let found = read(&mut inner, mistakes);
    inner.close(mistakes);
    found
}
