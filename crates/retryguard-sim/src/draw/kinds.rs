//! The kinds of drawn worlds: what goes wrong in each, and how far.

use super::parts::{LOST, Sketch, percent, time};

/// A kind of world.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name, which is part of every world's name.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub what: &'static str,
    pub(super) draw: fn(&mut Sketch),
}

/// Every kind. World number `i` of a draw is of kind `i` modulo their count.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "calm",
        what: "Nothing goes wrong, at 10 to 95 % of the capacity.",
        draw: |it| it.load = it.between(0.1, 0.95),
    },
    Kind {
        name: "errors-500",
        what: "A share of the requests fails at random with an error that does not look like load.",
        draw: |it| errors(it, "fault"),
    },
    Kind {
        name: "errors-503",
        what: "A share of the requests fails at random with an error that looks like overload.",
        draw: |it| errors(it, "overload"),
    },
    Kind {
        name: "errors-504",
        what: "A share of the requests fails at random with an answer that says timeout.",
        draw: |it| errors(it, "timeout"),
    },
    Kind {
        name: LOST,
        what: "A share of the messages never arrives; every caller has a time for an attempt.",
        draw: |it| {
            let share = it.log(0.003, 0.1);
            it.lose_messages(share);
        },
    },
    Kind {
        name: "overload-rejecting",
        what: "More first attempts than the capacity; the queue is short and rejections cost nothing.",
        draw: |it| {
            it.load = it.log(1.05, 4.0);
            short_queue(it);
            rejection_time(it);
        },
    },
    Kind {
        name: "overload-costly",
        what: "More first attempts than the capacity; the queue is short and each rejection takes time from the work.",
        draw: |it| {
            it.load = it.log(1.05, 3.0);
            short_queue(it);
            let share = it.log(0.01, 0.2);
            let line = format!("rejectionWork: {}", time(it.work * share));
            it.say(line);
        },
    },
    Kind {
        name: "overload-fifo",
        what: "More first attempts than the capacity, before a queue that is longer than callers wait.",
        draw: |it| {
            it.load = it.log(1.02, 2.5);
            long_queue(it);
        },
    },
    Kind {
        name: "table",
        what: "A table of so many requests a second, with unused capacity saved up, asked for less or more than that.",
        draw: |it| {
            it.load = it.log(0.7, 3.0);
            let saves = it.with_probability(0.7);
            it.table_burst = Some(if saves { it.log(1.0, 60.0) } else { 0.0 });
            rejection_time(it);
        },
    },
    Kind {
        name: "slow",
        what: "The work takes longer for a while.",
        draw: |it| {
            it.load = it.between(0.3, 0.9);
            let effect = format!("slow: {:.2}", it.log(1.5, 10.0));
            for_a_while(it, &effect);
        },
    },
    Kind {
        name: "lost-capacity",
        what: "A part of the workers is gone for a while.",
        draw: |it| {
            it.load = it.between(0.3, 0.95);
            let effect = format!("capacity: {}", percent(it.between(0.1, 0.8)));
            for_a_while(it, &effect);
        },
    },
    Kind {
        name: "broken-replica",
        what: "One of several replicas refuses every request at once, the balancer does not know, and its workers are gone.",
        draw: broken_replica,
    },
    Kind {
        name: "outage-short",
        what: "The service cannot be reached for a moment, once or several times.",
        draw: |it| {
            let lasts = it.log(0.1, 3.0);
            let from = it.duration * it.between(0.15, 0.35);
            if it.with_probability(0.5) {
                let every = it.between(8.0, 25.0);
                let until = it.duration * 0.85;
                it.fault_every("outage: true", from, until, every, lasts);
            } else {
                it.fault("outage: true", from, from + lasts);
            }
        },
    },
    Kind {
        name: "outage-long",
        what: "The service cannot be reached for a while.",
        draw: |it| {
            let lasts = it.log(4.0, 40.0);
            let from = it.duration * it.between(0.1, 0.25);
            it.fault("outage: true", from, from + lasts);
        },
    },
    Kind {
        name: "flapping",
        what: "The service comes and goes: it cannot be reached, fails, or is slow.",
        draw: |it| {
            let every = it.log(3.0, 30.0);
            let on = every * it.between(0.1, 0.6);
            let effect = match it.between(0.0, 3.0) {
                x if x < 1.0 => "outage: true".to_owned(),
                x if x < 2.0 => {
                    it.say("errorKind: overload");
                    format!("errors: {}", percent(it.between(0.5, 1.0)))
                }
                _ => format!("slow: {:.2}", it.log(2.0, 10.0)),
            };
            let (from, until) = (it.duration * 0.15, it.duration * 0.85);
            it.fault_every(&effect, from, until, every, on);
        },
    },
    Kind {
        name: "load-errors",
        what: "The busier the service, the more requests fail.",
        draw: |it| {
            it.load = it.between(0.6, 1.5);
            let kind = if it.with_probability(0.7) {
                "overload"
            } else {
                "fault"
            };
            it.say(format!("errorKind: {kind}"));
            let from = it.between(0.5, 0.9);
            let to = it.between(1.1, 2.5);
            let most = it.between(0.2, 0.9);
            it.say(format!(
                "loadErrors: {{from: {}, to: {}, most: {}}}",
                percent(from),
                percent(to),
                percent(most)
            ));
        },
    },
    Kind {
        name: "surge",
        what: "More calls than the capacity for a while, before a queue of any length.",
        draw: |it| {
            it.load = it.between(0.3, 0.85);
            if it.with_probability(0.4) {
                long_queue(it);
            }
            surge(it);
        },
    },
    Kind {
        name: "closed-loop",
        what: "Users who wait for their answer, think, and call again; in half of these worlds the work gets slow or stops.",
        draw: |it| {
            it.load = it.log(0.4, 3.0);
            it.think = Some(it.log(0.1, 5.0).max(it.work));
            if it.with_probability(0.25) {
                let effect = format!("slow: {:.2}", it.log(1.5, 5.0));
                for_a_while(it, &effect);
            } else if it.with_probability(0.33) {
                let (from, lasts) = (it.duration * 0.25, it.log(0.5, 20.0));
                it.fault("outage: true", from, from + lasts);
            }
        },
    },
    Kind {
        name: "restart",
        what: "An outage, after which the work is slow for as long again: a restart with cold caches.",
        draw: |it| {
            let lasts = it.log(1.0, 20.0);
            let from = it.duration * it.between(0.1, 0.25);
            it.fault("outage: true", from, from + lasts);
            let effect = format!("slow: {:.2}", it.log(1.5, 5.0));
            it.fault(&effect, from + lasts, from + 2.0 * lasts);
        },
    },
    Kind {
        name: "mixed",
        what: "Two troubles at once: random errors, and a surge, lost capacity, slow work or an outage.",
        draw: |it| {
            let kind = if it.with_probability(0.5) {
                "overload"
            } else {
                "fault"
            };
            it.say(format!("errorKind: {kind}"));
            let share = percent(it.log(0.01, 0.3));
            it.say(format!("errors: {share}"));
            match it.between(0.0, 4.0) {
                x if x < 1.0 => surge(it),
                x if x < 2.0 => {
                    let effect = format!("capacity: {}", percent(it.between(0.2, 0.8)));
                    for_a_while(it, &effect);
                }
                x if x < 3.0 => {
                    let effect = format!("slow: {:.2}", it.log(1.5, 5.0));
                    for_a_while(it, &effect);
                }
                _ => {
                    let (from, lasts) = (it.duration * 0.25, it.log(0.3, 20.0));
                    it.fault("outage: true", from, from + lasts);
                }
            }
        },
    },
];

/// Random errors, all the time or for a while.
fn errors(it: &mut Sketch, kind: &str) {
    it.load = it.between(0.2, 0.9);
    it.say(format!("errorKind: {kind}"));
    let share = percent(it.log(0.005, 0.6));
    if it.with_probability(0.5) {
        it.say(format!("errors: {share}"));
    } else {
        for_a_while(it, &format!("errors: {share}"));
    }
}

/// A fault that leaves time before it and after it.
fn for_a_while(it: &mut Sketch, effect: &str) {
    let from = it.duration * it.between(0.15, 0.3);
    let until = it.duration * it.between(0.5, 0.8);
    it.fault(effect, from, until);
}

fn surge(it: &mut Sketch) {
    let peak = it.log(1.2, 5.0) / it.load;
    let from = it.duration * it.between(0.15, 0.3);
    let lasts = it.log(2.0, 30.0);
    it.stages = vec![(from, peak), (from + lasts, 1.0)];
}

/// A queue that is worked off long before callers stop waiting.
fn short_queue(it: &mut Sketch) {
    let most = (it.deadline / it.work / 2.0).max(0.3);
    let times = it.log(0.2, 3.0).min(most);
    it.queue = Some(times);
}

/// A queue that takes longer than callers wait.
fn long_queue(it: &mut Sketch) {
    let waits = it.deadline / it.work;
    it.queue = if it.with_probability(0.3) {
        None
    } else {
        Some((waits * it.log(1.0, 10.0)).max(2.0))
    };
}

fn rejection_time(it: &mut Sketch) {
    if it.with_probability(0.5) {
        let line = format!("rejectionTime: {}", time(it.log(0.0005, 0.01)));
        it.say(line);
    }
}

fn broken_replica(it: &mut Sketch) {
    it.replicas = it.replicas.clamp(2, 10);
    let left = 1.0 - 1.0 / f64::from(it.replicas);
    it.load = it.between(0.25, 0.95) * left;
    let from = it.duration * it.between(0.15, 0.3);
    let until = it.duration * it.between(0.5, 0.85);
    it.fault("brokenReplicas: 1", from, until);
    it.fault(&format!("capacity: {}", percent(left)), from, until);
}
