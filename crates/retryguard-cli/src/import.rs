//! `retryguard import` and `retryguard render`: from the files of other systems to a policy, and back.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use retryguard_policy::{Policy, reading::nearest};
use retryguard_translate::{Format, PolicyFile, Target, render, syntax_error};

use crate::output::{put, read};

/// Read the retry settings of another system as a policy; what a policy cannot express is listed by line.
///
/// Reads Envoy (routes, clusters, retry budgets, outlier detection, circuit breakers), Istio (VirtualService,
/// DestinationRule), Gateway API (HTTPRoute, XBackendTrafficPolicy), gRPC service config, AWS SDK settings (environment
/// or shared config file), resilience4j and Polly. The policy behaves like the file: what that system does not have is
/// switched off. `lint`, `simulate --policy` and `check --policy` take such files directly, too.
///
/// Exits with 0, or with 2 when the file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard import virtual-service.yaml > policy.yaml
  retryguard import --from envoy bootstrap.yaml --out policy.yaml
  env | grep ^AWS_ | retryguard import --from aws -
  retryguard lint virtual-service.yaml")]
pub(crate) struct Import {
    /// The file; `-` reads from standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format; judged by its keys if not given. One of envoy, istio, gateway-api, grpc, aws, resilience4j, polly.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<Format>,
    /// Write the policy into this file instead of the standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object with the policy and what is not the same.
    #[arg(long)]
    json: bool,
}

/// Write a policy for another system; what that system cannot do is listed.
///
/// Takes files of other systems, too: they are imported first. Ports and host names that a policy does not know are
/// stand-ins; change them to yours.
///
/// Exits with 0, or with 2 when the policy cannot be read.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard render policy.yaml --to envoy --out bootstrap.yaml
  envoy --mode validate -c bootstrap.yaml
  retryguard render policy.yaml --to istio | kubectl diff -f -
  retryguard render virtual-service.yaml --to gateway-api")]
pub(crate) struct Render {
    /// The policy file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The system to write for.
    #[arg(long, value_enum, value_name = "SYSTEM")]
    to: To,
    /// Write into this file instead of the standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object with the text and the losses.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum To {
    /// A bootstrap with a route and a cluster for each service.
    Envoy,
    /// A VirtualService and a DestinationRule for each service.
    Istio,
    /// An HTTPRoute and an XBackendTrafficPolicy for each service.
    GatewayApi,
    /// A service config.
    Grpc,
}

fn format(word: &str) -> Result<Format, String> {
    Format::from_word(word).ok_or_else(|| {
        let words = Format::ALL.map(Format::as_str);
        let near = nearest(word, words).map_or_else(String::new, |near| format!("did you mean {near}? "));
        format!("{near}known are {}", words.join(", "))
    })
}

impl Import {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let name = self.file.display().to_string();
        let text = read(&self.file).with_context(|| format!("cannot read {name}"))?;
        let file = PolicyFile::of(text, self.from).with_context(|| name.clone())?;
        let Some(imported) = file.imported else {
            if let Some(broken) = syntax_error(&file.text) {
                return Err(broken).context(name);
            }
            let is_text = |line: &str| !line.is_empty() && !line.starts_with('#');
            if !file.text.lines().map(str::trim).any(is_text) {
                bail!("{name} is empty: there is nothing to import");
            }
            if Policy::parse(&file.text).is_ok() {
                bail!(
                    "{name} is a policy already: judge it with `retryguard lint`, or write it for another system with `retryguard render`"
                );
            }
            bail!(
                "{name}: its keys are those of no format that can be imported; say which it is with --from (known are {})",
                Format::ALL.map(Format::as_str).join(", ")
            );
        };
        // The written policy is read once more: an import that writes an unreadable policy must not go unnoticed.
        Policy::parse(&imported.policy).map_err(|mistakes| anyhow::anyhow!("{name}: {mistakes}"))?;
        for note in &imported.notes {
            eprintln!("{name}:{}: {}: {}", note.line, note.kind.as_str(), note.message);
        }
        let text = match self.json {
            true => imported.json(&name),
            false => imported.policy,
        };
        put(self.out.as_deref(), &text)
    }
}

impl Render {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let name = self.file.display().to_string();
        let text = read(&self.file).with_context(|| format!("cannot read {name}"))?;
        let file = PolicyFile::of(text, None).with_context(|| name.clone())?;
        if let Some(imported) = &file.imported {
            eprintln!("{}", imported.summary(&name));
        }
        let policy = file.policy(&name)?;
        let target = match self.to {
            To::Envoy => Target::Envoy,
            To::Istio => Target::Istio,
            To::GatewayApi => Target::GatewayApi,
            To::Grpc => Target::Grpc,
        };
        let rendered = render(&policy, target);
        for loss in &rendered.losses {
            eprintln!("lost: {loss}");
        }
        let text = match self.json {
            true => rendered.json(target),
            false => rendered.text,
        };
        put(self.out.as_deref(), &text)
    }
}
