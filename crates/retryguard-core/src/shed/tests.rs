//! What is refused, and how far the bound shrinks.

use super::*;
use crate::chance::{Highest, Lowest};

const NOW: Instant = Instant::from_secs(1);

fn arrival(criticality: Criticality, again: bool) -> Arrival {
    Arrival { criticality, again }
}

fn shed(settings: Settings) -> Shed {
    Shed::new(settings, NOW)
}

/// Fills the house with what matters most, as far as `arrival` is still let in.
fn room_for(arrival: Arrival) -> u32 {
    let mut shed = shed(Settings {
        in_flight: 100,
        ..Settings::default()
    });
    let mut entries = Vec::new();
    let highest = super::Arrival {
        criticality: Criticality::CriticalPlus,
        again: false,
    };
    while shed.objection(arrival.rank()).is_none() {
        entries.push(shed.admit(highest, Ticket(0), NOW, &mut Lowest).unwrap());
    }
    let full = shed.in_flight();
    entries.into_iter().for_each(|entry| shed.leave(entry));
    assert_eq!(shed.in_flight(), 0);
    full
}

#[test]
fn sheddable_goes_first_retries_before_first_attempts_and_critical_plus_last() {
    let mut order = Vec::new();
    for criticality in Criticality::ALL {
        order.push(room_for(arrival(criticality, true)));
        order.push(room_for(arrival(criticality, false)));
    }
    assert_eq!(order, [50, 60, 70, 80, 90, 100, 105, 110]);
}

#[test]
fn a_refused_client_gets_a_spread_retry_after() {
    let mut shed = shed(Settings {
        in_flight: 0,
        ..Settings::default()
    });
    let entry = shed
        .admit(arrival(Criticality::Critical, false), Ticket(1), NOW, &mut Lowest)
        .unwrap();
    let wait = |shed: &mut Shed, chance: &mut dyn Chance| {
        let mut chance = chance;
        shed.admit(arrival(Criticality::Critical, false), Ticket(2), NOW, &mut chance)
            .unwrap_err()
            .retry_after
    };
    assert_eq!(wait(&mut shed, &mut Lowest), Duration::from_secs(1));
    assert_eq!(wait(&mut shed, &mut Highest), Duration::from_secs(2));
    shed.leave(entry);
}

#[test]
fn requests_wait_for_their_turn_and_may_give_up_anywhere() {
    let mut shed = shed(Settings {
        working: Some(1),
        ..Settings::default()
    });
    let critical = arrival(Criticality::Critical, false);
    let first = shed.admit(critical, Ticket(1), NOW, &mut Lowest).unwrap();
    let second = shed.admit(critical, Ticket(2), NOW, &mut Lowest).unwrap();
    let mut third = shed.admit(critical, Ticket(3), NOW, &mut Lowest).unwrap();
    assert!(!first.must_wait() && second.must_wait() && third.must_wait());
    shed.leave(first);
    assert_eq!(shed.next_turn(), Some(Ticket(2)));
    shed.leave(second);
    assert_eq!(
        shed.next_turn(),
        Some(Ticket(3)),
        "a turn that is not used passes on"
    );
    shed.start(&mut third, NOW);
    shed.leave(third);
    assert_eq!((shed.in_flight(), shed.next_turn()), (0, None));
}

fn critical() -> Arrival {
    arrival(Criticality::Critical, false)
}

/// Ten requests in flight, and so many intervals in which even the first waited for 50 ms.
fn standing(intervals: u64) -> (Shed, Vec<Entry>, Instant) {
    let mut shed = shed(Settings {
        in_flight: 100,
        ..Settings::default()
    });
    let mut entries = Vec::new();
    for _ in 0..10 {
        entries.push(shed.admit(critical(), Ticket(0), NOW, &mut Lowest).unwrap());
    }
    let mut now = NOW;
    for interval in 0..=intervals {
        now = NOW.after(Duration::from_millis(100 * interval));
        shed.on_queue_time(Duration::from_millis(50), now);
    }
    (shed, entries, now)
}

#[test]
fn a_standing_queue_shrinks_the_bound_and_a_burst_does_not() {
    let (mut shed, entries, now) = standing(1);
    assert_eq!(shed.bound(), 9, "a tenth below what is in flight");
    let refused = shed.admit(critical(), Ticket(1), now, &mut Lowest).unwrap_err();
    assert_eq!(refused.reason, Reason::QueueTime);
    assert_eq!(refused.retry_after, Duration::from_millis(100), "twice the wait");
    // A burst: many wait long, but one gets through at once, so there is no standing queue.
    for interval in 2..60 {
        let now = NOW.after(Duration::from_millis(100 * interval));
        shed.on_queue_time(Duration::from_millis(50), now);
        shed.on_queue_time(Duration::ZERO, now);
    }
    assert_eq!((shed.bound(), shed.level()), (100, 0));
    entries.into_iter().for_each(|entry| shed.leave(entry));
}

/// Work that takes 100 ms makes others wait for 50 ms at any load: that is not a queue.
#[test]
fn a_queue_is_long_beside_the_work_that_it_waits_for() {
    let (mut shed, entries, now) = standing(0);
    shed.on_work_time(Duration::from_millis(100));
    for interval in 1..10 {
        shed.on_queue_time(
            Duration::from_millis(150),
            now.after(Duration::from_millis(100 * interval)),
        );
    }
    assert_eq!(shed.bound(), 100);
    shed.on_queue_time(Duration::from_millis(250), now.after(Duration::from_secs(2)));
    shed.on_queue_time(Duration::from_millis(250), now.after(Duration::from_millis(2100)));
    assert_eq!(shed.bound(), 9);
    entries.into_iter().for_each(|entry| shed.leave(entry));
}

/// A server without a queue of its own took every admission for a wait of nought, so that what a queue
/// before it measured was never noticed.
#[test]
fn a_queue_before_us_is_noticed_beside_admissions() {
    let (mut shed, mut entries, now) = standing(0);
    let plus = arrival(Criticality::CriticalPlus, false);
    entries.push(shed.admit(plus, Ticket(1), now, &mut Lowest).unwrap());
    shed.on_queue_time(Duration::from_millis(50), now.after(Duration::from_millis(100)));
    assert!(shed.bound() < 11);
    entries.into_iter().for_each(|entry| shed.leave(entry));
}

/// The bound grew by one step however long nothing had happened: the first requests after a quiet night
/// were shed for the overload of the evening.
#[test]
fn a_long_silence_brings_the_bound_back() {
    let (mut shed, entries, now) = standing(8);
    assert!(shed.bound() < 6, "{}", shed.bound());
    entries.into_iter().for_each(|entry| shed.leave(entry));
    let later = now.after(Duration::from_secs(3600));
    let entry = shed.admit(
        arrival(Criticality::Sheddable, true),
        Ticket(1),
        later,
        &mut Lowest,
    );
    shed.leave(entry.unwrap());
    assert_eq!(shed.bound(), 100);
}

/// A server that fails as soon as more than five requests are in it.
#[test]
fn the_bound_follows_failures_that_come_from_load() {
    let mut shed = shed(Settings::default());
    let mut inside = std::collections::VecDeque::new();
    // The load comes and goes, as it does everywhere.
    let mut end_one = |fails: bool, wanted: usize, shed: &mut Shed, now: Instant| {
        let critical = arrival(Criticality::Critical, false);
        while inside.len() < wanted
            && let Ok(entry) = shed.admit(critical, Ticket(0), now, &mut Lowest)
        {
            inside.push_back(entry);
        }
        let Some(entry) = inside.pop_front() else { return };
        let failed = fails && shed.in_flight() > 5;
        if failed || shed.counts_ends() {
            shed.on_end(&entry, failed, now);
        }
        shed.leave(entry);
    };
    let mut now = NOW;
    let mut run = |fails: bool, seconds: u64, shed: &mut Shed| {
        for step in 0..100 * seconds {
            now = now.after(Duration::from_millis(10));
            let wanted = [3, 5, 10, 20][usize::try_from(step / 200 % 4).unwrap()];
            end_one(fails, wanted, shed, now);
        }
    };
    run(true, 30, &mut shed);
    let found = shed.bound();
    assert!((4..=9).contains(&found), "{found}");
    run(false, 120, &mut shed);
    assert_eq!(shed.bound(), 200, "what does not fail is let in again");
}

#[test]
fn the_processor_sheds_up_to_but_not_including_what_matters_most() {
    let mut shed = shed(Settings {
        processor: Some(Ratio::percent(90)),
        ..Settings::default()
    });
    (0..20).for_each(|_| shed.on_processor(Ratio::percent(99)));
    let critical = shed.admit(arrival(Criticality::Critical, false), Ticket(1), NOW, &mut Lowest);
    assert_eq!(critical.unwrap_err().reason, Reason::Processor);
    let plus = shed
        .admit(
            arrival(Criticality::CriticalPlus, false),
            Ticket(1),
            NOW,
            &mut Lowest,
        )
        .unwrap();
    shed.leave(plus);
    (0..20).for_each(|_| shed.on_processor(Ratio::percent(10)));
    assert_eq!(shed.level(), 0);
}
