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

/// Takes a lock that is held for a tenth of a microsecond at a time. A thread that finds it taken stays away for a moment, so
/// that the other one can make several calls: handing the state over, from one core's cache to another's, costs more than a call.
#[cfg(not(all(test, shuttle)))]
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Some(guard) => guard,
        None => lock_soon(mutex),
    }
}

#[cfg(not(all(test, shuttle)))]
#[cold]
fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for pauses in [16, 32, 64] {
        for _ in 0..pauses {
            std::hint::spin_loop();
        }
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
    }
    mutex.lock()
}

/// Keeps what every call writes on cache lines of its own. Its alignment is that of the whole, which parts it
/// from the counts of the `Arc` as well: a core that takes the lock or clones the `Arc` does not take the
/// clock and the handles away from the others. Two lines, because processors fetch them in pairs.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

#[cfg(all(test, shuttle))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
