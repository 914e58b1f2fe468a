//! Faults that come and go.

use retryguard_core::Instant;

use super::{Engine, Event, server::ActiveFaults};
use crate::world::{Effect, Fault};

impl Engine<'_> {
    #[expect(clippy::cast_possible_truncation, reason = "a world has few faults")]
    pub(super) fn begin_faults(&mut self) {
        for (index, fault) in self.world.faults.iter().enumerate() {
            self.queue.push(fault.from, Event::Fault(index as u32));
        }
    }

    /// A fault begins or ends: what is in force is put together anew.
    pub(super) fn fault(&mut self, index: u32) {
        let fault = &self.world.faults[index as usize];
        let (on, next) = state_at(fault, self.now);
        self.faults_on[index as usize] = on;
        if let Some(next) = next {
            self.queue.push(next, Event::Fault(index));
        }
        let service = fault.service;
        let mut faults = ActiveFaults::NONE;
        let all = self.world.faults.iter().zip(&self.faults_on).enumerate();
        for (number, (fault, _)) in all.filter(|(_, (fault, on))| **on && fault.service == service) {
            match &fault.effect {
                Effect::Outage => faults.down = true,
                Effect::Errors(share) => faults.errors += (1.0 - faults.errors) * share,
                Effect::Slow(times) => faults.slow *= times,
                Effect::Delay(_) => faults.delays.push(number),
                Effect::Capacity(share) => faults.share *= share,
                Effect::BrokenReplicas(count) => faults.broken += count,
            }
        }
        self.servers[service].set_faults(faults);
        self.next_waiting(service);
    }
}

/// Whether a fault is in force at a time, and when that changes next.
fn state_at(fault: &Fault, now: Instant) -> (bool, Option<Instant>) {
    if now >= fault.until {
        return (false, None);
    }
    if now < fault.from {
        return (false, Some(fault.from));
    }
    let Some((every, on_for)) = fault.rhythm else {
        return (true, Some(fault.until));
    };
    let passed = now.since(fault.from).as_nanos();
    let phase = passed % every.as_nanos().max(1);
    let began = now.as_nanos() - u64::try_from(phase).unwrap_or(0);
    let began = Instant::from_nanos(began);
    if phase < on_for.as_nanos() {
        (true, Some(began.after(on_for).min(fault.until)))
    } else {
        (false, Some(began.after(every).min(fault.until)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rhythm_goes_on_and_off_until_the_end() {
        let fault = Fault {
            service: 0,
            effect: Effect::Outage,
            from: Instant::from_secs(100),
            until: Instant::from_secs(130),
            rhythm: Some((Duration::from_secs(20), Duration::from_secs(5))),
        };
        let secs = Instant::from_secs;
        assert_eq!(state_at(&fault, secs(100)), (true, Some(secs(105))));
        assert_eq!(state_at(&fault, secs(105)), (false, Some(secs(120))));
        assert_eq!(state_at(&fault, secs(120)), (true, Some(secs(125))));
        assert_eq!(state_at(&fault, secs(125)), (false, Some(secs(130))));
        assert_eq!(state_at(&fault, secs(130)), (false, None));
    }
}
