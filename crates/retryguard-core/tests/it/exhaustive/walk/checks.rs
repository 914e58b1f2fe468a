//! What must hold after every event, and at the end of every path.

use retryguard_core::{
    Call, Instant, Outcome, Ratio,
    call::{Attempt, Step},
    chance::Lowest,
    guard,
    target::AttemptKind,
};

use super::{super::ledger::Standing, Path};
use crate::support::{facts, ms};

impl Path<'_> {
    /// Nothing passes a closed gate, and no retry one that forbids them or a guard that is off.
    pub(super) fn check_gate(&self, kind: AttemptKind) {
        assert!(self.gate_open(kind), "sent through a closed gate");
        if kind != AttemptKind::First {
            assert!(
                self.ledger.forbidden_until <= self.now,
                "the target forbids retries"
            );
            assert!(
                self.target.guard_share() > Ratio::ZERO,
                "the guard lets nothing through"
            );
        }
    }

    pub(super) fn check_times(&self, call: usize, attempt: Attempt) {
        let deadline = self.ledger.accounts[call].deadline;
        assert!(self.now < deadline, "sent at or after the deadline");
        assert!(attempt.ends <= deadline, "an attempt may outlast the deadline");
        if deadline != Instant::NEVER {
            assert!(self.now.after(self.settings().call.least_attempt) <= deadline);
        }
        if let Some(timeout) = self.settings().call.attempt_timeout {
            assert!(attempt.ends <= self.now.after(timeout));
        }
    }

    /// What has ended cannot end again, and what is not due or not waited for does nothing.
    pub(super) fn spurious(&mut self, call: usize, number: u8, outcome: Outcome) {
        let (in_flight, waiting) = (self.target.in_flight(), self.target.waiting());
        let machine = &mut self.calls[call];
        let timer = machine.next_timer();
        let late = machine.on_outcome(number, &outcome, &mut self.target, self.now, &mut Lowest);
        assert_eq!(late, Step::Wait, "a late outcome");
        if timer.is_none_or(|due| due > self.now) {
            assert_eq!(
                machine.on_timer(&mut self.target, self.now, &mut Lowest),
                Step::Wait
            );
        }
        if self.ledger.accounts[call].standing != Standing::Queued {
            assert_eq!(
                machine.on_place(&mut self.target, self.now, &mut Lowest),
                Step::Wait
            );
        }
        assert_eq!(machine.next_timer(), timer);
        assert_eq!(
            (self.target.in_flight(), self.target.waiting()),
            (in_flight, waiting)
        );
    }

    pub(super) fn check(&mut self) {
        let taken = self.ledger.runs.len() + self.ledger.granted.len();
        assert_eq!(self.target.in_flight() as usize, taken, "places");
        assert_eq!(self.target.waiting(), self.ledger.queue.len(), "queue");
        let world = self.world;
        let retries = world.most(|policy| policy.call.retries.into());
        let hedges = world.most(|policy| policy.hedge.map_or(0, |hedge| hedge.most.into()));
        for (call, account) in self.calls.iter().zip(&self.ledger.accounts) {
            let counted = (call.sent(), call.retries(), call.hedges());
            assert_eq!(counted, (account.sent, account.retries, account.hedges));
            assert!(u32::from(account.retries) <= retries, "too many retries");
            assert!(u32::from(account.hedges) <= hedges, "too many hedges");
            assert!(
                u32::from(account.sent) <= 1 + retries + hedges,
                "too many attempts"
            );
            assert_eq!(call.is_queued(), account.standing == Standing::Queued);
            if matches!(account.standing, Standing::Queued | Standing::BackingOff) {
                assert!(call.next_timer().is_some(), "waits for ever");
            }
        }
        if world.most(|policy| policy.breaker.is_some().into()) == 1 {
            let probes = world.most(|policy| policy.breaker.map_or(0, |breaker| breaker.probes));
            let close_after = world.most(|policy| policy.breaker.map_or(0, |breaker| breaker.close_after));
            self.ledger.check_probes(probes, close_after);
        }
        if matches!(self.target.guard_state(), guard::State::Ramping { .. }) {
            self.met.insert("ramping");
        }
        self.ledger
            .check_budget(self.settings(), &mut self.target, self.now);
    }

    /// Nothing is held and nothing is wedged: after a while the next call gets through.
    pub(super) fn prove_alive(mut self) {
        assert_eq!((self.target.in_flight(), self.target.waiting()), (0, 0));
        assert_eq!((self.ledger.runs.len(), self.ledger.granted.len()), (0, 0));
        let later = self.now.after(ms(1_000_000));
        let mut next = Call::new(&facts(u64::MAX));
        let step = next.start(&mut self.target, later, &mut Lowest);
        assert!(matches!(step, Step::Send(_)), "wedged: {step:?}");
        next.abandon(&mut self.target);
    }
}
