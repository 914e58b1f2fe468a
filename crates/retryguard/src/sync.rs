//! The lock and the atomics behind what threads share.
//!
//! One module, so that the same code runs under shuttle, which tries the orders in which threads can meet in
//! them: see `threads`.

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicU32};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicU32};
