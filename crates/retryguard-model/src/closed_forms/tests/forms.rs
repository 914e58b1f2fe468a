//! The forms against numbers worked out elsewhere, and against each other.

use super::{attempts, buffer, load};
use crate::closed_forms::{BadInput, Below, Delay, Load, Overload, Threshold, layers, queue};

/// ρ, k, p̃, retries per call, E[T] by Eqs. 6 and 7, with k − 1 waits, by Eq. 8 as printed.
const TABLE: [(f64, u32, [&str; 5]); 5] = [
    (1.05, 3, ["0.3625", "0.4938", "0.8157", "0.6252", "1.0282"]),
    (1.5, 3, ["0.6934", "1.1741", "2.9882", "1.6549", "3.7037"]),
    (1.5, 5, ["0.8027", "2.3797", "12.8159", "7.4826", "14.8543"]),
    (2.0, 3, ["0.7937", "1.4237", "4.0536", "2.0536", "4.7757"]),
    (4.0, 6, ["0.9532", "4.3401", "49.4276", "25.4276", "51.6397"]),
];

#[test]
fn every_row_to_its_digits() {
    for (rho, k, expected) in TABLE {
        let storm = Overload::new(load(rho), attempts(k)).unwrap();
        let delay = storm.delay();
        let found = [
            storm.rejection(),
            storm.retries_per_call(),
            delay.expected(),
            delay.last_wait_omitted(),
            delay.printed(),
        ]
        .map(|number| format!("{number:.4}"));
        assert_eq!(found, expected, "ρ {rho}, k {k}");
    }
}

#[test]
fn equations_one_to_five_and_ten_hold_together() {
    for (rho, k, _) in TABLE {
        let storm = Overload::new(load(rho), attempts(k)).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "ρ {rho} k {k}: {a} {b}");
        // Eq. 1: new calls and all retries.
        close(storm.total_load(), (0..k).map(|i| storm.load_of_retry(i)).sum());
        // Eqs. 2 and 3: the target serves its capacity and rejects the rest.
        close(storm.success(), 1.0 / storm.total_load());
        close(storm.rejection(), 1.0 - 1.0 / storm.total_load());
        // Eq. 5.
        let i = k - 1;
        close(
            storm.load_of_retry(i),
            rho * (1.0 - 1.0 / rho).powf(f64::from(i) / f64::from(k)),
        );
        close(storm.failed_calls(), storm.rejection().powi(k.cast_signed()));
    }
}

/// The short form is the sum of Eqs. 6 and 7, outcome by outcome.
#[test]
fn the_delay_is_the_sum_over_outcomes() {
    for k in 1..12_u32 {
        for q in [0.01, 0.3, 0.5, 0.83, 1.0] {
            let waits = |retries: u32| f64::from(retries).exp2() - 1.0;
            let share = |retries: u32| f64::powi(q, retries.cast_signed());
            let succeeded: f64 = (0..k).map(|i| share(i) * (1.0 - q) * waits(i)).sum();
            let delay = Delay::new(q, attempts(k)).unwrap();
            for (found, last) in [(delay.expected(), k), (delay.last_wait_omitted(), k - 1)] {
                let expected = succeeded + share(k) * waits(last);
                assert!(
                    (found - expected).abs() < 1e-12 * (1.0 + expected),
                    "k {k} p̃ {q}: {found} {expected}"
                );
            }
        }
    }
}

/// The printed Eq. 8 exceeds the sum of Eqs. 6 and 7 by p·p̃^k·(2^k − 1).
#[test]
fn the_excess_of_the_printed_delay() {
    for k in 1..8_u32 {
        for q in [0.1, 0.5, 0.83] {
            let delay = Delay::new(q, attempts(k)).unwrap();
            let excess = (1.0 - q) * q.powi(k.cast_signed()) * (f64::from(k).exp2() - 1.0);
            let difference = delay.printed() - delay.expected() - excess;
            assert!(difference.abs() < 1e-12, "k {k} p̃ {q}: {difference}");
        }
    }
}

#[test]
fn layers_multiply() {
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(layers::amplification(0.2, attempts(3)).unwrap(), 1.24);
    close(layers::amplification(1.0, attempts(3)).unwrap(), 3.0);
    close(layers::worst_case(&[attempts(3); 3]), 27.0);
    close(
        *layers::arrivals(1.0, &[attempts(3); 3]).unwrap().last().unwrap(),
        27.0,
    );
    // To the lowest target 2, 3 and 4 attempts are one layer of 24.
    let stack = layers::arrivals(0.7, &[attempts(2), attempts(3), attempts(4)]).unwrap();
    close(stack[2], layers::amplification(0.7, attempts(24)).unwrap());
    // The edge sees only what twelve attempts below failed to hide.
    close(stack[0], 1.0 + 0.7_f64.powi(12));
    assert!(stack[0] < stack[1] && stack[1] < stack[2]);
}

#[test]
fn the_single_server_is_a_case_of_many() {
    for rho in [0.3, 0.95, 1.0, 1.7] {
        for m in [1, 5, 50] {
            let steady = queue::servers(load(rho), 1, buffer(m)).unwrap();
            let form = queue::single_server_rejection(load(rho), buffer(m));
            assert!((steady.rejection / form - 1.0).abs() < 1e-12);
            // What is let in is what keeps the server at work.
            assert!((steady.busy - rho * (1.0 - form)).abs() < 1e-12);
        }
    }
    // Erlang's loss formula: two servers, no waiting room, one erlang offered: (1/2)/(1 + 1 + 1/2).
    let lost = queue::servers(load(0.5), 2, buffer(2)).unwrap();
    assert!((lost.rejection - 0.2).abs() < 1e-15);
    assert!((lost.time_in_system - 1.0).abs() < 1e-15);
}

/// A guard that has switched retries off sees 1 − 1/ρ. A threshold of 20 % takes an overload of 110 % for
/// recovery then; the recommended one does not, and is silent at 95 %.
#[test]
fn the_threshold_sees_overload_with_retries_on_and_off() {
    let threshold = Threshold::new(load(1.5), attempts(5), buffer(50));
    let value = threshold.value().unwrap();
    let at = |rho, k| {
        Below::new(load(rho), attempts(k), buffer(50))
            .with_feedback()
            .rejection
    };
    assert!(at(0.95, 5) < value && value < at(1.1, 1));
    assert!(at(1.1, 1) < 0.2);
    // A load between 1 and 1.1 in question must be seen too.
    let slight = Threshold::new(load(1.02), attempts(5), buffer(500))
        .value()
        .unwrap();
    assert!(slight < 1.0 - 1.0 / 1.02);
    // One place and five attempts: normal traffic is rejected as often as overload.
    assert_eq!(Threshold::new(load(1.5), attempts(5), buffer(1)).value(), None);
}

#[test]
fn bad_numbers_say_what_to_give() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Load::new(bad), Err(BadInput::Load(_))));
    }
    let said = super::Attempts::new(0).unwrap_err().to_string();
    assert_eq!(
        said,
        "0 attempts: give 1 (no retry) to 1000, counting the first attempt"
    );
    assert!(super::Attempts::new(1001).is_err() && super::Buffer::new(0).is_err());
    assert_eq!(
        Overload::new(load(1.0), attempts(2)).unwrap_err(),
        BadInput::NotOverloaded(1.0)
    );
    assert!(Delay::new(1.5, attempts(2)).is_err() && layers::amplification(-0.1, attempts(2)).is_err());
    assert!(
        queue::servers(load(1.0), 3, buffer(2)).is_err() && queue::servers(load(1.0), 0, buffer(2)).is_err()
    );
}
