//! What may not get worse: the success path of the whole stack, of a GET through the HTTP layer, and of a request through
//! the server layer.

use retryguard_bench::{HTTP_CLIENT, HTTP_SERVER, WHOLE_STACK, subject};

/// What each may cost in instructions: a twentieth to a twelfth above what it was measured at when this was last set. The two of HTTP include
/// the making of the request, which is 1,966.
#[cfg(not(debug_assertions))]
const INSTRUCTIONS: [(&str, u64); 5] = [
    (WHOLE_STACK, 580),
    (retryguard_bench::RECORDED_STACK, 780),
    (retryguard_bench::DEFAULT_POLICY, 805),
    (HTTP_CLIENT, 4_550),
    (HTTP_SERVER, 3_030),
];

/// Allocations of one call beyond those of the bare service.
const ALLOCATIONS: [(&str, u64); 2] = [(HTTP_CLIENT, 0), (HTTP_SERVER, 0)];

#[test]
fn http_allocates_no_more_than_it_did() {
    let count = |name: &str| {
        let mut caller = (subject(name).unwrap().target)()();
        caller(100);
        allocation_counter::measure(|| caller(1_000)).count_total / 1_000
    };
    let bare = count("http-bare");
    for (name, allowed) in ALLOCATIONS {
        let counted = count(name).saturating_sub(bare);
        assert!(
            counted <= allowed,
            "{name}: {counted} allocations a call, {allowed} allowed"
        );
    }
}

#[test]
fn the_success_path_of_the_whole_stack_does_not_allocate() {
    let mut caller = (subject(WHOLE_STACK).unwrap().target)()();
    // Windows count in bytes until a bucket has more than 255 calls, and then take more memory, once.
    caller(1_000);
    assert_eq!(allocation_counter::measure(|| caller(10_000)).count_total, 0);
}

/// Only of an optimised build: another one says nothing about the product.
#[cfg(not(debug_assertions))]
#[test]
#[ignore = "needs valgrind"]
fn each_stays_within_its_instructions() {
    let speed = std::path::Path::new(env!("CARGO_BIN_EXE_speed"));
    for (name, allowed) in INSTRUCTIONS {
        let counted = retryguard_bench::instructions_per_call(speed, name).unwrap();
        assert!(
            counted <= allowed,
            "{name}: {counted} instructions a call, {allowed} allowed"
        );
    }
}
