//! Calls that are written down with the effect of a request and made afterwards.

use std::collections::VecDeque;

use retryguard_core::{Criticality, Instant};

use super::{
    Engine, Event, JobKey, LetterKey, Parent,
    calls::{Ended, Origin},
    descend,
};
use crate::{
    streams::Purpose,
    world::{Outbox, Step},
};

/// What a service has written down and not yet seen delivered.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    letters: VecDeque<Letter>,
    /// Whether the next look into the outbox is scheduled.
    looks: bool,
}

/// A call to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
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

    /// A request has had its effect: what it owes to others is written down in the same breath.
    #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
    pub(super) fn write_letters(&mut self, handle: JobKey) {
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
                self.record.on_letter(counted);
                self.post(Letter {
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

    fn post(&mut self, letter: Letter) {
        self.undelivered += 1;
        let waiting = &mut self.servers[letter.service as usize].outbox;
        waiting.letters.push_back(letter);
        if !std::mem::replace(&mut waiting.looks, true) {
            let poll = super::nanos(letter.rule.poll);
            let next = Instant::from_nanos((self.now.as_nanos() / poll + 1) * poll);
            self.queue.push(next, Event::Relay(letter.service));
        }
    }

    /// The outbox is looked into.
    pub(super) fn relay(&mut self, service: u32) {
        let waiting = &mut self.servers[service as usize].outbox;
        waiting.looks = false;
        let Some(rule) = waiting.letters.front().map(|letter| letter.rule) else {
            return;
        };
        let due = waiting.letters.len().min(rule.batch as usize);
        let batch: Vec<Letter> = waiting.letters.drain(..due).collect();
        if !waiting.letters.is_empty() {
            waiting.looks = true;
            self.queue.push(self.now.after(rule.poll), Event::Relay(service));
        }
        for letter in batch {
            let handle = self.letters.insert(letter);
            self.start_call(Origin {
                edge: letter.edge,
                peer: 0,
                parent: Parent::Outbox { letter: handle },
                key: letter.key,
                lineage: descend(letter.lineage, u64::from(letter.tries)),
                deadline: Instant::NEVER,
                criticality: Criticality::Sheddable,
                counted: letter.counted,
                original: letter.original && !letter.sent,
                idempotent: letter.idempotent,
                pool: None,
            });
        }
    }

    /// A delivery has ended: what failed stays in the outbox.
    pub(super) fn letter_done(&mut self, handle: LetterKey, ended: &Ended) {
        let Some(mut letter) = self.letters.remove(handle) else {
            return;
        };
        self.undelivered -= 1;
        letter.sent |= !matches!(ended, Ended::Refused(_));
        let mut again = !matches!(ended, Ended::Success);
        if !again {
            if !std::mem::replace(&mut letter.delivered, true) {
                self.record
                    .on_delivered(self.now.since(letter.written), letter.counted);
            }
            again = self
                .seed
                .stream(descend(letter.lineage, u64::from(letter.tries)), Purpose::Route)
                .with_probability(letter.rule.redelivered);
        }
        if again {
            letter.tries += 1;
            self.post(letter);
        }
    }
}
