//! The engine: one run of one policy in one world.
//!
//! Everything that happens is an event; handling one may schedule others, and nothing recurses further
//! than the depth of the call graph: a request that is turned away answers through the queue, never on the
//! stack.

mod admission;
mod calls;
mod clients;
mod endpoints;
mod event;
mod faults;
mod jobs;
mod oracle;
mod outbox;
mod peers;
mod pools;
mod record;
mod scale;
mod server;

use std::{sync::Arc, time::Duration};

use retryguard_core::{Call, Criticality, Failure, Instant, shed, target};
use retryguard_policy::Policy;

use crate::{
    client_policy::{ClientPolicy, Extra, Readings, Rules},
    distribution::Distribution,
    kernel::{Handle, Queue, Slab},
    streams::{Seed, Stream},
    world::{Edge, EdgePolicy, Effects, Service, Shedding, World},
};

use admission::{Rejection, Rejections};
use event::{Event, Packed};
use peers::Peers;
use record::Recorder;
use server::Server;

pub use record::{EdgeState, Moment, Run, ServiceRun, Shares, State, TimeLine};

/// Names a call, a request at a service, a delivery out of an outbox, or a rejection that reaches its caller later.
type CallKey = Handle<InFlightCall>;
type JobKey = Handle<Job>;
type MessageKey = Handle<outbox::Message>;
type RejectionKey = Handle<Rejection>;

/// A call under way.
#[derive(Debug)]
struct InFlightCall {
    call: Call,
    edge: u32,
    peer: u32,
    parent: Parent,
    /// Names the effect: the same for every attempt and every layer's retry of one request.
    key: u64,
    /// Names the random numbers: others for each attempt, the same under every policy.
    lineage: u64,
    chance: Stream,
    began: Instant,
    /// The earliest timer that stands in the queue.
    timer: Instant,
    counted: bool,
    original: bool,
    idempotent: bool,
    /// The attempt that runs and when its caller stops waiting for it, where a part of a foreign policy needs both.
    attempt: Option<(u8, Instant)>,
    /// Whether the retry that runs or waits was charged to the policy's extra part.
    charged: bool,
    criticality: Criticality,
    /// The pool that a connection is held from.
    pool: Option<u32>,
    /// The oracle holds it until there is room: with the failed attempt that it would answer, if any.
    held: Option<Option<(u8, Failure)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Client { client: u32, user: u32 },
    Job { job: JobKey, optional: bool },
    Outbox { message: MessageKey },
}

/// A request at a service.
#[derive(Debug)]
struct Job {
    caller: CallKey,
    number: u8,
    edge: u32,
    service: u32,
    key: u64,
    lineage: u64,
    counted: bool,
    original: bool,
    idempotent: bool,
    again: bool,
    criticality: Criticality,
    /// When the caller does not want the answer any more, as far as the service knows.
    deadline: Instant,
    /// When the caller stops waiting, whether the service knows it or not.
    ends: Instant,
    arrived: Instant,
    began: Instant,
    /// How long the work takes, and the rest of its random numbers: drawn while the request waits, so that no event waits for
    /// a logarithm before it is known what happens next.
    work: Option<(u64, Stream)>,
    instance: u32,
    /// The replica that it goes to; [`endpoints::ANY`] where its caller does not know them.
    replica: u32,
    holds_worker: bool,
    step: u16,
    pending: u32,
    failure: Option<Failure>,
    result: Option<Result<(), Failure>>,
    entry: Option<shed::Entry>,
}

/// The clocks of the callers of an edge.
#[derive(Debug)]
enum Clocks {
    /// They know no time that all of them share.
    None,
    /// They agree.
    True,
    /// Each is off the true time by a draw, ahead or behind.
    Skewed(Distribution),
}

/// An edge and everything that its callers know.
#[derive(Debug)]
struct Line<'a> {
    client_policy: &'a ClientPolicy,
    /// The service that it leads to, and whether a request is there as soon as it is sent.
    to: u32,
    near: bool,
    settings: Arc<target::Settings>,
    /// The clocks of its callers.
    clocks: Clocks,
    /// How failures are read, where that is not the usual way.
    readings: Option<Box<Readings>>,
    /// Whether requests carry the deadline of their call to a service that reads it.
    propagates: bool,
    /// The mean time of a way there and back, as the oracle counts with it.
    round_trip: Duration,
    /// Whether a request that must not be done twice is retried all the same: the policy says so, or a key keeps it from
    /// being done twice.
    retries_everything: bool,
    /// Whether nothing stands between an answer and the call: no part of a foreign policy, no oracle, no hint to be
    /// kept from it.
    plain: bool,
    /// Whether all clients can be one: they share their state, or there is none to be kept apart.
    one_peer: bool,
    /// Whether its callers know the replicas of the service and choose by our machine, or by the oracle's knowledge.
    knows: bool,
    peers: Peers,
}

/// Runs a policy in a world.
///
/// `fixed` holds the policies that edges name; one that is missing is looked up among the known names.
///
/// # Panics
///
/// Where an edge names an unknown policy; a scenario file is checked for that when it is read.
#[must_use]
pub fn run(world: &World, client_policy: &ClientPolicy, fixed: &[ClientPolicy], seed: Seed) -> Run {
    let client_policies: Vec<ClientPolicy> = world
        .edges
        .iter()
        .map(|edge| match &edge.policy {
            EdgePolicy::Compared => client_policy.clone(),
            EdgePolicy::Fixed(name) => fixed
                .iter()
                .find(|client_policy| client_policy.name == *name)
                .cloned()
                .or_else(|| crate::client_policy::named(name))
                .unwrap_or_else(|| panic!("no policy is named {name}")),
        })
        .collect();
    let mut engine = Engine::new(world, &client_policies, seed);
    engine.begin();
    engine.go();
    engine.end(client_policy)
}

struct Engine<'a> {
    world: &'a World,
    seed: Seed,
    now: Instant,
    queue: Queue<Packed>,
    rejections: Rejections,
    calls: Slab<InFlightCall>,
    jobs: Slab<Job>,
    /// Deliveries out of an outbox that are under way, and how many wait or are.
    messages: Slab<outbox::Message>,
    routes: endpoints::Routes,
    undelivered: usize,
    servers: Vec<Server>,
    lines: Vec<Line<'a>>,
    callers: Vec<clients::State>,
    /// Whether each fault is in force.
    faults_on: Vec<bool>,
    record: Recorder,
    /// When arrivals end, and when everything does.
    ends: Instant,
    stops: Instant,
}

impl Line<'_> {
    /// A failure as the policy reads it.
    #[inline]
    fn read(&self, failure: Failure) -> Failure {
        let Some(readings) = &self.readings else {
            return failure;
        };
        let mut read = readings[failure.kind as usize];
        read.hints = failure.hints;
        read.rejection |= failure.hints.do_not_retry && !failure.hints.caller_only;
        read
    }
}

impl<'a> Engine<'a> {
    fn new(world: &'a World, client_policies: &'a [ClientPolicy], seed: Seed) -> Self {
        let mut lines: Vec<Line<'a>> = world
            .edges
            .iter()
            .zip(client_policies)
            .enumerate()
            .map(|(number, (edge, client_policy))| {
                let service = &world.services[edge.to];
                let (name, settings) = (&service.name, settings_on(edge, client_policy, &service.name));
                let tells_nothing = service.shedding == Shedding::Off;
                let knows = edge.knows_endpoints && (client_policy.hears_hints() || client_policy.oracle);
                #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
                let to = edge.to as u32;
                Line {
                    client_policy,
                    to,
                    near: edge.network.is_nothing(),
                    plain: client_policy.extra == Extra::None
                        && client_policy.hears_hints()
                        && !client_policy.oracle,
                    one_peer: client_policy.shared
                        || tells_nothing && !knows && client_policy.keeps_no_state(&settings),
                    knows,
                    settings,
                    clocks: clocks(world, number, client_policy),
                    readings: client_policy.readings(name),
                    propagates: client_policy.propagates_to(name) && service.drops_expired,
                    round_trip: crate::distribution::seconds(2.0 * edge.network.usual_mean()),
                    retries_everything: client_policy.retries_everything(name),
                    peers: Peers::default(),
                }
            })
            .collect();
        let servers: Vec<Server> = world
            .services
            .iter()
            .enumerate()
            .map(|(index, service)| {
                let towards = world.edges.iter().position(|edge| edge.to == index);
                let rule = towards.and_then(|edge| shed_rule(&client_policies[edge], service));
                let keys = towards.is_some_and(|edge| client_policies[edge].adds_keys(&service.name));
                Server::new(service, rule, keys)
            })
            .collect();
        for line in &mut lines {
            line.retries_everything |= servers[line.to as usize].effects == Effects::Keyed;
        }
        Self {
            world,
            seed,
            now: Instant::ZERO,
            queue: Queue::new(),
            rejections: Rejections::default(),
            calls: Slab::default(),
            jobs: Slab::default(),
            messages: Slab::default(),
            routes: endpoints::Routes::default(),
            undelivered: 0,
            servers,
            lines,
            callers: clients::states(world, seed),
            faults_on: vec![false; world.faults.len()],
            record: Recorder::new(world),
            ends: Instant::ZERO.after(world.duration),
            stops: Instant::ZERO.after(world.duration).after(world.drain),
        }
    }

    fn begin(&mut self) {
        self.begin_clients();
        self.begin_faults();
        self.begin_scalers();
        self.queue.push(Instant::ZERO.after(self.world.step), Event::Step);
    }

    fn go(&mut self) {
        while let Some((at, event)) = self.queue.pop() {
            // Neither can be before arrivals have ended.
            if (at > self.ends || self.record.ended_early) && (at > self.stops || self.is_finished()) {
                break;
            }
            self.now = at;
            self.record.events += 1;
            self.handle(event.unpacked());
            while let Some(rejection) = self.rejections.take_next() {
                self.record.events += 1;
                self.rejected(&rejection);
            }
        }
    }

    /// Whether arrivals have ended and nothing that counts is under way: only clocks still tick.
    #[inline]
    fn is_finished(&self) -> bool {
        self.record.ended_early && self.record.open_calls() == 0
            || self.queue.now() > self.ends && self.calls.is_empty() && self.undelivered == 0
    }

    /// Always part of the loop, its only caller: an event need not travel through memory.
    #[inline(always)]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(client) => self.arrival(client),
            Event::Stage(client) => self.stage(client),
            Event::User { client, user } => self.user(client, user),
            Event::Launch(job) => self.launch(job),
            Event::Reach(job) => self.reach(job),
            Event::Worked(job) => self.worked(job),
            Event::Answer(job) => self.answer(job),
            Event::Rejected(key) => {
                if let Some(rejection) = self.rejections.take(key) {
                    self.rejected(&rejection);
                }
            }
            Event::Kill(job) => self.kill(job),
            Event::Timer(call) => self.timer(call),
            Event::Place(call) => self.place(call),
            Event::Relay(service) => self.relay(service),
            Event::Room(service) => self.room(service),
            Event::Fault(fault) => self.fault(fault),
            Event::Reading(service) => self.reading(service),
            Event::Resize(service) => self.resize(service),
            Event::Step => self.step(),
        }
    }

    /// Another step of the time lines.
    fn step(&mut self) {
        self.record_state();
        let next = self.now.after(self.world.step);
        if next <= Instant::ZERO.after(self.world.duration) {
            self.queue.push(next, Event::Step);
        }
    }

    fn end(mut self, client_policy: &ClientPolicy) -> Run {
        for in_flight in self.calls.iter_mut() {
            let peer = &mut self.lines[in_flight.edge as usize].peers[in_flight.peer as usize];
            in_flight.call.abandon(&mut peer.target);
        }
        let now = self.now;
        for server in &mut self.servers {
            server.settle(now);
        }
        self.record
            .finish(&client_policy.name, self.world, &self.servers, now)
    }
}

/// The settings of a policy on an edge: where they say nothing of an attempt's time, the edge does.
fn settings_on(edge: &Edge, client_policy: &ClientPolicy, service: &str) -> Arc<target::Settings> {
    let mut settings = client_policy.settings(service);
    if let Some(timeout) = edge.attempt_timeout
        && settings.call.attempt_timeout.is_none()
        // The oracle knows that an answer will come, unless the message got lost.
        && (!client_policy.oracle || edge.network.is_mixed())
    {
        Arc::make_mut(&mut settings).call.attempt_timeout = Some(timeout);
    }
    settings
}

/// The clocks of the callers of an edge. All clocks of a world without skew are the same one.
fn clocks(world: &World, edge: usize, client_policy: &ClientPolicy) -> Clocks {
    if !client_policy.shares_clock {
        return Clocks::None;
    }
    let of_clients = world.clients.iter().map(|it| (it.edge == edge, &it.clock_skew));
    let of_services = world.services.iter().map(|it| {
        let ways = it.steps.iter().flat_map(|step| &step.choices);
        (ways.into_iter().any(|(_, to)| *to == Some(edge)), &it.clock_skew)
    });
    let mut all = of_clients.chain(of_services);
    if all.clone().all(|(_, skew)| skew.is_nothing()) {
        return Clocks::True;
    }
    all.find(|(calls, _)| *calls)
        .map_or(Clocks::Skewed(Distribution::NOTHING), |(_, skew)| {
            Clocks::Skewed(skew.clone())
        })
}

/// The rule by which a service sheds, as far as it depends on the policy of its callers.
fn shed_rule(client_policy: &ClientPolicy, service: &Service) -> Option<shed::Settings> {
    match (service.shedding, &client_policy.rules) {
        (Shedding::Layer, Rules::Same(_)) => {
            ClientPolicy::of_policy("", Policy::default()).shed(&service.name)
        }
        _ => client_policy.shed(&service.name),
    }
}

fn nanos(span: Duration) -> u64 {
    retryguard_core::time::nanos(span)
}

/// The lineage or the key of the `number`th thing that comes from another.
#[inline]
const fn descend(of: u64, number: u64) -> u64 {
    (of ^ number.wrapping_add(1).wrapping_mul(0xa076_1d64_78bd_642f))
        .rotate_left(23)
        .wrapping_mul(0xe703_7ed1_a0b4_28db)
}

#[cfg(test)]
mod tests;
