//! A look at a target from outside, and a hand on its policy.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use retryguard_core::{Ratio, breaker, guard};
use retryguard_policy::{Policy, Service};

use crate::{observer::CallObserver, shared::Shared};

/// A handle on the target of a layer.
#[derive(Clone)]
pub struct TargetHandle {
    shared: Arc<Shared>,
}

/// What a target looks like at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TargetStatus {
    /// The breaker's state; closed where there is none.
    pub breaker: breaker::State,
    /// The guard's state; `On` where there is none.
    pub guard: guard::State,
    /// The share of retries that the guard lets through.
    pub guard_share: Ratio,
    /// How many additional successes each additional retry brings, where the guard measures it.
    pub gain: Option<guard::Gain>,
    /// How many retries the budget would allow now; `None` where there is no budget.
    pub budget_balance: Option<u64>,
    /// Attempts under way.
    pub in_flight: u32,
    /// Attempts that wait for a place.
    pub waiting: usize,
}

impl TargetHandle {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// The target's name, which is its service's name in the policy.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// What the target looks like now.
    #[must_use]
    pub fn status(&self) -> TargetStatus {
        let now = self.shared.clock.now();
        self.shared.with(|state| TargetStatus {
            breaker: state.target.breaker_state(),
            guard: state.target.guard_state(),
            guard_share: state.target.guard_share(),
            gain: state.target.gain(),
            budget_balance: state.target.budget_balance(now),
            in_flight: state.target.in_flight(),
            waiting: state.target.waiting(),
        })
    }

    /// Tells an observer of every attempt, retry, refusal and end of the calls of this target, from now on. False where the
    /// target has an observer already.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::{Arc, Mutex};
    /// use retryguard::{CallEvent, Policy};
    ///
    /// let stock = retryguard::target(&Policy::default(), "stock");
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let log = seen.clone();
    /// stock.observe_calls(move |_target: &str, event: &CallEvent| log.lock().unwrap().push(*event));
    /// retryguard::call(&stock, || async { Ok::<_, std::io::Error>(7) }).await.unwrap();
    /// assert!(matches!(
    ///     seen.lock().unwrap()[..],
    ///     [CallEvent::Sent { attempt: 1, .. }, CallEvent::Ended { failure: None, .. }, CallEvent::Finished { .. }]
    /// ));
    /// # }
    /// ```
    pub fn observe_calls(&self, observer: impl CallObserver + 'static) -> bool {
        self.shared.observe_calls(Box::new(observer))
    }

    /// Chooses the delays before retries by a function, which is given the number of the retry (the first is 1) and the
    /// policy's delay. Deadline, Retry-After, guard and budget hold all the same. Called under the target's lock: it
    /// must be quick and must not call back. False where the target has such a function already.
    pub fn back_off_by(&self, delay: impl Fn(u32, Duration) -> Duration + Send + Sync + 'static) -> bool {
        self.shared.back_off_by(Box::new(delay))
    }

    /// Puts a new policy in force at once, for calls under way too, and keeps the state of every part.
    pub fn replace(&self, policy: &Policy) {
        self.replace_service(policy.service(self.name()));
    }

    /// The same from a compiled service.
    pub fn replace_service(&self, service: Arc<Service>) {
        self.shared.replace(service);
    }
}

/// A target that lives only as long as a layer or a handle holds it.
pub(crate) struct WeakTarget(Weak<Shared>);

impl WeakTarget {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn upgrade(&self) -> Option<Arc<Shared>> {
        self.0.upgrade()
    }

    /// Puts a new policy in force. False where the target is gone.
    pub(crate) fn replace(&self, policy: &Policy) -> bool {
        let shared = self.upgrade();
        if let Some(shared) = &shared {
            shared.replace(policy.service(shared.name()));
        }
        shared.is_some()
    }
}

/// What `retryguard-store` shares the breakers of several replicas by.
impl breaker::Handle for TargetHandle {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn state(&self) -> (breaker::State, Duration) {
        let now = self.shared.clock.now();
        self.shared.with(|state| {
            let target = &state.target;
            (target.breaker_state(), target.breaker_open_for(now))
        })
    }

    fn hold_open(&self, span: Duration) {
        let until = self.shared.clock.now().after(span);
        self.shared.force(|target| target.hold_breaker_open(until));
    }

    fn close(&self) {
        self.shared.force(retryguard_core::Target::close_breaker);
    }

    fn observe(&self, told: Box<dyn Fn(breaker::State) + Send + Sync>) -> bool {
        self.shared.observe(told)
    }
}

impl std::fmt::Debug for TargetHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetHandle")
            .field("target", &self.name())
            .finish_non_exhaustive()
    }
}
