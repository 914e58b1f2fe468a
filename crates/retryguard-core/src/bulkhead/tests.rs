//! Places, the queue before them, and limits that follow the latency.

use super::*;

fn fixed(limit: u32, waiting: u32) -> Bulkhead {
    let settings = Settings {
        limit: Limit::Fixed(limit),
        wait: Duration::from_secs(1),
        waiting,
    };
    Bulkhead::new(settings, Instant::ZERO)
}

#[test]
fn the_limit_holds_at_the_limit_and_the_queue_at_its_own() {
    let mut bulkhead = fixed(2, 1);
    assert_eq!(bulkhead.acquire(Ticket(1)), Ok(Acquired::Taken));
    assert_eq!(bulkhead.acquire(Ticket(2)), Ok(Acquired::Taken));
    assert_eq!(bulkhead.acquire(Ticket(3)), Ok(Acquired::Queued));
    assert_eq!(bulkhead.acquire(Ticket(4)), Err(Refusal::BulkheadFull));
    assert_eq!(bulkhead.grant(), None);
    bulkhead.release();
    assert_eq!(bulkhead.grant(), Some(Ticket(3)));
    assert_eq!((bulkhead.in_flight(), bulkhead.grant()), (2, None));
}

#[test]
fn the_queue_keeps_its_order() {
    let mut bulkhead = fixed(1, 9);
    for ticket in 1..=3 {
        bulkhead.acquire(Ticket(ticket)).unwrap();
    }
    bulkhead.release();
    assert!(!bulkhead.try_acquire(), "two were here before");
    assert_eq!(bulkhead.grant(), Some(Ticket(2)));
}

#[test]
fn a_ticket_that_leaves_is_not_granted() {
    let mut bulkhead = fixed(1, 9);
    for ticket in 1..=3 {
        bulkhead.acquire(Ticket(ticket)).unwrap();
    }
    assert!(bulkhead.leave(Ticket(2)));
    bulkhead.release();
    assert_eq!(bulkhead.grant(), Some(Ticket(3)));
    assert!(!bulkhead.leave(Ticket(3)), "it has its place already");
}

/// A list was searched for every ticket that left, so that aborting a queue of 200,000 took twenty billion steps.
#[test]
fn a_long_queue_is_aborted_from_either_end_and_keeps_its_order() {
    const LONG: u64 = 200_000;
    let mut bulkhead = fixed(1, u32::MAX);
    for ticket in 0..=LONG {
        bulkhead.acquire(Ticket(ticket)).unwrap();
    }
    let (first, last) = (LONG / 2, LONG / 2 + 1);
    for ticket in (1..first).chain((last + 1..=LONG).rev()) {
        assert!(bulkhead.leave(Ticket(ticket)));
    }
    assert!(bulkhead.leave(Ticket(first)));
    bulkhead.acquire(Ticket(first)).unwrap();
    bulkhead.release();
    assert_eq!(
        bulkhead.grant(),
        Some(Ticket(last)),
        "a call that left comes back behind the others"
    );
    bulkhead.release();
    assert_eq!((bulkhead.grant(), bulkhead.waiting()), (Some(Ticket(first)), 0));
}

fn after_answers(bulkhead: &mut Bulkhead, from: u64, stretches: u64, latency: Duration) -> u32 {
    for stretch in from..from + stretches {
        for _ in 0..20 {
            while bulkhead.try_acquire() {}
            let now = Instant::from_millis(1000 + stretch * 200);
            bulkhead.on_latency(latency, false, now);
            bulkhead.release();
        }
    }
    bulkhead.limit()
}

#[test]
fn the_gradient_grows_while_answers_are_fast_and_shrinks_when_they_slow_down() {
    let limit = Limit::Gradient {
        initial: 20,
        least: 5,
        most: 200,
        tolerance: Ratio::percent(150),
    };
    let settings = Settings {
        limit,
        ..Settings::default()
    };
    let mut bulkhead = Bulkhead::new(settings, Instant::ZERO);
    let grown = after_answers(&mut bulkhead, 0, 50, Duration::from_millis(10));
    assert!(grown > 40, "{grown}");
    let shrunk = after_answers(&mut bulkhead, 50, 20, Duration::from_millis(100));
    assert!(shrunk < grown / 2, "{grown} → {shrunk}");
    let floor = after_answers(&mut bulkhead, 70, 200, Duration::from_secs(1));
    assert!(floor >= 5);
}
