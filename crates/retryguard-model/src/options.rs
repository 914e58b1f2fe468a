//! What the user may decide about a check.

use std::fmt;

/// Limits and switches of a check. Every limit has a message that says how to raise it.
#[derive(Clone)]
pub struct Options {
    /// States that may be built.
    pub max_states: u64,
    /// Bytes that all which grows with the model may take: states, transitions, and the matrices and vectors of the solvers. They are
    /// counted before they are allocated. Where a quicker solver does not fit, one that takes less is used.
    pub max_memory: u64,
    /// Steps that a transient analysis may take: the fastest rate times the time, roughly.
    pub max_steps: u64,
    /// Whether to look for the exact reductions. Off, the chain is built as written.
    pub reduce: bool,
    /// Whether a state that nothing leaves gets a self-loop, and the answer a note, or is an error.
    pub fix_deadlocks: bool,
    /// Truncate where states are reached with less than this probability, and report a bound on the error.
    pub truncate: Option<f64>,
    /// Called now and then with the number of states built so far.
    pub progress: Option<fn(u64)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            // Fifty million states of the width that microservice models have fill about the memory below.
            max_states: 50_000_000,
            max_memory: 8 << 30,
            max_steps: 1 << 33,
            reduce: true,
            fix_deadlocks: true,
            truncate: None,
            progress: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_states", &self.max_states)
            .field("max_memory", &self.max_memory)
            .field("reduce", &self.reduce)
            .field("fix_deadlocks", &self.fix_deadlocks)
            .field("truncate", &self.truncate)
            .finish_non_exhaustive()
    }
}
