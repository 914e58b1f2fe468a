//! The cost of a call on the success path, ours and our peers'.
//!
//! Every [`Subject`] is a way to make a call that succeeds at once, so that what is measured is the library
//! and nothing else. One that is a tower service wraps the same always-ready service; one that is not wraps
//! a plain function. `cargo xtask evidence library-speed` runs them all and writes `docs/evidence/benchmarks.md`.

mod callgrind;
#[cfg(feature = "peers")]
mod clients;
mod clock;
mod http;
mod many;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod service;
mod timing;

pub use callgrind::instructions_per_call;
pub use http::{HTTP_CLIENT, HTTP_SERVER};
pub use many::{AT_ONCE, Many, at_once};
pub use timing::{CROWDS, Timing, crowds, time};

/// Makes calls: as many as it is told, one after the other, on one thread.
pub type Caller = Box<dyn FnMut(u64) + Send>;

/// One way to make a call.
pub struct Subject {
    /// Its name on the command line.
    pub name: &'static str,
    /// The package it comes from.
    pub package: &'static str,
    /// What it does, for the table.
    pub what: &'static str,
    /// The subject that does the same (or the nearest thing) elsewhere, by name; `None` for a peer.
    pub peer: Option<&'static str>,
    /// Makes a target, and gives back what makes callers of it: each thread has one.
    pub target: fn() -> Box<dyn Fn() -> Caller>,
}

/// Every subject of this build: the bare service first, then the peers if they are there, then ours.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut subjects = vec![service::bare()];
    #[cfg(feature = "peers")]
    subjects.extend(peers::subjects());
    subjects.extend(ours::subjects());
    subjects.extend(http::subjects());
    #[cfg(feature = "peers")]
    subjects.extend(clients::subjects());
    subjects
}

/// The subject of this name.
#[must_use]
pub fn subject(name: &str) -> Option<Subject> {
    subjects().into_iter().find(|subject| subject.name == name)
}

/// The name of the whole stack: breaker, budget, throttle, bulkhead, guard and deadline.
pub const WHOLE_STACK: &str = "stack";

/// The name of the same with a recorder of metrics.
pub const RECORDED_STACK: &str = "stack-recorded";

/// The name of a call under the default policy.
pub const DEFAULT_POLICY: &str = "default";
