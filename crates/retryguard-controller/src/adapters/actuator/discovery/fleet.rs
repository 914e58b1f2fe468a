//! What the server has sent to which client: a machine without sockets.
//!
//! The fleet is Envoys that ask for their runtime, or gRPC clients that ask for their routes; both are called nodes, as in
//! the protocol, and what is sent to them is called a layer.
//!
//! A stream goes through [`Fleet::open_stream`], then [`Fleet::on_request`] for each of its requests, [`Fleet::next_update`] whenever
//! something may have changed, and [`Fleet::close_stream`]. Nothing is said before it is known what the fleet already
//! holds (see [`Phase`]), because a node keeps what it has until it is sent something else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use crate::adapters::actuator::discovery::version;
use crate::adapters::actuator::discovery::version::ClusterStates;
use crate::domain::state::{RetryState, stricter};

/// The most streams at once; the next one is refused, which makes its Envoy come back later.
pub(in crate::adapters::actuator) const MOST_STREAMS: usize = 5_000;
/// The most clusters that desired states are kept for.
pub(in crate::adapters::actuator) const MOST_CLUSTERS: usize = 10_000;
/// Envoys that have gone are remembered for the status, the latest of them.
pub(in crate::adapters::actuator) const MOST_GONE: usize = 100;
/// The longest text of a node that is kept: its name, its address, what it said when it refused.
pub(in crate::adapters::actuator) const LONGEST_TEXT: usize = 512;

/// The number of a stream, for as long as this server lives.
pub(in crate::adapters::actuator) type Stream = u64;

/// What a request of either dialect comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::adapters::actuator) struct NodeRequest {
    /// Who asks; only the first request of a stream must say it.
    pub(in crate::adapters::actuator) node: Option<NodeIdentity>,
    /// Whether our layer is asked for, where the request says anything about that.
    pub(in crate::adapters::actuator) wants: Option<bool>,
    /// Another layer that is asked for, which this server does not have.
    pub(in crate::adapters::actuator) foreign: Option<String>,
    /// The version that it holds (first request), or that it has just accepted.
    pub(in crate::adapters::actuator) version: String,
    /// Which answer this is about; empty on a first request.
    pub(in crate::adapters::actuator) nonce: String,
    /// What is asked for has changed, so that an answer is due although nothing else has.
    pub(in crate::adapters::actuator) anew: bool,
    /// Why it refuses that answer.
    pub(in crate::adapters::actuator) refusal: Option<String>,
}

/// How an Envoy calls itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::adapters::actuator) struct NodeIdentity {
    /// `node.id`.
    pub(in crate::adapters::actuator) id: String,
    /// `node.cluster`, the name of the service it stands before.
    pub(in crate::adapters::actuator) service: String,
}

/// What is served at present.
#[derive(Debug, Default)]
pub(in crate::adapters::actuator) struct Layer {
    /// Its version, which says the same in words.
    pub(in crate::adapters::actuator) version: String,
    /// What it says of each cluster.
    pub(in crate::adapters::actuator) states: ClusterStates,
    /// Its bytes as a message, where they are the same for every node: made once, by the first stream that sends it.
    pub(in crate::adapters::actuator) encoded: OnceLock<Vec<u8>>,
}

impl PartialEq for Layer {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

/// Whether two layers say the same. Versions are long, and almost always the two are one and the same layer.
fn same(one: &Arc<Layer>, other: &Arc<Layer>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// What a stream is to be sent now.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::adapters::actuator) struct Update {
    /// The layer.
    pub(in crate::adapters::actuator) layer: Arc<Layer>,
    /// By which the answer will name it.
    pub(in crate::adapters::actuator) nonce: String,
}

/// One Envoy, as far as we know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::adapters::actuator) struct Node {
    /// How it calls itself.
    pub(in crate::adapters::actuator) identity: NodeIdentity,
    /// Where it connects from.
    pub(in crate::adapters::actuator) address: String,
    /// The layer that it accepted last.
    pub(in crate::adapters::actuator) accepted: Option<Arc<Layer>>,
    /// The version that it refused since, and why.
    pub(in crate::adapters::actuator) refused: Option<(String, String)>,
    /// A layer that it asks for and that this server does not have.
    pub(in crate::adapters::actuator) foreign: Option<String>,
    wants: bool,
    sent: Option<Arc<Layer>>,
    nonce: u64,
    /// It has answered what it was sent last.
    answered: bool,
    late: bool,
}

impl Node {
    /// Whether `layer` is what it was sent last, and it said something to that. A version can come back: what
    /// was accepted of it before says nothing about now.
    fn answered(&self, layer: &Arc<Layer>) -> bool {
        self.answered && self.sent.as_ref().is_some_and(|sent| same(sent, layer))
    }

    /// Whether it has accepted `layer`, and nothing since.
    pub(in crate::adapters::actuator) fn holds(&self, layer: &Arc<Layer>) -> bool {
        self.answered(layer) && self.refused.is_none()
    }

    fn on_request(&mut self, ask: &NodeRequest) {
        if let Some(identity) = &ask.node {
            self.identity = NodeIdentity {
                id: clipped(&identity.id),
                service: clipped(&identity.service),
            };
        }
        if let Some(foreign) = &ask.foreign {
            self.foreign = Some(clipped(foreign));
        }
        if let Some(wants) = ask.wants {
            if wants && !self.wants {
                self.sent = None;
            }
            self.wants = wants;
        }
        if ask.nonce == self.nonce.to_string()
            && let Some(sent) = &self.sent
        {
            self.late = false;
            self.answered = true;
            match &ask.refusal {
                None => {
                    self.accepted = Some(Arc::clone(sent));
                    self.refused = None;
                }
                Some(message) => self.refused = Some((sent.version.clone(), clipped(message))),
            }
        }
        if ask.anew {
            self.sent = None;
        }
    }

    /// What it adds to the reach of `layer`.
    fn reach(&self, layer: &Arc<Layer>) -> LayerStatus {
        let mut reach = LayerStatus::default();
        if self.wants {
            reach.streams = 1;
            if self.holds(layer) {
                reach.accepted = 1;
            } else if self.answered(layer) {
                reach.refused = 1;
            } else if self.late {
                reach.late = 1;
            }
        }
        reach
    }
}

/// What the server may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::adapters::actuator) enum Phase {
    /// We do not act: streams are refused, so that an Envoy looks for the controller that does.
    Idle,
    /// Streams are taken and sent nothing; what they hold is learned.
    Learning,
    /// Every stream gets the present layer at once.
    Serving,
}

/// The server's memory.
#[derive(Debug)]
pub(in crate::adapters::actuator) struct Fleet {
    phase: Phase,
    desired_states: ClusterStates,
    layer: Arc<Layer>,
    nodes: BTreeMap<Stream, Node>,
    /// The sum over all nodes, kept up with every change of one: each answer of an Envoy wakes all changes that wait, and to
    /// sum anew for each would be nodes times answers times changes.
    reach: LayerStatus,
    gone: VecDeque<Node>,
    next: Stream,
}

impl Fleet {
    /// An idle fleet.
    #[must_use]
    pub(in crate::adapters::actuator) fn new() -> Self {
        let mut fleet = Self {
            phase: Phase::Idle,
            desired_states: ClusterStates::new(),
            layer: Arc::default(),
            nodes: BTreeMap::new(),
            reach: LayerStatus::default(),
            gone: VecDeque::new(),
            next: 0,
        };
        fleet.compose();
        fleet
    }

    /// What the server may say at present.
    #[must_use]
    pub(in crate::adapters::actuator) fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins to learn, unless that has begun.
    pub(in crate::adapters::actuator) fn learn(&mut self) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Learning;
            self.desired_states.clear();
        }
    }

    /// Goes from learning to serving what was learned, for the clusters of each of `targets` alike: the strictest
    /// of what they hold. A cluster that no target has any more is as its user configured it again.
    pub(in crate::adapters::actuator) fn serve<'a>(&mut self, targets: impl Iterator<Item = &'a [String]>) {
        if self.phase != Phase::Learning {
            return;
        }
        self.phase = Phase::Serving;
        let learned = std::mem::take(&mut self.desired_states);
        for clusters in targets {
            let held = clusters
                .iter()
                .filter_map(|cluster| learned.get(cluster))
                .copied()
                .fold(RetryState::Original, stricter);
            if held != RetryState::Original {
                let room = MOST_CLUSTERS - self.desired_states.len();
                self.desired_states
                    .extend(clusters.iter().take(room).map(|cluster| (cluster.clone(), held)));
            }
        }
        self.compose();
    }

    /// Says nothing more: the streams that are open shall be closed.
    pub(in crate::adapters::actuator) fn stop(&mut self) {
        self.phase = Phase::Idle;
        self.desired_states.clear();
        self.compose();
    }

    /// What is wanted of each cluster that is not as its user configured it.
    #[must_use]
    pub(in crate::adapters::actuator) fn desired_states(&self) -> &ClusterStates {
        &self.desired_states
    }

    /// Wants something of the clusters of a target.
    ///
    /// # Errors
    /// When there are [`MOST_CLUSTERS`] already. The clusters before the one that does not fit are set.
    pub(in crate::adapters::actuator) fn set(
        &mut self,
        clusters: &[String],
        desired: RetryState,
    ) -> Result<(), TooManyClusters> {
        let mut result = Ok(());
        for cluster in clusters {
            if desired == RetryState::Original {
                self.desired_states.remove(cluster);
            } else if self.desired_states.len() < MOST_CLUSTERS || self.desired_states.contains_key(cluster) {
                self.desired_states.insert(cluster.clone(), desired);
            } else {
                result = Err(TooManyClusters);
                break;
            }
        }
        self.compose();
        result
    }

    fn compose(&mut self) {
        let version = version::write(&self.desired_states);
        if version == self.layer.version {
            return;
        }
        self.layer = Arc::new(Layer {
            version,
            states: self.desired_states.clone(),
            encoded: OnceLock::new(),
        });
        self.sum_reach();
    }

    fn sum_reach(&mut self) {
        self.reach = LayerStatus::default();
        for node in self.nodes.values() {
            self.reach.add(node.reach(&self.layer));
        }
    }

    /// Changes one node, and the sum with it.
    fn change_node<T>(&mut self, stream: Stream, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let node = self.nodes.get_mut(&stream)?;
        self.reach.remove(node.reach(&self.layer));
        let answer = change(node);
        self.reach.add(node.reach(&self.layer));
        Some(answer)
    }

    /// A stream is opened.
    ///
    /// # Errors
    /// When we do not act, or there are [`MOST_STREAMS`] already.
    pub(in crate::adapters::actuator) fn open_stream(
        &mut self,
        address: &str,
    ) -> Result<Stream, StreamRefused> {
        if self.phase == Phase::Idle {
            return Err(StreamRefused::NotActing);
        }
        if self.nodes.len() >= MOST_STREAMS {
            return Err(StreamRefused::Full);
        }
        self.next += 1;
        let node = Node {
            address: clipped(address),
            ..Node::default()
        };
        self.nodes.insert(self.next, node);
        Ok(self.next)
    }

    /// A stream said something.
    pub(in crate::adapters::actuator) fn on_request(&mut self, stream: Stream, ask: &NodeRequest) {
        let wants = self.change_node(stream, |node| {
            node.on_request(ask);
            node.wants
        });
        if self.phase == Phase::Learning && ask.nonce.is_empty() && wants == Some(true) {
            for (cluster, desired) in version::read(&ask.version, MOST_CLUSTERS) {
                // All streams together, so that thousands of them cannot present thousands of names each.
                let full = self.desired_states.len() >= MOST_CLUSTERS;
                if full && !self.desired_states.contains_key(&cluster) {
                    continue;
                }
                let held = self.desired_states.entry(cluster).or_insert(RetryState::Original);
                *held = stricter(*held, desired);
            }
        }
    }

    /// Whether a stream is to be sent something.
    #[must_use]
    pub(in crate::adapters::actuator) fn has_update(&self, stream: Stream) -> bool {
        self.phase == Phase::Serving
            && self.nodes.get(&stream).is_some_and(|node| {
                let sent = node.sent.as_ref();
                node.wants && !sent.is_some_and(|sent| same(sent, &self.layer))
            })
    }

    /// What a stream is to be sent now, if anything; it counts as sent.
    pub(in crate::adapters::actuator) fn next_update(&mut self, stream: Stream) -> Option<Update> {
        if !self.has_update(stream) {
            return None;
        }
        let layer = Arc::clone(&self.layer);
        self.change_node(stream, |node| {
            node.nonce += 1;
            node.answered = false;
            node.sent = Some(Arc::clone(&layer));
            Update {
                layer,
                nonce: node.nonce.to_string(),
            }
        })
    }

    /// A stream is closed.
    pub(in crate::adapters::actuator) fn close_stream(&mut self, stream: Stream) {
        if let Some(node) = self.nodes.remove(&stream) {
            self.reach.remove(node.reach(&self.layer));
            self.gone.retain(|other| other.identity != node.identity);
            self.gone.push_back(node);
            if self.gone.len() > MOST_GONE {
                self.gone.pop_front();
            }
        }
    }

    /// How far the present layer has come.
    #[must_use]
    pub(in crate::adapters::actuator) fn reach(&self) -> LayerStatus {
        self.reach
    }

    /// A node that has not answered by now is not waited for again until it does.
    pub(in crate::adapters::actuator) fn mark_late(&mut self) {
        for node in self.nodes.values_mut() {
            node.late |= node.wants && !node.answered(&self.layer);
        }
        self.sum_reach();
    }

    /// Envoys that are connected, and the latest of those that have gone.
    pub(in crate::adapters::actuator) fn nodes(
        &self,
    ) -> (impl Iterator<Item = &Node>, impl Iterator<Item = &Node>) {
        let connected = |gone: &&Node| !self.nodes.values().any(|node| node.identity == gone.identity);
        (self.nodes.values(), self.gone.iter().filter(connected))
    }

    /// The layer that is served.
    #[must_use]
    pub(in crate::adapters::actuator) fn layer(&self) -> &Arc<Layer> {
        &self.layer
    }
}

/// How many streams set our layer, and what they have said to the present one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::adapters::actuator) struct LayerStatus {
    /// How many set it.
    pub(in crate::adapters::actuator) streams: usize,
    /// How many have accepted it.
    pub(in crate::adapters::actuator) accepted: usize,
    /// How many have refused it.
    pub(in crate::adapters::actuator) refused: usize,
    /// How many have not answered in time.
    pub(in crate::adapters::actuator) late: usize,
}

impl LayerStatus {
    fn add(&mut self, other: Self) {
        self.streams += other.streams;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.late += other.late;
    }

    /// Takes back what was added.
    fn remove(&mut self, other: Self) {
        self.streams -= other.streams;
        self.accepted -= other.accepted;
        self.refused -= other.refused;
        self.late -= other.late;
    }

    /// Whether there is no node left to wait for.
    #[must_use]
    pub(in crate::adapters::actuator) fn complete(self) -> bool {
        self.accepted + self.refused + self.late >= self.streams
    }
}

/// There are [`MOST_CLUSTERS`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::adapters::actuator) struct TooManyClusters;

/// Why a stream is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::adapters::actuator) enum StreamRefused {
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
