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

/// A server without a queue of its own took every admission for a wait of zero, so that what a queue
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

/// A server with so many workers, each of which takes ten milliseconds for a request, and arrivals at even distances. How many
/// requests were in flight at the most in the last second, how many were served in it, and the bound in the end.
struct Served {
    most: u32,
    served: u32,
    bound: u32,
}

fn run(shed: &mut Shed, workers: usize, gap_micros: &[(u64, u64)]) -> Served {
    const WORK: u64 = 10_000;
    let critical = arrival(Criticality::Critical, false);
    // When each worker is free, and who leaves when.
    let mut free = vec![0_u64; workers];
    let mut inside: std::collections::VecDeque<(u64, Entry)> = std::collections::VecDeque::new();
    let end: u64 = gap_micros.iter().map(|(_, until)| *until).max().unwrap();
    let at = |micros: u64| NOW.after(Duration::from_micros(micros));
    let (mut now, mut most, mut served) = (0, 0, 0);
    while now < end {
        while inside.front().is_some_and(|(leaves, _)| *leaves <= now) {
            let (leaves, entry) = inside.pop_front().unwrap();
            shed.on_end(&entry, false, at(leaves));
            shed.leave(entry);
            served += u32::from(leaves + 1_000_000 >= end);
        }
        if let Ok(entry) = shed.admit(critical, Ticket(0), at(now), &mut Lowest) {
            let worker = free.iter_mut().min().unwrap();
            *worker = (*worker).max(now) + WORK;
            inside.push_back((*worker, entry));
        }
        if now + 1_000_000 >= end {
            most = most.max(shed.in_flight());
        }
        let (gap, _) = gap_micros.iter().find(|(_, until)| now < *until).unwrap();
        now += gap;
    }
    inside.into_iter().for_each(|(_, entry)| shed.leave(entry));
    Served {
        most,
        served,
        bound: shed.bound(),
    }
}

/// Eight workers serve 800 a second. Four seconds of 400 show how long a request takes; then twice as many come as can be
/// served, for ten seconds.
const OVERLOAD: &[(u64, u64)] = &[(2_500, 4_000_000), (625, 14_000_000)];

fn bounded(adaptive: bool) -> Served {
    let mut shed = shed(Settings {
        in_flight: if adaptive { Settings::MOST } else { 200 },
        adaptive,
        ..Settings::default()
    });
    run(&mut shed, 8, OVERLOAD)
}

#[test]
fn an_adaptive_bound_keeps_the_queue_short_and_the_workers_busy() {
    let (fixed, adaptive) = (bounded(false), bounded(true));
    assert_eq!(fixed.most, 200, "a fixed bound is filled");
    assert!(adaptive.most <= 50, "{} in flight", adaptive.most);
    assert!(
        adaptive.served * 20 >= fixed.served * 19,
        "{} served, {} under the fixed bound",
        adaptive.served,
        fixed.served
    );
}

/// An average of the latency takes an overload that lasts for usual, and lets the bound grow again.
#[test]
fn an_adaptive_bound_does_not_get_used_to_an_overload() {
    let mut shed = adaptive();
    let long = run(&mut shed, 8, &[(2_500, 4_000_000), (625, 600_000_000)]);
    assert!(long.most <= 50, "{} in flight", long.most);
}

#[test]
fn an_adaptive_bound_is_not_felt_without_a_queue_and_grows_where_it_is_used() {
    let mut shed = adaptive();
    assert_eq!(shed.bound(), Settings::START);
    let light = run(&mut shed, 8, &[(2_500, 4_000_000)]);
    assert_eq!((light.served, light.bound), (400, 200));
    // About 180 are in flight, each with a worker of its own.
    let wide = run(&mut shed, 1000, &[(55, 20_000_000)]);
    assert!(wide.bound > 250, "{}", wide.bound);
}

/// Requests that have become slower by themselves take as long under a smaller bound: it must not stay small.
#[test]
fn an_adaptive_bound_lets_go_where_a_smaller_one_does_not_help() {
    let mut shed = adaptive();
    run(&mut shed, 1000, &[(100, 4_000_000)]);
    let mut in_flight = std::collections::VecDeque::new();
    let (mut refused, mut now) = (0, NOW.after(Duration::from_secs(10)));
    for number in 0..100_000_u32 {
        // Sixty milliseconds each, with room for all: ten times as long as before is usual from now on.
        now = now.after(Duration::from_micros(500));
        while in_flight.front().is_some_and(|(leaves, _)| *leaves <= now) {
            let (leaves, entry) = in_flight.pop_front().unwrap();
            shed.on_end(&entry, false, leaves);
            shed.leave(entry);
        }
        match shed.admit(arrival(Criticality::Critical, false), Ticket(0), now, &mut Lowest) {
            Ok(entry) => in_flight.push_back((now.after(Duration::from_millis(60)), entry)),
            Err(_) => refused += u32::from(number > 90_000),
        }
    }
    assert_eq!(refused, 0);
}

#[test]
fn failures_that_come_fast_do_not_move_an_adaptive_bound_and_slow_ones_do() {
    let after = |failing: Duration| {
        let mut shed = adaptive();
        run(&mut shed, 8, &[(2_500, 4_000_000)]);
        // Failures shrink the other bound where they come with load: these come whatever the load.
        for number in 0..300 {
            let now = NOW.after(Duration::from_secs(5) + number * Duration::from_millis(10));
            let critical = arrival(Criticality::Critical, false);
            let entry = shed.admit(critical, Ticket(0), now, &mut Lowest).unwrap();
            shed.on_end(&entry, true, now.after(failing));
            shed.leave(entry);
        }
        shed.follow.as_ref().unwrap().bound()
    };
    assert_eq!(after(Duration::from_millis(1)), 200.0);
    assert!(after(Duration::from_millis(100)) < 100.0);
}

fn adaptive() -> Shed {
    shed(Settings {
        in_flight: Settings::MOST,
        adaptive: true,
        ..Settings::default()
    })
}

#[test]
fn a_new_policy_makes_a_bound_adaptive_and_fixed_again() {
    let fixed = |in_flight| Settings {
        in_flight,
        ..Settings::default()
    };
    let adaptive = Settings {
        adaptive: true,
        ..fixed(Settings::MOST)
    };
    let mut shed = shed(fixed(50));
    shed.replace(adaptive);
    assert_eq!(shed.bound(), 200);
    shed.replace(Settings {
        in_flight: 100,
        ..adaptive
    });
    assert_eq!(shed.bound(), 100);
    shed.replace(fixed(300));
    assert_eq!(shed.bound(), 300);
}
