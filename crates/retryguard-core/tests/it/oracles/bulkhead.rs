//! The bulkhead against a line of people before a door.

use std::collections::VecDeque;

use proptest::prelude::*;
use retryguard_core::{
    Instant, Ratio, Refusal,
    bulkhead::{Acquired, Bulkhead, Limit, Settings, Ticket},
};

use crate::support::{bulkhead, ms};

#[derive(Debug, Clone, Copy)]
enum Event {
    Acquire,
    TryAcquire,
    Release,
    Grant,
    Leave(u64),
    /// New bounds for the door and the line.
    Replace(u32, u32),
}

proptest! {
    #[test]
    fn first_come_first_served(
        limit in 0u32..4,
        waiting in 0u32..5,
        events in prop::collection::vec(prop_oneof![
            4 => Just(Event::Acquire),
            1 => Just(Event::TryAcquire),
            3 => Just(Event::Release),
            3 => Just(Event::Grant),
            1 => (0u64..30).prop_map(Event::Leave),
            1 => (0u32..4, 0u32..5).prop_map(|(limit, waiting)| Event::Replace(limit, waiting)),
        ], 1..200),
    ) {
        let mut real = Bulkhead::new(bulkhead(limit, waiting), Instant::ZERO);
        let (mut limit, mut waiting) = (limit, waiting);
        let mut inside = 0u32;
        let mut line: VecDeque<u64> = VecDeque::new();
        for (ticket, event) in (0u64..).zip(events) {
            let free = inside < limit && line.is_empty();
            match event {
                Event::Acquire => {
                    let expected = if free {
                        inside += 1;
                        Ok(Acquired::Taken)
                    } else if line.len() < waiting as usize {
                        line.push_back(ticket);
                        Ok(Acquired::Queued)
                    } else {
                        Err(Refusal::BulkheadFull)
                    };
                    prop_assert_eq!(real.acquire(Ticket(ticket)), expected);
                }
                Event::TryAcquire => {
                    prop_assert_eq!(real.try_acquire(), free);
                    inside += u32::from(free);
                }
                Event::Release if inside > 0 => {
                    real.release();
                    inside -= 1;
                }
                Event::Release => {}
                Event::Grant => {
                    let next = if inside < limit { line.pop_front() } else { None };
                    inside += u32::from(next.is_some());
                    prop_assert_eq!(real.grant(), next.map(Ticket));
                }
                Event::Leave(who) => {
                    let was_there = line.contains(&who);
                    line.retain(|ticket| *ticket != who);
                    prop_assert_eq!(real.leave(Ticket(who)), was_there);
                }
                Event::Replace(door, queue) => {
                    (limit, waiting) = (door, queue);
                    real.replace(bulkhead(limit, waiting));
                }
            }
            prop_assert_eq!((real.in_flight(), real.waiting()), (inside, line.len()));
        }
    }

    /// Whatever the latencies, an adaptive limit stays within its bounds and above zero.
    #[test]
    fn an_adaptive_limit_keeps_its_bounds(
        bounds in (0u32..50, 0u32..50, 0u32..50),
        answers in prop::collection::vec((0u64..2_000, any::<bool>(), 0u64..50), 1..300),
    ) {
        let (initial, least, most) = bounds;
        let limit = Limit::Gradient { initial, least, most, tolerance: Ratio::percent(150) };
        let mut real = Bulkhead::new(Settings { limit, ..bulkhead(1, 0) }, Instant::ZERO);
        let mut now = Instant::ZERO;
        for (millis, rejected, passed) in answers {
            now = now.after(ms(passed));
            while real.try_acquire() {}
            real.on_latency(ms(millis), rejected, now);
            prop_assert!(real.limit() >= least.max(1) && real.limit() <= most.max(least).max(1));
            real.release();
        }
    }
}
