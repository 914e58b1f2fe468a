//! The shedder against a head count and a table.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Criticality, Ratio,
    bulkhead::Ticket,
    chance::Lowest,
    shed::{Arrival, Entry, Reason, Settings, Shed},
};

use crate::support::at;

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrive(usize, bool),
    Leave(usize),
    QueueTime(u64),
    Processor(u32),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0usize..4, any::<bool>()).prop_map(|(level, again)| Event::Arrive(level, again)),
        2 => (0usize..8).prop_map(Event::Leave),
        2 => (0u64..40).prop_map(Event::QueueTime),
        1 => (80u32..100).prop_map(Event::Processor),
        2 => (0u64..250).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..200)
}

/// Percent of the bound that each rank may fill, least first: retries before first attempts of each level.
const ROOM: [[u64; 2]; 4] = [[60, 50], [80, 70], [100, 90], [110, 105]];

/// Rises by one an interval under the signal, falls by one an interval without it.
fn moved(level: u64, up: bool) -> u64 {
    if up {
        (level + 1).min(7)
    } else {
        level.saturating_sub(1)
    }
}

proptest! {
    #[test]
    fn the_head_count_and_the_bounds(in_flight in 1u32..30, events in events()) {
        let settings = Settings { in_flight, processor: Some(Ratio::percent(90)), ..Settings::default() };
        let mut shed = Shed::new(settings, at(0));
        let mut entries: Vec<Entry> = Vec::new();
        let (mut bound, mut processor) = (f64::from(in_flight), 0);
        let (mut now, mut ends) = (0, 100);
        let mut waits: Vec<u64> = Vec::new();
        for event in events {
            if matches!(event, Event::Arrive(..) | Event::QueueTime(_)) && now >= ends {
                let standing = waits.iter().min().is_some_and(|wait| *wait > 20);
                if standing {
                    bound = (bound.min(entries.len() as f64) * 0.9).max(1.0);
                }
                // The intervals after it, in which nothing happened, count too.
                for _ in 0..(now - ends) / 100 + u64::from(!standing) {
                    bound = (bound * 1.05 + 1.0).min(f64::from(in_flight));
                }
                waits.clear();
                ends = now + 100;
            }
            match event {
                Event::Arrive(level, again) => {
                    let rank = level as u64 * 2 + u64::from(!again);
                    let full = |bound: f64| {
                        let room = bound * ROOM[level][usize::from(again)] as f64 / 100.0;
                        entries.len() as f64 >= (room + 1e-9).floor().max(1.0)
                    };
                    let expected = if full(in_flight.into()) {
                        Some(Reason::InFlight)
                    } else if rank < 7 && full(bound) {
                        Some(Reason::QueueTime)
                    } else if rank < processor {
                        Some(Reason::Processor)
                    } else {
                        None
                    };
                    let arrival = Arrival { criticality: Criticality::ALL[level], again };
                    prop_assert_eq!(u64::from(arrival.rank()), rank);
                    match shed.admit(arrival, Ticket(0), at(now), &mut Lowest) {
                        Ok(entry) => {
                            entries.push(entry);
                            prop_assert_eq!(expected, None);
                        }
                        Err(refused) => prop_assert_eq!(Some(refused.reason), expected),
                    }
                }
                Event::Leave(rank) if rank < entries.len() => shed.leave(entries.remove(rank)),
                Event::Leave(_) => {}
                Event::QueueTime(millis) => {
                    shed.on_queue_time(Duration::from_millis(millis), at(now));
                    waits.push(millis);
                }
                Event::Processor(percent) => {
                    shed.on_processor(Ratio::percent(percent));
                    processor = moved(processor, percent > 90);
                }
                Event::Pass(millis) => now += millis,
            }
            prop_assert_eq!(shed.in_flight() as usize, entries.len());
            prop_assert!(u64::from(shed.level()) >= processor);
            prop_assert!((f64::from(shed.bound()) - bound.floor()).abs() <= 1.0, "{} {bound}", shed.bound());
        }
    }

    /// With a queue of its own: never more at work than allowed, first come first served, and a request that leaves,
    /// wherever it stands, makes room for exactly one.
    #[test]
    fn turns_are_taken_in_order(
        working in 1u32..4,
        events in prop::collection::vec((0u8..3, 0usize..8), 1..150),
    ) {
        let settings = Settings { in_flight: 1000, working: Some(working), ..Settings::default() };
        let mut shed = Shed::new(settings, at(0));
        let critical = Arrival { criticality: Criticality::Critical, again: false };
        // By ticket: who is in, whether it has begun, and whether it has been named.
        let mut inside: Vec<(u64, Entry, bool)> = Vec::new();
        for (ticket, (event, rank)) in (0u64..).zip(events) {
            match event {
                0 | 1 => {
                    let entry = shed.admit(critical, Ticket(ticket), at(0), &mut Lowest).unwrap();
                    let begins = !entry.must_wait();
                    let busy = inside.iter().filter(|it| it.2).count();
                    prop_assert_eq!(begins, busy < working as usize && inside.iter().all(|it| it.2));
                    inside.push((ticket, entry, begins));
                }
                _ if rank < inside.len() => shed.leave(inside.remove(rank).1),
                _ => {}
            }
            while let Some(Ticket(next)) = shed.next_turn() {
                let first = inside.iter_mut().find(|it| !it.2).unwrap();
                prop_assert_eq!(first.0, next);
                first.2 = true;
                // Half of them begin at once, the others are named and have not begun yet.
                if next % 2 == 0 {
                    shed.start(&mut first.1, at(0));
                }
            }
            let busy = inside.iter().filter(|it| it.2).count();
            prop_assert_eq!(busy, inside.len().min(working as usize));
            prop_assert_eq!(shed.in_flight() as usize, inside.len());
        }
    }
}
