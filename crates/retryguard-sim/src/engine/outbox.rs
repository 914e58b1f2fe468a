//! Calls that are written down with the effect of a request and made afterwards.

use std::collections::VecDeque;

use retryguard_core::{Criticality, Instant};

use super::{
    Engine, Event, JobKey, MessageKey, Parent,
    calls::{Ended, Origin},
    descend,
};
use crate::{
    streams::Purpose,
    world::{Outbox, Step},
};

/// What a service has written down and not yet seen delivered.
#[derive(Debug, Default)]
pub(super) struct Outboxed {
    messages: VecDeque<Message>,
    /// Whether the next look into the outbox is scheduled.
    looks: bool,
}

/// A call to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    service: u32,
    edge: usize,
    key: u64,
    lineage: u64,
    written: Instant,
    tries: u32,
    counted: bool,
    original: bool,
    idempotent: bool,
    /// Whether an attempt of it has ever been sent.
    sent: bool,
    /// Whether it has been delivered before.
    delivered: bool,
    rule: Outbox,
}

impl Engine<'_> {
    /// The rule under which a call goes through an outbox, if it does under the policy on its way.
    pub(super) fn defers(&self, step: &Step) -> Option<Outbox> {
        let rule = step.outbox?;
        let by_policy = || {
            let mut ways = step.choices.iter().filter_map(|(_, edge)| *edge);
            ways.any(|edge| self.lines[edge].client_policy.outbox)
        };
        (rule.always || by_policy()).then_some(rule)
    }

    /// A request has had its effect: the messages that it causes are written at the same time.
    #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
    pub(super) fn write_messages(&mut self, handle: JobKey) {
        let job = self.jobs.get(handle).expect("a request that ends is there");
        let service = job.service;
        let (key, lineage) = (job.key, job.lineage);
        let (counted, original, idempotent) = (job.counted, job.original, job.idempotent);
        let world = self.world;
        for (number, step) in world.services[service as usize].steps.iter().enumerate() {
            let Some(rule) = self.defers(step) else { continue };
            let Some(edge) = self.chosen_way(key, number, step) else {
                continue;
            };
            for copy in 0..step.times {
                let way = descend(edge as u64, u64::from(copy + (number as u32) * 1000));
                self.record.on_message(counted);
                self.post(Message {
                    service,
                    edge,
                    key: descend(key, way),
                    lineage: descend(lineage, way),
                    written: self.now,
                    tries: 0,
                    counted,
                    original,
                    idempotent,
                    sent: false,
                    delivered: false,
                    rule,
                });
            }
        }
    }

    fn post(&mut self, message: Message) {
        self.undelivered += 1;
        let waiting = &mut self.servers[message.service as usize].outbox;
        waiting.messages.push_back(message);
        if !std::mem::replace(&mut waiting.looks, true) {
            let poll = super::nanos(message.rule.poll);
            let next = Instant::from_nanos((self.now.as_nanos() / poll + 1) * poll);
            self.queue.push(next, Event::Relay(message.service));
        }
    }

    /// The outbox is looked into.
    pub(super) fn relay(&mut self, service: u32) {
        let waiting = &mut self.servers[service as usize].outbox;
        waiting.looks = false;
        let Some(rule) = waiting.messages.front().map(|message| message.rule) else {
            return;
        };
        let due = waiting.messages.len().min(rule.batch as usize);
        let batch: Vec<Message> = waiting.messages.drain(..due).collect();
        if !waiting.messages.is_empty() {
            waiting.looks = true;
            self.queue.push(self.now.after(rule.poll), Event::Relay(service));
        }
        for message in batch {
            let handle = self.messages.insert(message);
            self.start_call(Origin {
                edge: message.edge,
                peer: 0,
                parent: Parent::Outbox { message: handle },
                key: message.key,
                lineage: descend(message.lineage, u64::from(message.tries)),
                deadline: Instant::NEVER,
                criticality: Criticality::Sheddable,
                counted: message.counted,
                original: message.original && !message.sent,
                idempotent: message.idempotent,
                pool: None,
            });
        }
    }

    /// A delivery has ended: what failed stays in the outbox.
    pub(super) fn message_done(&mut self, handle: MessageKey, ended: &Ended) {
        let Some(mut message) = self.messages.remove(handle) else {
            return;
        };
        self.undelivered -= 1;
        message.sent |= !matches!(ended, Ended::Refused(_));
        let mut again = !matches!(ended, Ended::Success);
        if !again {
            if !std::mem::replace(&mut message.delivered, true) {
                self.record
                    .on_delivered(self.now.since(message.written), message.counted);
            }
            again = self
                .seed
                .stream(descend(message.lineage, u64::from(message.tries)), Purpose::Route)
                .with_probability(message.rule.redelivered);
        }
        if again {
            message.tries += 1;
            self.post(message);
        }
    }
}
