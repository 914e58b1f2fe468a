//! Periodic work that does not synchronise a fleet.

use std::{sync::Mutex, sync::PoisonError, time::Duration};

use retryguard_core::schedule::Schedule;

use crate::clock::{self, Random};

/// Runs work once a period, at a moment that is drawn anew for every period.
///
/// The period and the list of features can be changed while it runs, from a policy or by hand: a fleet of
/// clients is configured from afar, not by a new release.
#[derive(Debug)]
pub struct Periodic {
    schedule: Mutex<Schedule>,
}

impl Periodic {
    /// Work that is due once in every `period`.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self {
            schedule: Mutex::new(Schedule::new(period)),
        }
    }

    /// Changes the period; it counts from the next execution on.
    pub fn set_period(&self, period: Duration) {
        self.with(|schedule| schedule.set_period(period));
    }

    /// Takes the period and the switched-off features of a service's policy.
    pub fn follow(&self, service: &retryguard_policy::Service) {
        self.with(|schedule| {
            if let Some(period) = service.period {
                schedule.set_period(period);
            }
            schedule.switch_off(service.target.features_off.iter().map(|name| &**name));
        });
    }

    /// Whether a feature may do its periodic work.
    #[must_use]
    pub fn is_on(&self, feature: &str) -> bool {
        self.with(|schedule| schedule.is_on(feature))
    }

    /// Waits for the first execution: anywhere within one period, so that a fleet that starts together does
    /// not act together.
    pub async fn first(&self) {
        let now = clock::unix_time();
        let at = self.with(|schedule| schedule.first(now, &mut Random));
        clock::sleep(now.until(at)).await;
    }

    /// Waits for the next execution.
    pub async fn next(&self) {
        let now = clock::unix_time();
        let at = self.with(|schedule| schedule.next(now, &mut Random));
        clock::sleep(at.map_or(Duration::MAX, |at| now.until(at))).await;
    }

    /// Runs the work of a feature for ever; while the feature is off, its executions pass unused.
    pub async fn run<F: Future>(&self, feature: &str, mut work: impl FnMut() -> F) {
        self.first().await;
        loop {
            if self.is_on(feature) {
                work().await;
            }
            self.next().await;
        }
    }

    fn with<R>(&self, action: impl FnOnce(&mut Schedule) -> R) -> R {
        action(&mut self.schedule.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
