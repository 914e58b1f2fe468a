//! Retries that multiply from layer to layer.

use retryguard_core::{
    Failure, Outcome, Target,
    call::{Step, Verdict},
    chance::Lowest,
    target::Settings,
};

use crate::support::*;

/// A stack of layers, each a target of its own that is tried three times, over one that always fails.
struct Stack {
    layers: Vec<Target>,
    marks: bool,
    reached_the_bottom: u32,
}

impl Stack {
    fn new(layers: usize, marks: bool, policy: &Settings) -> Self {
        Self {
            layers: (0..layers).map(|_| target(policy.clone())).collect(),
            marks,
            reached_the_bottom: 0,
        }
    }

    /// One call of layer `above` to the layer below it, by a driver that marks what it has retried.
    fn call(&mut self, above: usize) -> Failure {
        let mut call = call(0);
        let mut step = call.start(&mut self.layers[above], at(0), &mut Lowest);
        loop {
            match step {
                Step::Send(attempt) => {
                    let failure = self.answer(above);
                    let outcome = Outcome::Failure(failure);
                    step = end(
                        &mut call,
                        attempt.number,
                        &outcome,
                        &mut self.layers[above],
                        at(0),
                    );
                }
                Step::Done(Verdict::Failure { mut failure, .. }) => {
                    let retried = call.retries() > 0 || failure.hints.retried_below > 0;
                    failure.hints.retried_below += u8::from(self.marks && retried);
                    return failure;
                }
                other => panic!("nothing to wait for: {other:?}"),
            }
        }
    }

    fn answer(&mut self, above: usize) -> Failure {
        if above + 1 < self.layers.len() {
            return self.call(above + 1);
        }
        self.reached_the_bottom += 1;
        Failure::new(FAULT)
    }
}

fn attempts_at_the_bottom(marks: bool, policy: &Settings) -> u32 {
    let mut stack = Stack::new(3, marks, policy);
    stack.call(0);
    stack.reached_the_bottom
}

fn three_attempts_at_once() -> Settings {
    let mut policy = plain();
    policy.call.backoff = constant(0);
    policy
}

/// Three layers of three attempts are 27 at the bottom. Only the layer above the failing one should retry;
/// what it has retried goes up marked, and the others pass it on.
#[test]
fn layered_retries_multiplying() {
    assert_eq!(attempts_at_the_bottom(false, &three_attempts_at_once()), 27);
    assert_eq!(attempts_at_the_bottom(true, &three_attempts_at_once()), 3);
}

/// A policy may decide otherwise, and pays for it.
#[test]
fn a_policy_that_retries_the_retried_multiplies_again() {
    let mut policy = three_attempts_at_once();
    policy.call.retry_retried = true;
    assert_eq!(attempts_at_the_bottom(true, &policy), 27);
}

/// The mark says how deep the failure was retried.
#[test]
fn the_mark_counts_the_layers() {
    let mut stack = Stack::new(3, true, &three_attempts_at_once());
    assert_eq!(stack.call(0).hints.retried_below, 3);
}
