//! The scenario file: a world, the policies that are compared in it, and the claim that it tests.
//!
//! Read like the policy file: every mistake at once, each with its line and its cure. The page
//! `docs/scenarios.md` is the reference.

mod base;
mod block;
mod client;
mod fault;
mod fleets;
mod graph;
mod policies;
mod scaler;
mod schema;
mod service;
mod source;
mod sweep;

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use retryguard_core::Instant;
use retryguard_policy::{
    Diagnostics, Policy, Position,
    reading::{Kind, Mistakes, Node, read},
};
use retryguard_translate::{Format, read_text};

use crate::{
    client_policy::ClientPolicy,
    world::{Measure, World},
};

use block::Block;
pub use fleets::{Carried, Fleets, Plan};
use graph::Names;
pub use schema::{reference, schema, shape};
pub use source::{Quoted, Source};

/// A scenario, checked and compiled.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it claims.
    pub claim: String,
    /// The world.
    pub world: World,
    /// The policies that are compared.
    pub policies: Vec<ClientPolicy>,
    /// Policies that edges name.
    pub fixed: Vec<ClientPolicy>,
    /// Replications, unless the caller wants another number.
    pub replications: u32,
    /// What the source of the scenario reports.
    pub source: Option<Source>,
    /// The same world with one value changed, again and again.
    pub sweep: Option<Sweep>,
}

/// Worlds that differ in one value.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The key that is changed, with dots.
    pub key: String,
    /// The value as it is written, and the world with it.
    pub worlds: Vec<(String, World)>,
}

/// All that a scenario is made of, so that it can be read again elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The name of its file, without the extension.
    pub name: String,
    /// Its own text.
    pub scenario: String,
    /// The files that it names, by their paths as they stand there.
    pub named: BTreeMap<String, String>,
}

impl Texts {
    /// The scenario.
    ///
    /// # Errors
    /// Where it has mistakes.
    pub fn read(&self) -> Result<Scenario, Diagnostics> {
        let mut load = |file: &str| {
            let text = self.named.get(file).cloned();
            text.ok_or_else(|| "its text is missing".to_owned())
        };
        Scenario::parse(&self.scenario, &self.name, &mut load)
    }
}

/// Why there is no scenario.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It has mistakes.
    Mistakes(PathBuf, Diagnostics),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(
                f,
                "cannot read {}; give the path of a scenario file: {error}",
                path.display()
            ),
            Self::Mistakes(path, mistakes) => {
                let name = path.display().to_string();
                write!(f, "{name} has mistakes:\n{}", mistakes.in_file(&name))
            }
        }
    }
}

impl std::error::Error for ScenarioError {}

/// The name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Gives the text of a file that a scenario names, by its path as it stands there; or says why not.
pub type Load<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

impl Scenario {
    /// Reads a scenario file; paths in it count from its folder.
    ///
    /// # Errors
    /// Where the file cannot be read or has mistakes.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::load_texts(path).map(|(scenario, _)| scenario)
    }

    /// The same, with the texts that were read.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_texts(path: &Path) -> Result<(Self, Texts), ScenarioError> {
        let mut texts = Texts {
            name: stem(path),
            scenario: fs::File::open(path)
                .and_then(read_text)
                .map_err(|error| ScenarioError::Unreadable(path.to_owned(), error))?,
            named: BTreeMap::new(),
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let named = &mut texts.named;
        let mut load = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).map_err(|error| error.to_string())?;
            named.insert(file.to_owned(), text.clone());
            Ok(text)
        };
        match Self::parse(&texts.scenario, &texts.name, &mut load) {
            Ok(scenario) => Ok((scenario, texts)),
            Err(mistakes) => {
                let mistakes = other_file(&texts.scenario).unwrap_or(mistakes);
                Err(ScenarioError::Mistakes(path.to_owned(), mistakes))
            }
        }
    }

    /// Reads a scenario, or reports every mistake in it at once. `name` is used where the file gives none.
    pub fn parse(text: &str, name: &str, load: Load<'_>) -> Result<Self, Diagnostics> {
        let mut mistakes = Mistakes::default();
        let root = read(text, &mut mistakes).and_then(|root| base::filled(root, &mut *load, &mut mistakes));
        let scenario = root.and_then(|root| scenario(&root, name, load, &mut mistakes));
        match mistakes.or(scenario)? {
            Some(scenario) => Ok(scenario),
            None => unreachable!("what could not be read was reported"),
        }
    }
}

/// What to say of a file that is not a scenario and something else that we read; `None` where it is not.
fn other_file(text: &str) -> Option<Diagnostics> {
    let what = match Format::detect(text) {
        Some(format) => format!("a file of {format}"),
        None if text.trim().is_empty() || Policy::parse(text).is_err() => return None,
        None => "a policy".to_owned(),
    };
    let mut mistakes = Mistakes::default();
    mistakes.add(
        Position::START,
        format!("this is {what} and not a scenario"),
        "run it in a scenario: `retryguard simulate scenario.yaml --policy FILE`",
    );
    mistakes.or(()).err()
}

fn scenario(root: &Node, name: &str, load: Load<'_>, mistakes: &mut Mistakes) -> Option<Scenario> {
    let mut block = Block::open(root, "the scenario", mistakes)?;
    // Read before the others, because it fills them in: here it only makes the key known.
    block.text("base", mistakes);
    let written_name = block.text("name", mistakes);
    let claim = block.text("claim", mistakes).unwrap_or_default();
    let replications = block.count("replications", 1..=10_000, mistakes).unwrap_or(1);
    let listed = block.take("policies");
    let fixed = block.take("fixed");
    let source = block
        .take("source")
        .and_then(|node| source::source(node, mistakes));
    let sweep = block.take("sweep");
    let world = world(&mut block, written_name.as_deref().unwrap_or(name), mistakes);
    block.close(mistakes);
    let fixed = fixed.map_or_else(Vec::new, |node| policies::list(node, load, mistakes));
    let policies = match listed {
        Some(node) => policies::list(node, load, mistakes),
        None => ["none", "retryguard"]
            .iter()
            .filter_map(|name| crate::client_policy::named(name))
            .collect(),
    };
    let world = world?;
    for edge in &world.edges {
        if let crate::world::EdgePolicy::Fixed(name) = &edge.policy {
            policies::check_name(name, &policies, &fixed, root, mistakes);
        }
    }
    let sweep = sweep.and_then(|node| sweep::sweep(node, root, name, mistakes));
    Some(Scenario {
        name: written_name.unwrap_or_else(|| name.to_owned()),
        claim,
        world,
        policies,
        fixed,
        replications,
        source,
        sweep,
    })
}

/// The keys of the world itself.
fn world(block: &mut Block<'_>, name: &str, mistakes: &mut Mistakes) -> Option<World> {
    let duration = block.need("duration", "how long calls come, such as 10m", mistakes);
    block.describe("duration", Kind::Duration);
    let duration = duration.and_then(|node| block::duration(node, "duration", mistakes));
    let drain = block
        .duration("drain", mistakes)
        .unwrap_or(Duration::from_secs(60));
    let step = block.duration("step", mistakes);
    let focus = block.text("focus", mistakes);
    let measure = block.take("measure");
    let services = block.need("services", "a block of services", mistakes);
    let clients = block.need("clients", "a block of clients", mistakes);
    let faults = block.take("faults");
    let at = block.at();
    let mut names = Names::new(services?, mistakes)?;
    let services = service::services(services?, &mut names, mistakes);
    let clients = client::clients(clients?, &mut names, mistakes);
    let faults = faults.map_or_else(Vec::new, |node| fault::faults(node, &names, mistakes));
    let duration = duration?;
    // Edges name services by their place. Without one that has mistakes, the places of the others are wrong.
    if services.len() < names.count() {
        return None;
    }
    let focus = match focus {
        Some(focus) => names.service(&focus, at, mistakes)?,
        None => graph::deepest(&services, &clients, &names.edges, at, mistakes)?,
    };
    graph::refuse_circles(&services, &names.edges, at, mistakes);
    graph::refuse_unknowable(&services, &names.edges, at, mistakes);
    let measure = match measure {
        Some(node) => measured(node, duration, &names, mistakes)?,
        None => Measure {
            from: Instant::ZERO,
            until: Instant::ZERO.after(duration),
            scaled: None,
        },
    };
    Some(World {
        name: name.to_owned(),
        duration,
        drain,
        measure,
        services,
        clients,
        edges: names.edges,
        faults,
        focus,
        // Three hundred steps make a smooth picture, and a second is fine enough for anything.
        step: step
            .unwrap_or((duration / 300).max(Duration::from_secs(1)))
            .max(Duration::from_millis(1)),
    })
}

fn measured(node: &Node, duration: Duration, names: &Names, mistakes: &mut Mistakes) -> Option<Measure> {
    let mut block = Block::open(node, "measure", mistakes)?;
    let from = block.duration("from", mistakes).unwrap_or_default();
    let until = block.duration("until", mistakes).unwrap_or(duration);
    let scaled = block.take("untilSize").and_then(|node| {
        let mut inner = Block::open(node, "untilSize", mistakes)?;
        let at = inner.at();
        let service = inner
            .text("service", mistakes)
            .and_then(|name| names.service(&name, at, mistakes));
        let reaches = inner.number("reaches", 0.0..=1e9, mistakes);
        inner.close(mistakes);
        Some((service?, reaches?))
    });
    if from >= until {
        mistakes.add(
            block.at(),
            "nothing is measured",
            "let `from` come before `until`",
        );
    }
    block.close(mistakes);
    Some(Measure {
        from: Instant::ZERO.after(from),
        until: Instant::ZERO.after(until.min(duration)),
        scaled,
    })
}

#[cfg(test)]
mod tests;
