//! What the server has said to whom: a machine without sockets.
//!
//! A stream goes through [`Book::joins`], then [`Book::hears`] for each of its requests, [`Book::says`] whenever
//! something may have changed, and [`Book::leaves`]. Nothing is said before it is known what the fleet already
//! holds (see [`Phase`]), because an Envoy keeps what it has until it is told something else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::version::{self, Wishes};
use crate::actuator::Wish;
use crate::actuator::envoy::keys;
use retryguard_core::ratio::Ratio;

/// The most streams at once; the next one is refused, which makes its Envoy come back later.
pub(super) const MOST_STREAMS: usize = 5_000;
/// The most clusters that wishes are kept for.
pub(super) const MOST_CLUSTERS: usize = 10_000;
/// Envoys that have gone are remembered for the status, the latest of them.
pub(super) const MOST_GONE: usize = 100;
/// The longest text of a node that is kept: its name, its address, what it said when it refused.
pub(super) const LONGEST_TEXT: usize = 512;

/// The number of a stream, for as long as this server lives.
pub(super) type Stream = u64;

/// What a request of either dialect comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ask {
    /// Who asks; only the first request of a stream must say it.
    pub(super) node: Option<Who>,
    /// Whether our layer is asked for, where the request says anything about that.
    pub(super) wants: Option<bool>,
    /// Another layer that is asked for, which nobody here has.
    pub(super) foreign: Option<String>,
    /// The version that it holds (first request), or that it has just accepted.
    pub(super) version: String,
    /// Which answer this is about; empty on a first request.
    pub(super) nonce: String,
    /// Why it refuses that answer.
    pub(super) refusal: Option<String>,
}

/// How an Envoy calls itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Who {
    /// `node.id`.
    pub(super) id: String,
    /// `node.cluster`, the name of the service it stands before.
    pub(super) service: String,
}

/// A runtime layer as it is served.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Layer {
    /// Its version, which says the same in words.
    pub(super) version: String,
    /// Its keys.
    pub(super) entries: BTreeMap<String, f64>,
}

/// What a stream is to be told now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Saying {
    /// The layer.
    pub(super) layer: Arc<Layer>,
    /// By which the answer will name it.
    pub(super) nonce: String,
}

/// One Envoy, as far as we know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Node {
    /// How it calls itself.
    pub(super) who: Who,
    /// Where it connects from.
    pub(super) address: String,
    /// The version that it accepted last.
    pub(super) accepted: Option<String>,
    /// The version that it refused since, and why.
    pub(super) refused: Option<(String, String)>,
    /// A layer that it asks for and that nobody here has.
    pub(super) foreign: Option<String>,
    wants: bool,
    told: Option<Arc<Layer>>,
    nonce: u64,
    /// It has answered what it was told last.
    answered: bool,
    late: bool,
}

impl Node {
    /// Whether `layer` is what it was told last, and it has said something to that. A version can come back: what
    /// was accepted of it before says nothing about now.
    fn answered(&self, layer: &Layer) -> bool {
        self.answered
            && self
                .told
                .as_ref()
                .is_some_and(|told| told.version == layer.version)
    }

    /// Whether it has accepted `layer`, and nothing since.
    pub(super) fn holds(&self, layer: &Layer) -> bool {
        self.answered(layer) && self.refused.is_none()
    }
}

/// What the server may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// We do not act: streams are refused, so that an Envoy looks for the controller that does.
    Idle,
    /// Streams are taken and told nothing; what they hold is learned.
    Learning,
    /// Every stream gets the present layer at once.
    Serving,
}

/// The server's memory.
#[derive(Debug)]
pub(super) struct Book {
    phase: Phase,
    budgets: BTreeMap<String, Ratio>,
    wishes: Wishes,
    layer: Arc<Layer>,
    nodes: BTreeMap<Stream, Node>,
    gone: VecDeque<Node>,
    next: Stream,
}

impl Book {
    /// An idle book. `budgets` are the retry budgets that clusters have of their own.
    #[must_use]
    pub(super) fn new(budgets: BTreeMap<String, Ratio>) -> Self {
        let mut book = Self {
            phase: Phase::Idle,
            budgets,
            wishes: Wishes::new(),
            layer: Arc::default(),
            nodes: BTreeMap::new(),
            gone: VecDeque::new(),
            next: 0,
        };
        book.compose();
        book
    }

    /// What the server may say at present.
    #[must_use]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins to learn, unless that has begun.
    pub(super) fn learn(&mut self) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Learning;
            self.wishes.clear();
        }
    }

    /// Goes from learning to serving what was learned, for the clusters of each of `targets` alike: the strictest
    /// of what they hold. A cluster that no target has any more is as its user configured it again.
    pub(super) fn serve<'a>(&mut self, targets: impl Iterator<Item = &'a [String]>) {
        if self.phase != Phase::Learning {
            return;
        }
        self.phase = Phase::Serving;
        let learned = std::mem::take(&mut self.wishes);
        for clusters in targets {
            let held = clusters
                .iter()
                .filter_map(|cluster| learned.get(cluster))
                .copied()
                .fold(Wish::Original, keys::stricter);
            if held != Wish::Original {
                let room = MOST_CLUSTERS - self.wishes.len();
                self.wishes
                    .extend(clusters.iter().take(room).map(|cluster| (cluster.clone(), held)));
            }
        }
        self.compose();
    }

    /// Says nothing more: the streams that are open shall be closed.
    pub(super) fn rest(&mut self) {
        self.phase = Phase::Idle;
        self.wishes.clear();
        self.compose();
    }

    /// What is wanted of each cluster that is not as its user configured it.
    #[must_use]
    pub(super) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Wants something of a cluster.
    ///
    /// # Errors
    /// When there are [`MOST_CLUSTERS`] already.
    pub(super) fn want(&mut self, cluster: &str, wish: Wish) -> Result<(), TooMany> {
        if wish == Wish::Original {
            self.wishes.remove(cluster);
        } else if self.wishes.len() >= MOST_CLUSTERS && !self.wishes.contains_key(cluster) {
            return Err(TooMany);
        } else {
            self.wishes.insert(cluster.to_owned(), wish);
        }
        self.compose();
        Ok(())
    }

    fn compose(&mut self) {
        let version = version::write(&self.wishes);
        if version == self.layer.version {
            return;
        }
        let entries = self
            .wishes
            .iter()
            .flat_map(|(cluster, wish)| {
                keys::entries(
                    cluster,
                    self.budgets.get(cluster).copied().unwrap_or(Ratio::ONE),
                    *wish,
                )
            })
            .collect();
        self.layer = Arc::new(Layer { version, entries });
    }

    /// A stream is opened.
    ///
    /// # Errors
    /// When we do not act, or there are [`MOST_STREAMS`] already.
    pub(super) fn joins(&mut self, address: &str) -> Result<Stream, NoEntry> {
        if self.phase == Phase::Idle {
            return Err(NoEntry::NotActing);
        }
        if self.nodes.len() >= MOST_STREAMS {
            return Err(NoEntry::Full);
        }
        self.next += 1;
        let node = Node {
            address: clipped(address),
            ..Node::default()
        };
        self.nodes.insert(self.next, node);
        Ok(self.next)
    }

    /// A stream has said something.
    pub(super) fn hears(&mut self, stream: Stream, ask: &Ask) {
        let Some(node) = self.nodes.get_mut(&stream) else {
            return;
        };
        if let Some(who) = &ask.node {
            node.who = Who {
                id: clipped(&who.id),
                service: clipped(&who.service),
            };
        }
        if let Some(foreign) = &ask.foreign {
            node.foreign = Some(clipped(foreign));
        }
        if let Some(wants) = ask.wants {
            if wants && !node.wants {
                node.told = None;
            }
            node.wants = wants;
        }
        if ask.nonce.is_empty() {
            if self.phase == Phase::Learning && node.wants {
                for (cluster, wish) in version::read(&ask.version, MOST_CLUSTERS) {
                    let held = self.wishes.entry(cluster).or_insert(Wish::Original);
                    *held = keys::stricter(*held, wish);
                }
            }
        } else if ask.nonce == node.nonce.to_string()
            && let Some(told) = &node.told
        {
            node.late = false;
            node.answered = true;
            match &ask.refusal {
                None => {
                    node.accepted = Some(told.version.clone());
                    node.refused = None;
                }
                Some(message) => node.refused = Some((told.version.clone(), clipped(message))),
            }
        }
    }

    /// Whether a stream is to be told something.
    #[must_use]
    pub(super) fn owes(&self, stream: Stream) -> bool {
        self.phase == Phase::Serving
            && self.nodes.get(&stream).is_some_and(|node| {
                let told = node.told.as_ref().map(|told| &told.version);
                node.wants && told != Some(&self.layer.version)
            })
    }

    /// What a stream is to be told now, if anything; it counts as told.
    pub(super) fn says(&mut self, stream: Stream) -> Option<Saying> {
        if !self.owes(stream) {
            return None;
        }
        let layer = &self.layer;
        let node = self.nodes.get_mut(&stream)?;
        node.nonce += 1;
        node.answered = false;
        node.told = Some(Arc::clone(layer));
        Some(Saying {
            layer: Arc::clone(layer),
            nonce: node.nonce.to_string(),
        })
    }

    /// A stream is closed.
    pub(super) fn leaves(&mut self, stream: Stream) {
        if let Some(node) = self.nodes.remove(&stream) {
            self.gone.retain(|other| other.who != node.who);
            self.gone.push_back(node);
            if self.gone.len() > MOST_GONE {
                self.gone.pop_front();
            }
        }
    }

    /// How far the present layer has come.
    #[must_use]
    pub(super) fn reach(&self) -> Reach {
        let mut reach = Reach::default();
        for node in self.nodes.values().filter(|node| node.wants) {
            reach.streams += 1;
            if node.holds(&self.layer) {
                reach.accepted += 1;
            } else if node.answered(&self.layer) {
                reach.refused += 1;
            } else if node.late {
                reach.late += 1;
            }
        }
        reach
    }

    /// Whoever has not answered by now is not waited for again until it does.
    pub(super) fn give_up(&mut self) {
        for node in self.nodes.values_mut() {
            node.late |= node.wants && !node.answered(&self.layer);
        }
    }

    /// Envoys that are connected, and the latest of those that have gone.
    pub(super) fn nodes(&self) -> (impl Iterator<Item = &Node>, impl Iterator<Item = &Node>) {
        let connected = |gone: &&Node| !self.nodes.values().any(|node| node.who == gone.who);
        (self.nodes.values(), self.gone.iter().filter(connected))
    }

    /// The layer that is served.
    #[must_use]
    pub(super) fn layer(&self) -> &Arc<Layer> {
        &self.layer
    }
}

/// How many streams want our layer, and what they have said to the present one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// How many want it.
    pub(super) streams: usize,
    /// How many have accepted it.
    pub(super) accepted: usize,
    /// How many have refused it.
    pub(super) refused: usize,
    /// How many have not answered in time.
    pub(super) late: usize,
}

impl Reach {
    /// Whether nobody is left to wait for.
    #[must_use]
    pub(super) fn complete(self) -> bool {
        self.accepted + self.refused + self.late >= self.streams
    }
}

/// There are [`MOST_CLUSTERS`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// Why a stream is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoEntry {
    /// Another controller acts, or none yet.
    NotActing,
    /// There are [`MOST_STREAMS`].
    Full,
}

fn clipped(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests;
