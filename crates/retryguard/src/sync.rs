//! The lock and the atomics behind what threads share.
//!
//! One module, so that the same code runs under shuttle, which tries the orders in which threads can meet in
//! them: see `threads`.
//!
//! `parking_lot` and not the standard library's lock: it has no poisoning, which costs every call instructions and which
//! the library would ignore. A panic under the lock is a defect of ours in a debug build; the counts that it leaves are
//! still better than a service that answers nothing any more.

#[cfg(not(all(test, shuttle)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::atomic::AtomicU32;

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicU32};

#[cfg(not(all(test, shuttle)))]
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(all(test, shuttle))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
