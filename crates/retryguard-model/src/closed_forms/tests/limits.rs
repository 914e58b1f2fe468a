//! Where the textbook quotients are 0/0.

use super::{attempts, buffer, load};
use crate::closed_forms::{Below, Delay, Overload, queue};

/// At p̃ = ½ each of k successes costs ½·1 − ½^(i+1): E[T] = k/2 − (1 − 2^−k) + 2^−k(2^k − 1) = k/2.
#[test]
fn delay_at_one_half() {
    for k in 1..40 {
        let delay = Delay::new(0.5, attempts(k)).unwrap();
        assert!((delay.expected() - f64::from(k) / 2.0).abs() < 1e-9, "k {k}");
        for near in [0.5 - 1e-13, 0.5 + 1e-13] {
            let beside = Delay::new(near, attempts(k)).unwrap();
            let jump = beside.expected() - delay.expected();
            assert!(jump.abs() < 1e-9, "k {k}: jumps by {jump}");
            assert!((beside.printed() - delay.printed()).abs() < 1e-9);
        }
    }
}

/// 1/(m + 1), where the paper says 1/m.
#[test]
fn rejection_at_capacity() {
    for m in [1, 10, 50, 1000] {
        let limit = 1.0 / f64::from(m + 1);
        for rho in [1.0, 1.0 - 1e-12, 1.0 + 1e-12] {
            let found = queue::single_server_rejection(load(rho), buffer(m));
            assert!((found / limit - 1.0).abs() < 1e-8, "m {m} ρ {rho}: {found}");
        }
        assert!(queue::printed_rejection_at_capacity(buffer(m)) > limit * (1.0 + 0.9 / f64::from(m)));
    }
}

#[test]
fn just_above_capacity_nothing_is_rejected_and_far_above_everything() {
    let barely = Overload::new(load(1.0 + 1e-9), attempts(3)).unwrap();
    assert!(barely.rejection() < 2e-3 && barely.delay().expected() < 2e-3);
    let hopeless = Overload::new(load(1e9), attempts(3)).unwrap();
    assert!((hopeless.retries_per_call() - 2.0).abs() < 1e-6);
    assert!((hopeless.delay().last_wait_omitted() - 3.0).abs() < 1e-6);
}

/// A large buffer forgets itself: the finite forms with feedback come to those of pure overload.
#[test]
fn a_large_buffer_is_pure_overload() {
    let finite = Below::new(load(1.5), attempts(5), buffer(100_000)).with_feedback();
    let pure = Overload::new(load(1.5), attempts(5)).unwrap();
    assert!((finite.rejection - pure.rejection()).abs() < 1e-9);
    assert!((finite.total_load - pure.total_load()).abs() < 1e-8);
}

/// One attempt has no feedback: Eq. 9 itself.
#[test]
fn without_retries_feedback_is_none() {
    let quiet = Below::new(load(0.97), attempts(1), buffer(20));
    assert!((quiet.with_feedback().rejection - quiet.rejection()).abs() < 1e-15);
    assert_eq!(quiet.retries_per_call(), 0.0);
    assert_eq!(quiet.delay().last_wait_omitted(), 0.0);
    // A rejection so rare that one minus it is one.
    let rare = Below::new(load(0.01), attempts(1), buffer(50));
    assert_eq!(
        (rare.retries_per_call(), rare.delay().last_wait_omitted()),
        (0.0, 0.0)
    );
    assert!(rare.rejection() > 0.0 && rare.delay().expected() > 0.0);
}
