//! What can be broken, and what is broken at present.

mod admin;
mod kind;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

pub use admin::{AdminSite, admin};
pub use kind::{Fault, Kind};

use crate::{chance::SharedRandom, clock, name::Name, scale::TimeScale};

/// The faults of a system, switched by its admin interface or by an experiment.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scale: TimeScale,
    dice: SharedRandom,
    state: Mutex<State>,
    /// Grows with every change: services that must act on one wait for it.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    active: Vec<Active>,
    started: u64,
}

#[derive(Debug, Clone)]
struct Active {
    fault: Fault,
    /// Tells one start of a fault from the next, so that the end of an old one does not end a new one.
    number: u64,
}

impl Faults {
    /// Nothing is broken.
    #[must_use]
    pub fn none(scale: TimeScale, seed: u64) -> Self {
        Self(Arc::new(Inner {
            scale,
            dice: SharedRandom::new(seed, "faults"),
            state: Mutex::default(),
            changes: watch::channel(0).0,
        }))
    }

    /// Breaks something until it is ended. A fault of the same kind at the same service gives way.
    pub fn start(&self, fault: Fault) {
        self.begin(fault);
    }

    /// Breaks something for a described span. Must be called inside a runtime.
    pub fn start_for(&self, fault: Fault, described: Duration) {
        let number = self.begin(fault);
        let faults = self.clone();
        tokio::spawn(async move {
            clock::sleep(faults.0.scale.span(described)).await;
            faults.remove(|active| active.number == number);
        });
    }

    /// Ends all faults of a kind; false where there was none.
    pub fn end(&self, kind: Kind) -> bool {
        self.remove(|active| active.fault.kind == kind)
    }

    /// Ends all faults.
    pub fn end_all(&self) {
        self.remove(|_| true);
    }

    /// What is broken.
    #[must_use]
    pub fn active(&self) -> Vec<Fault> {
        self.lock()
            .active
            .iter()
            .map(|active| active.fault.clone())
            .collect()
    }

    /// The fault of a kind at a service, if there is one.
    #[must_use]
    pub fn find(&self, kind: Kind, service: Name) -> Option<Fault> {
        self.lock()
            .active
            .iter()
            .map(|active| &active.fault)
            .find(|fault| fault.kind == kind && fault.service == service)
            .cloned()
    }

    /// Waits for changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Whether the request of a service meets a fault that strikes a share of them.
    #[must_use]
    pub fn strikes(&self, kind: Kind, service: Name) -> bool {
        self.find(kind, service)
            .is_some_and(|fault| self.0.dice.happens(fault.share))
    }

    /// Whether a payment is answered with an error.
    #[must_use]
    pub fn payment_errs(&self) -> bool {
        self.strikes(Kind::PaymentErrors, Name::Payments) || self.strikes(Kind::RetryStorm, Name::Payments)
    }

    /// How much longer a payment takes: three seconds, and every twentieth twenty.
    #[must_use]
    pub fn payment_delay(&self) -> Duration {
        let Some(fault) = self.find(Kind::PaymentSlow, Name::Payments) else {
            return Duration::ZERO;
        };
        let described = if self.0.dice.happens(fault.share) {
            Duration::from_secs(20)
        } else {
            Duration::from_secs(3)
        };
        self.0.scale.span(described)
    }

    /// How much longer a reservation holds its rows: two seconds, give or take 30 %.
    #[must_use]
    pub fn lock_delay(&self) -> Duration {
        if self.find(Kind::InventoryLock, Name::Inventory).is_none() {
            return Duration::ZERO;
        }
        self.0.scale.span(self.0.dice.around(Duration::from_secs(2), 0.3))
    }

    fn begin(&self, fault: Fault) -> u64 {
        let number = {
            let mut state = self.lock();
            state.started += 1;
            let number = state.started;
            state
                .active
                .retain(|active| (active.fault.kind, active.fault.service) != (fault.kind, fault.service));
            tracing::info!(
                fault = fault.kind.as_str(),
                service = fault.service.as_str(),
                "broken"
            );
            state.active.push(Active { fault, number });
            number
        };
        self.tell();
        number
    }

    fn remove(&self, which: impl Fn(&Active) -> bool) -> bool {
        let removed = {
            let mut state = self.lock();
            let before = state.active.len();
            state.active.retain(|active| !which(active));
            before > state.active.len()
        };
        if removed {
            self.tell();
        }
        removed
    }

    fn tell(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_payments_errs_while_the_fault_lasts() {
        let faults = Faults::none(TimeScale::ONE, 1);
        assert!(!faults.payment_errs());
        faults.start(Fault::of(Kind::PaymentErrors));
        let errors = (0..10_000).filter(|_| faults.payment_errs()).count();
        assert!((1800..2200).contains(&errors), "{errors} of 10000");
        assert!(faults.end(Kind::PaymentErrors));
        assert!(!faults.end(Kind::PaymentErrors));
        assert!(!faults.payment_errs());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_old_fault_does_not_end_a_new_one() {
        let faults = Faults::none(TimeScale::new(0.1).unwrap(), 1);
        faults.start_for(Fault::of(Kind::InventoryLock), Duration::from_secs(10));
        clock::sleep(Duration::from_millis(900)).await;
        faults.start_for(Fault::of(Kind::InventoryLock), Duration::from_secs(10));
        clock::sleep(Duration::from_millis(200)).await;
        assert_eq!(faults.active().len(), 1);
        clock::sleep(Duration::from_millis(900)).await;
        assert_eq!(faults.active().len(), 0);
    }
}
