//! Ready ways to find a target among the metrics of a data plane: the same words for every source of metrics.

use retryguard_policy::reading::{Block, GRPC_STATUS, Mistakes};

/// The codes that are signs of overload by default: too many requests, unavailable, and a gateway's
/// time-out, which is how an overload looks that answers slowly.
pub const CODES: [&str; 3] = ["429", "503", "504"];

/// The gRPC status codes that are signs of overload by default. A deadline that has passed is how an overload looks that
/// answers slowly.
pub const GRPC_CODES: [&str; 3] = ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"];

/// The keys that name a preset, for messages.
pub(crate) const PRESETS: &str = "istio, envoy, grpc, haproxy, linkerd, retryguard, retryguard-client";

/// Whose metrics, and which of them are this target's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preset {
    /// Istio, as the destination's sidecar reports it.
    Istio {
        /// `destination_service_name`.
        service: String,
        /// `destination_service_namespace`.
        namespace: String,
        /// `source_workload`, where one caller's way is watched.
        caller: Option<String>,
        /// The response codes that are rejections.
        codes: Vec<String>,
    },
    /// An Envoy cluster.
    Envoy {
        /// `envoy_cluster_name`.
        cluster: String,
        /// The response codes that are rejections.
        codes: Vec<String>,
    },
    /// gRPC clients, as their OpenTelemetry plugin reports them (gRPC proposal A66).
    Grpc {
        /// `grpc_target`.
        target: String,
        /// The status codes that are rejections.
        codes: Vec<String>,
    },
    /// A HAProxy backend, as its own exporter reports it.
    Haproxy {
        /// `proxy`.
        backend: String,
    },
    /// Linkerd, as the destination's proxy reports it.
    Linkerd {
        /// `deployment`.
        deployment: String,
        /// `namespace`.
        namespace: String,
        /// The response codes that are rejections.
        codes: Vec<String>,
    },
    /// Our own server layer.
    Retryguard {
        /// `service`.
        service: String,
    },
    /// Our own client layer: retries per call and delays; it does not count rejections apart.
    RetryguardClient {
        /// `target`.
        target: String,
    },
}

impl Preset {
    /// The key that is written, if one is. More than one is a mistake.
    pub(crate) fn read(name: &str, block: &mut Block<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let found: Vec<Self> = [
            block
                .block("istio", mistakes)
                .map(|inner| istio(name, inner, mistakes)),
            block
                .block("envoy", mistakes)
                .map(|inner| envoy(name, inner, mistakes)),
            block
                .block("grpc", mistakes)
                .map(|inner| grpc(name, inner, mistakes)),
            block.block("haproxy", mistakes).map(|mut inner| {
                let backend = text(&mut inner, "backend", name, mistakes);
                inner.close(mistakes);
                Self::Haproxy { backend }
            }),
            block
                .block("linkerd", mistakes)
                .map(|inner| linkerd(name, inner, mistakes)),
            block.block("retryguard", mistakes).map(|mut inner| {
                let service = text(&mut inner, "service", name, mistakes);
                inner.close(mistakes);
                Self::Retryguard { service }
            }),
            block.block("retryguard-client", mistakes).map(|mut inner| {
                let target = text(&mut inner, "target", name, mistakes);
                inner.close(mistakes);
                Self::RetryguardClient { target }
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        if found.len() > 1 {
            mistakes.add(
                block.at(),
                format!("`{name}` is looked for in {} ways", found.len()),
                format!("keep one of {PRESETS}"),
            );
        }
        found.into_iter().next()
    }
}

fn istio(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Preset {
    let preset = Preset::Istio {
        service: text(&mut block, "service", name, mistakes),
        namespace: text(&mut block, "namespace", "default", mistakes),
        caller: block
            .text("caller", "the name of a workload", mistakes)
            .map(str::to_owned),
        codes: codes(&mut block, mistakes),
    };
    block.close(mistakes);
    preset
}

fn envoy(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Preset {
    let preset = Preset::Envoy {
        cluster: text(&mut block, "cluster", name, mistakes),
        codes: codes(&mut block, mistakes),
    };
    block.close(mistakes);
    preset
}

fn grpc(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Preset {
    let at = block.at();
    let target = text(&mut block, "target", &format!("xds:///{name}"), mistakes);
    let codes = block.texts("codes", "a list of gRPC status codes", mistakes);
    let codes = codes.unwrap_or_else(|| GRPC_CODES.to_vec());
    for code in &codes {
        // OK is the first of them.
        if !GRPC_STATUS[1..].contains(code) {
            mistakes.add(
                at,
                format!("`{code}` is not a gRPC status code of a failure"),
                "write words such as UNAVAILABLE and RESOURCE_EXHAUSTED",
            );
        }
    }
    block.close(mistakes);
    Preset::Grpc {
        target,
        codes: codes.into_iter().map(str::to_owned).collect(),
    }
}

fn linkerd(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Preset {
    let preset = Preset::Linkerd {
        deployment: text(&mut block, "deployment", name, mistakes),
        namespace: text(&mut block, "namespace", "default", mistakes),
        codes: codes(&mut block, mistakes),
    };
    block.close(mistakes);
    preset
}

fn text(block: &mut Block<'_>, key: &'static str, default: &str, mistakes: &mut Mistakes) -> String {
    block.text(key, "a name", mistakes).unwrap_or(default).to_owned()
}

fn codes(block: &mut Block<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let at = block.at();
    let Some(written) = block.texts("codes", "a list of HTTP status codes", mistakes) else {
        return CODES.map(str::to_owned).to_vec();
    };
    for code in &written {
        if !matches!(code.parse::<u16>(), Ok(100..=599)) || code.len() != 3 {
            mistakes.add(
                at,
                format!("`{code}` is not an HTTP status code"),
                "write numbers such as 429 and 503",
            );
        }
    }
    written.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use retryguard_policy::reading::read;

    use super::*;

    /// Messages name the presets, and have left new ones out before.
    #[test]
    fn the_list_in_messages_names_every_preset() {
        let known = |preset: &str| {
            let mut mistakes = Mistakes::default();
            let root = read(&format!("{preset}: {{}}"), &mut mistakes).unwrap();
            let mut block = Block::open(&root, "scrape", &mut mistakes).unwrap();
            Preset::read("reviews", &mut block, &mut mistakes)
        };
        let listed: Vec<_> = PRESETS.split(", ").filter_map(known).collect();
        let mut kinds: Vec<_> = listed.iter().map(std::mem::discriminant).collect();
        kinds.dedup();
        // One of each variant of `Preset`.
        assert_eq!(kinds.len(), 7, "{listed:?}");
    }
}
