//! What the target asked of all clients: to send nothing for a while, or not to retry.

use std::time::Duration;

use crate::{
    chance::Chance,
    criticality::Criticality,
    outcome::{Failure, FailureKind},
    ratio::Ratio,
    time::Instant,
};

/// How a target's hints are obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Which calls a Retry-After holds back.
    pub scope: Scope,
    /// The longest Retry-After that is obeyed. A target that answers with a day must not take a client
    /// out of service for one.
    pub at_most: Duration,
    /// How far the calls that were held back are spread out afterwards, as a share of the wait.
    pub spread: Ratio,
    /// How long a do-not-retry mark that comes without a Retry-After holds retries back.
    pub no_retry_for: Duration,
}

/// Which calls a Retry-After holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every call to the target of the same or a lower criticality.
    Target,
    /// Only retries; first attempts go on.
    Retries,
    /// Only the call that met it.
    Call,
}

impl Default for Settings {
    /// The whole target, for at most 30 seconds, spread over half of the wait; marks hold for a second.
    fn default() -> Self {
        Self {
            scope: Scope::Target,
            at_most: Duration::from_secs(30),
            spread: Ratio::percent(50),
            no_retry_for: Duration::from_secs(1),
        }
    }
}

/// The gate of one target.
///
/// `S` keeps the settings: they themselves, or something that many targets share.
#[derive(Debug, Clone)]
pub struct Gate<S = Settings> {
    settings: S,
    /// What the target has asked for. On the heap: most targets never ask for anything, and a large simulation has many.
    asked: Option<Box<Holds>>,
}

#[derive(Debug, Clone, Default)]
struct Holds {
    /// Until when first attempts of each criticality are held back.
    firsts_until: [Instant; Criticality::ALL.len()],
    /// Until when retries and hedges of each criticality are held back.
    again_until: [Instant; Criticality::ALL.len()],
    /// Until when there are no retries.
    no_retry_until: Instant,
}

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<S: AsRef<Settings>> Gate<S> {
    /// An open gate.
    #[must_use]
    pub fn new(settings: S) -> Self {
        Self {
            settings,
            asked: None,
        }
    }

    /// Changes the settings and keeps what the target asked.
    pub fn replace(&mut self, settings: S) {
        self.settings = settings;
    }

    /// A failure of an attempt at `criticality` brought hints; `again` if the attempt was a retry or a hedge. Only
    /// an `overload` closes the gate: the Retry-After of a 404, a maintenance page or a used-up allowance says
    /// nothing of the calls that would succeed. The do-not-retry mark is obeyed whatever it came with.
    /// Hints hold back what a server would shed before it, or with it: a target that sheds background work has
    /// not asked for its critical traffic to stop, and one that sheds a retry has not refused first attempts.
    #[inline]
    pub fn on_failure(&mut self, failure: &Failure, criticality: Criticality, again: bool, now: Instant) {
        let hints = &failure.hints;
        if hints.caller_only {
            return;
        }
        if let Some(wait) = hints.retry_after
            && self.settings.as_ref().scope != Scope::Call
            && (failure.kind == FailureKind::Overload || hints.do_not_retry)
        {
            let until = now.after(wait.min(self.settings.as_ref().at_most));
            let firsts = criticality.index() + usize::from(!again);
            let asked = self.asked.get_or_insert_default();
            let shed_first = asked.firsts_until[..firsts].iter_mut();
            for closed in shed_first.chain(&mut asked.again_until[..=criticality.index()]) {
                *closed = until.max(*closed);
            }
        }
        if hints.do_not_retry {
            let wait = hints
                .retry_after
                .unwrap_or(self.settings.as_ref().no_retry_for)
                .min(self.settings.as_ref().at_most);
            let asked = self.asked.get_or_insert_default();
            asked.no_retry_until = asked.no_retry_until.max(now.after(wait));
        }
    }

    /// How long a first attempt must still stay away; `None` if it may pass.
    #[inline]
    #[must_use]
    pub fn holds_first(&self, criticality: Criticality, now: Instant) -> Option<Duration> {
        let until = self.asked.as_ref()?.firsts_until[criticality.index()];
        (self.settings.as_ref().scope == Scope::Target && now < until).then(|| now.until(until))
    }

    /// Whether every first attempt may pass.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        let held = |asked: &Holds| asked.firsts_until.iter().any(|until| now < *until);
        self.settings.as_ref().scope != Scope::Target || !self.asked.as_deref().is_some_and(held)
    }

    /// Whether retries and hedges must stay away. A retry is put off: see [`Gate::retry_at`].
    #[must_use]
    pub fn holds_again(&self, criticality: Criticality, now: Instant) -> bool {
        self.settings.as_ref().scope != Scope::Call && now < self.again_until(criticality)
    }

    /// Whether the target has asked its callers not to retry.
    #[must_use]
    #[inline]
    pub fn forbids_retries(&self, now: Instant) -> bool {
        self.asked
            .as_ref()
            .is_some_and(|asked| now < asked.no_retry_until)
    }

    fn again_until(&self, criticality: Criticality) -> Instant {
        let asked = self.asked.as_ref();
        asked.map_or(Instant::ZERO, |asked| asked.again_until[criticality.index()])
    }

    /// When a retry that would be sent at `wanted` may be sent: at that time, or spread out after the gate
    /// has opened.
    #[inline]
    pub fn retry_at(
        &self,
        wanted: Instant,
        criticality: Criticality,
        own: Option<Duration>,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Instant {
        let own = own.map_or(Instant::ZERO, |wait| {
            now.after(wait.min(self.settings.as_ref().at_most))
        });
        let shared = if self.settings.as_ref().scope == Scope::Call {
            Instant::ZERO
        } else {
            self.again_until(criticality)
        };
        let opens = own.max(shared);
        if opens <= wanted {
            return wanted;
        }
        opens.after(chance.up_to(self.settings.as_ref().spread.of(now.until(opens))))
    }

    /// A wait as it is handed to a caller: no longer than is believed, and spread, because all callers that
    /// were refused together must not come back together.
    pub fn jittered(&self, wait: Duration, chance: &mut impl Chance) -> Duration {
        let settings = self.settings.as_ref();
        let wait = wait.min(settings.at_most);
        wait + chance.up_to(settings.spread.of(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chance::{Highest, Lowest},
        outcome::Hints,
    };

    const NOW: Instant = Instant::from_secs(100);
    const SECONDS_5: Hints = Hints {
        retry_after: Some(Duration::from_secs(5)),
        ..Hints::NONE
    };

    fn overload(hints: Hints) -> Failure {
        Failure::new(FailureKind::Overload).with_hints(hints)
    }

    /// A 404 with `Retry-After: 3600`, a used-up quota of one user and the 429 of another closed the whole target.
    #[test]
    fn only_overload_of_the_target_itself_closes_the_gate() {
        for kind in FailureKind::ALL {
            let mut gate = Gate::new(Settings::default());
            let failure = Failure::new(kind).with_hints(SECONDS_5);
            gate.on_failure(&failure, Criticality::CriticalPlus, false, NOW);
            let closed = gate.holds_first(Criticality::Sheddable, NOW).is_some();
            assert_eq!(closed, kind == FailureKind::Overload, "{kind}");
        }
        let mut gate = Gate::new(Settings::default());
        let own = Hints {
            caller_only: true,
            do_not_retry: true,
            ..SECONDS_5
        };
        gate.on_failure(&overload(own), Criticality::CriticalPlus, false, NOW);
        assert_eq!(gate.holds_first(Criticality::Sheddable, NOW), None);
        assert!(!gate.forbids_retries(NOW));
    }

    fn closed(scope: Scope) -> Gate {
        let mut gate = Gate::new(Settings {
            scope,
            ..Settings::default()
        });
        gate.on_failure(&overload(SECONDS_5), Criticality::SheddablePlus, false, NOW);
        gate
    }

    /// A Retry-After that only the call that met it obeys is ignored by all the others.
    #[test]
    fn one_retry_after_holds_back_all_calls_that_matter_as_little() {
        let gate = closed(Scope::Target);
        for level in [Criticality::Sheddable, Criticality::SheddablePlus] {
            assert_eq!(gate.holds_first(level, NOW), Some(Duration::from_secs(5)));
        }
        assert_eq!(gate.holds_first(Criticality::Critical, NOW), None);
        assert_eq!(
            gate.holds_first(Criticality::Sheddable, NOW.after(Duration::from_secs(5))),
            None
        );
    }

    /// A server sheds retries before first attempts: one shed retry must not stop the calls that it still
    /// takes.
    #[test]
    fn a_shed_retry_holds_back_retries_and_not_first_attempts_of_its_level() {
        let mut gate = Gate::new(Settings::default());
        gate.on_failure(&overload(SECONDS_5), Criticality::Critical, true, NOW);
        assert_eq!(gate.holds_first(Criticality::Critical, NOW), None);
        assert!(gate.holds_again(Criticality::Critical, NOW));
        assert!(gate.holds_first(Criticality::SheddablePlus, NOW).is_some());
    }

    #[test]
    fn a_narrower_scope_lets_first_attempts_pass() {
        assert_eq!(
            closed(Scope::Retries).holds_first(Criticality::Sheddable, NOW),
            None
        );
    }

    #[test]
    fn retries_are_spread_out_after_the_gate_opens() {
        let gate = closed(Scope::Retries);
        let at = |chance: &mut dyn Chance| {
            let mut chance = chance;
            gate.retry_at(
                NOW.after(Duration::from_secs(1)),
                Criticality::Sheddable,
                None,
                NOW,
                &mut chance,
            )
        };
        assert_eq!(at(&mut Lowest), NOW.after(Duration::from_secs(5)));
        assert_eq!(at(&mut Highest), NOW.after(Duration::from_millis(7500)));
    }

    #[test]
    fn a_target_cannot_ask_for_a_day() {
        let mut gate = Gate::new(Settings::default());
        let day = Hints {
            retry_after: Some(Duration::from_secs(86_400)),
            ..Hints::NONE
        };
        gate.on_failure(&overload(day), Criticality::Critical, false, NOW);
        assert_eq!(
            gate.holds_first(Criticality::Critical, NOW),
            Some(Duration::from_secs(30))
        );
    }

    #[test]
    fn a_mark_stops_all_retries_for_a_while() {
        let mut gate = Gate::new(Settings::default());
        let mark = Hints {
            do_not_retry: true,
            ..Hints::NONE
        };
        gate.on_failure(&overload(mark), Criticality::Critical, false, NOW);
        assert!(gate.forbids_retries(NOW));
        assert_eq!(gate.holds_first(Criticality::Sheddable, NOW), None);
        assert!(!gate.forbids_retries(NOW.after(Duration::from_secs(1))));
    }
}
