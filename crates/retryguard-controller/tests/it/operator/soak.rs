//! Half an hour of a thousand targets on the board: samples, guards, plan and what is wanted of the data plane.

use std::time::Duration;

use retryguard_controller::{
    actuator::Wish,
    board::{Board, Watched},
    config::limits::Limits,
    lead::Standing,
    target::TargetName,
};
use retryguard_core::{Instant, guard::Settings};

use crate::scripted::reading;

const TARGETS: usize = 1_000;
const MINUTES: u64 = 30;

/// Every target has an overload of a minute every five minutes, each at its own time.
fn rejected(target: usize, second: u64) -> u64 {
    if (second + target as u64) % 300 < 60 {
        60
    } else {
        0
    }
}

/// Memory is flat: after the first ten minutes, in which every target has been through an episode, what is
/// allocated is given back.
#[test]
fn thirty_minutes_of_a_thousand_targets_keep_no_memory() {
    let names: Vec<String> = (0..TARGETS).map(|number| format!("service-{number}")).collect();
    let watched = names
        .iter()
        .map(|name| Watched {
            name: TargetName::new(name),
            guards: vec![Settings::default()],
            source: "scripted",
            actuators: vec![0],
        })
        .collect();
    let limits = Limits {
        changes_per_minute_in_all: 100_000,
        ..Limits::default()
    };
    let mut board = Board::new(watched, &["plane"], limits, Instant::ZERO);
    let standing = Standing::Leading {
        term: 1,
        lasts: Duration::MAX,
    };
    board.standing(Ok(standing), Instant::ZERO, Instant::ZERO);
    let mut changes = 0_u64;
    let mut switched_off = 0_u64;
    let mut second = 0;
    let mut run_minutes = |minutes: u64| {
        for _ in 0..minutes * 60 {
            second += 1;
            let now = Instant::from_secs(second);
            let readings = names
                .iter()
                .enumerate()
                .map(|(target, name)| reading(name, rejected(target, second)))
                .collect();
            board.round("scripted", Ok(readings), now);
            board.tick(now);
            for hand in board.questions(now) {
                // The data plane answers the first question; later it is as we know it.
                if second == 1 {
                    board.found(hand, Ok(Vec::new()), now);
                }
            }
            for order in board.orders(now, usize::MAX) {
                changes += 1;
                switched_off += u64::from(order.change.wish == Wish::Off);
                board.done(&order, Ok(Vec::new()), now);
            }
        }
    };
    run_minutes(10);
    let later = allocation_counter::measure(|| run_minutes(MINUTES - 10));
    let rounds = (MINUTES - 10) * 60 * TARGETS as u64;
    println!(
        "{changes} changes; per target and round {:.1} allocations of {:.0} bytes in all",
        later.count_total as f64 / rounds as f64,
        later.bytes_total as f64 / rounds as f64,
    );
    assert!(switched_off >= 5 * TARGETS as u64, "{switched_off}");
    let kept = later.bytes_current;
    println!(
        "kept after twenty more minutes: {kept} bytes, {:.1} a target",
        kept as f64 / TARGETS as f64
    );
    assert!(kept.abs() < 64 * TARGETS as i64, "{kept} bytes kept");
}
