//! A real, bounded capacity: so many requests are worked on at once, so many wait in order, the next is refused.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::settings::Capacity;

/// Workers and a queue, shared by all requests of a service.
#[derive(Debug, Clone)]
pub struct Station(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    capacity: Capacity,
    working: usize,
    queue: VecDeque<oneshot::Sender<WorkerSlot>>,
    refused: u64,
}

/// A worker's place, given back when dropped.
#[derive(Debug)]
pub struct WorkerSlot(Station);

/// There is no worker and no place to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// How full a station is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its capacity at present.
    pub capacity: Capacity,
    /// Requests that are worked on.
    pub working: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that were refused since the start.
    pub refused: u64,
}

impl Station {
    /// An idle station.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self(Arc::new(Mutex::new(State {
            capacity,
            working: 0,
            queue: VecDeque::new(),
            refused: 0,
        })))
    }

    /// Waits for a worker, first come, first served.
    ///
    /// # Errors
    /// At once where the queue is full.
    pub async fn enter(&self) -> Result<WorkerSlot, Full> {
        let turn = {
            let mut state = self.lock();
            if state.working < state.capacity.workers {
                state.working += 1;
                return Ok(WorkerSlot(self.clone()));
            }
            if state.queue.len() >= state.capacity.queue {
                state.refused += 1;
                return Err(Full);
            }
            let (give, turn) = oneshot::channel();
            state.queue.push_back(give);
            turn
        };
        // The other end lives in the queue, which lives as long as the station.
        turn.await.map_err(|_| Full)
    }

    /// Changes the capacity, for waiting requests too.
    pub fn resize(&self, capacity: Capacity) {
        self.lock().capacity = capacity;
        self.pass_on();
    }

    /// How full it is.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.lock();
        Load {
            capacity: state.capacity,
            working: state.working,
            waiting: state.queue.len(),
            refused: state.refused,
        }
    }

    /// Gives free places to the requests that have waited longest. A request that no longer waits drops its place at once,
    /// which calls this function again: so the lock is not held while places are handed over.
    fn pass_on(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                if state.working >= state.capacity.workers {
                    return;
                }
                let Some(next) = state.queue.pop_front() else {
                    return;
                };
                state.working += 1;
                next
            };
            if let Err(place) = next.send(WorkerSlot(self.clone())) {
                // No worker took it. Forgotten and counted by hand, so that many requests that left in a row are a loop
                // and not a recursion.
                std::mem::forget(place);
                self.lock().working -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.0.lock().working -= 1;
        self.0.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(workers: usize, queue: usize) -> Station {
        Station::new(Capacity { workers, queue })
    }

    #[tokio::test]
    async fn beyond_workers_and_queue_a_request_is_refused() {
        let station = station(1, 1);
        let first = station.enter().await.unwrap();
        let second = tokio::spawn({
            let station = station.clone();
            async move { station.enter().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(station.enter().await.unwrap_err(), Full);
        assert_eq!(station.load().refused, 1);
        drop(first);
        let place = second.await.unwrap().unwrap();
        assert_eq!(station.load().working, 1);
        drop(place);
        assert_eq!(station.load().working, 0);
    }

    #[tokio::test]
    async fn those_who_left_the_queue_take_no_place() {
        let station = station(1, 10_000);
        let first = station.enter().await.unwrap();
        let waiting: Vec<_> = (0..10_000)
            .map(|_| {
                let station = station.clone();
                let mut entry = Box::pin(async move { station.enter().await });
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(entry.as_mut().poll(&mut context).is_pending());
                entry
            })
            .collect();
        drop(waiting);
        drop(first);
        assert_eq!(station.load().working, 0);
        assert_eq!(station.load().waiting, 0);
    }

    #[tokio::test]
    async fn more_workers_take_up_those_who_wait() {
        let station = station(0, 4);
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let station = station.clone();
                tokio::spawn(async move { station.enter().await })
            })
            .collect();
        tokio::task::yield_now().await;
        station.resize(Capacity { workers: 4, queue: 4 });
        for entry in waiting {
            let place = entry.await.unwrap().unwrap();
            std::mem::forget(place);
        }
        assert_eq!(station.load().working, 4);
    }
}
