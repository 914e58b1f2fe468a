//! Counts allocations. A program of its own, because counting replaces the allocator, which would slow down
//! the peers that allocate if they were timed with it.

use retryguard_bench::subjects;

const CALLS: u64 = 1_000;

/// Prints allocations a call of each subject: name, count; a tab between them.
fn main() {
    for subject in subjects() {
        let mut caller = (subject.target)()();
        caller(CALLS);
        let counted = allocation_counter::measure(|| caller(CALLS)).count_total;
        println!("{}\t{}", subject.name, counted as f64 / CALLS as f64);
    }
}
