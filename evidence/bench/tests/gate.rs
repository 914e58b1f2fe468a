//! What may not get worse: the success path of the whole stack.

use retryguard_bench::{WHOLE_STACK, subject};

/// What the whole stack may cost: a tenth above what it was measured at when this was last set.
#[cfg(not(debug_assertions))]
const INSTRUCTIONS: u64 = 850;

#[test]
fn the_success_path_of_the_whole_stack_does_not_allocate() {
    let mut caller = (subject(WHOLE_STACK).unwrap().target)()();
    caller(100);
    assert_eq!(allocation_counter::measure(|| caller(10_000)).count_total, 0);
}

/// Only of an optimised build: another one says nothing about the product.
#[cfg(not(debug_assertions))]
#[test]
fn the_whole_stack_stays_within_its_instructions() {
    let valgrind = std::process::Command::new("valgrind").arg("--version").output();
    if valgrind.is_err() && std::env::var_os("CI").is_none() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let speed = std::path::Path::new(env!("CARGO_BIN_EXE_speed"));
    let counted = retryguard_bench::instructions_per_call(speed, WHOLE_STACK).unwrap();
    assert!(
        counted <= INSTRUCTIONS,
        "{counted} instructions a call, {INSTRUCTIONS} allowed"
    );
}
