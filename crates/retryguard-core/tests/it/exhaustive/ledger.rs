//! What the walk itself knows to be true, kept apart from the machines under test.

use std::collections::VecDeque;

use retryguard_core::{
    Instant, Ratio, Target,
    breaker::State,
    budget,
    call::Attempt,
    target::{AttemptKind, Change, Settings},
};

/// Where a call stands, by what it has answered so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Fresh,
    Queued,
    Running,
    BackingOff,
    Over,
}

#[derive(Debug)]
pub(super) struct Account {
    pub(super) standing: Standing,
    pub(super) deadline: Instant,
    pub(super) sent: u8,
    pub(super) retries: u8,
    pub(super) hedges: u8,
    /// What a retry that is decided but not sent has taken: the budget's generation and the tokens.
    charge: Option<(u32, u32)>,
    /// The tokens of the last retry or hedge that was sent.
    tokens: u32,
}

impl Account {
    pub(super) const FRESH: Self = Self {
        standing: Standing::Fresh,
        deadline: Instant::NEVER,
        sent: 0,
        retries: 0,
        hedges: 0,
        charge: None,
        tokens: 0,
    };
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) call: usize,
    pub(super) attempt: Attempt,
    /// The breaker's phase that it probes.
    probe: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) accounts: Vec<Account>,
    pub(super) runs: Vec<Run>,
    /// Calls that wait for a place, in the order in which they came.
    pub(super) queue: VecDeque<usize>,
    /// Calls that were given a place and have not been told yet.
    pub(super) granted: Vec<usize>,
    /// Until when the target has asked to be left alone, by first attempts and by others, and not to be
    /// retried.
    pub(super) firsts_closed_until: Instant,
    pub(super) again_closed_until: Instant,
    pub(super) forbidden_until: Instant,
    generation: u32,
    firsts: u64,
    extras: u64,
    quota: u32,
    phase: u32,
    proven: u32,
}

impl Ledger {
    pub(super) fn new(calls: usize, settings: &Settings) -> Self {
        let mut ledger = Self {
            accounts: (0..calls).map(|_| Account::FRESH).collect(),
            ..Self::default()
        };
        ledger.open_budget(settings.budget);
        ledger
    }

    fn open_budget(&mut self, settings: Option<budget::Settings>) {
        (self.firsts, self.extras) = (0, 0);
        self.generation += 1;
        if let Some(budget::Settings::Quota { capacity, .. }) = settings {
            self.quota = capacity;
        }
    }

    /// A new policy: a budget that goes takes its books with it, one that stays keeps them.
    pub(super) fn on_swap(&mut self, old: &Settings, new: &Settings) {
        if old.budget.is_none() || new.budget.is_none() {
            self.open_budget(new.budget);
        }
    }

    pub(super) fn on_changes(&mut self, target: &mut Target) {
        for change in target.changes() {
            if let Change::Breaker { .. } = change {
                self.phase += 1;
                self.proven = 0;
            }
        }
    }

    /// A retry or a hedge is decided for a call.
    pub(super) fn charge(&mut self, call: usize, after_timeout: bool, settings: &Settings) {
        let tokens = match settings.budget {
            None => return,
            Some(budget::Settings::Quota {
                retry_cost,
                timeout_cost,
                ..
            }) => {
                let cost = if after_timeout { timeout_cost } else { retry_cost };
                let left = self.quota.checked_sub(cost);
                self.quota = left.expect("the quota is overdrawn");
                cost
            }
            Some(budget::Settings::Ratio { ratio, .. }) => {
                self.extras += 1;
                assert!(
                    self.extras <= share(ratio, self.firsts),
                    "the budget is overdrawn"
                );
                0
            }
            Some(other @ budget::Settings::Adaptive { .. }) => panic!("no books for {other:?}"),
        };
        let before = self.accounts[call].charge.replace((self.generation, tokens));
        assert_eq!(before, None, "one retry is decided at a time");
    }

    /// What was decided is not sent.
    pub(super) fn refund(&mut self, call: usize, settings: &Settings) {
        let Some((generation, tokens)) = self.accounts[call].charge.take() else {
            return;
        };
        if generation != self.generation {
            return;
        }
        match settings.budget {
            Some(budget::Settings::Quota { capacity, .. }) => {
                self.quota = (self.quota + tokens).min(capacity);
            }
            Some(_) => self.extras -= 1,
            None => {}
        }
    }

    pub(super) fn succeed(&mut self, call: usize, settings: &Settings) {
        if let Some(budget::Settings::Quota {
            capacity,
            success_gain,
            ..
        }) = settings.budget
        {
            let gain = match self.accounts[call].tokens {
                0 => success_gain,
                tokens => tokens,
            };
            self.quota = (self.quota + gain).min(capacity);
        }
    }

    pub(super) fn send(&mut self, call: usize, attempt: Attempt, settings: &Settings, state: State) {
        let account = &mut self.accounts[call];
        account.sent += 1;
        assert_eq!(
            account.sent, attempt.number,
            "attempts are numbered as they are sent"
        );
        match attempt.kind {
            AttemptKind::First => self.firsts += u64::from(settings.budget.is_some()),
            AttemptKind::Retry => account.retries += 1,
            AttemptKind::Hedge => account.hedges += 1,
        }
        if let Some((_, tokens)) = account.charge.take() {
            account.tokens = tokens;
        }
        account.standing = Standing::Running;
        assert_ne!(state, State::Open, "nothing passes an open breaker");
        self.runs.push(Run {
            call,
            attempt,
            probe: (state == State::HalfOpen).then_some(self.phase),
        });
    }

    pub(super) fn end_run(&mut self, call: usize, number: u8, healthy: bool) {
        let found = |run: &Run| run.call == call && run.attempt.number == number;
        let index = self.runs.iter().position(found).expect("it runs");
        let run = self.runs.remove(index);
        self.proven += u32::from(healthy && run.probe == Some(self.phase));
    }

    pub(super) fn drop_runs(&mut self, call: usize) {
        self.runs.retain(|run| run.call != call);
    }

    pub(super) fn runs_of(&self, call: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.call == call)
    }

    pub(super) fn leave_queue(&mut self, call: usize) {
        self.queue.retain(|waiting| *waiting != call);
        self.granted.retain(|waiting| *waiting != call);
    }

    /// At most so many probes under way, and no more in one phase than can decide it.
    pub(super) fn check_probes(&self, probes: u32, close_after: u32) {
        let probing = self
            .runs
            .iter()
            .filter(|run| run.probe == Some(self.phase))
            .count();
        let probing = u32::try_from(probing).expect("few");
        assert!(probing <= probes, "half-open floods: {probing} probes");
        assert!(
            probing + self.proven <= close_after,
            "more probes than can decide the phase"
        );
    }

    pub(super) fn check_budget(&self, settings: &Settings, target: &mut Target, now: Instant) {
        let balance = target.budget_balance(now);
        match settings.budget {
            None => assert_eq!(balance, None),
            Some(budget::Settings::Quota { retry_cost, .. }) => {
                assert_eq!(balance, Some(u64::from(self.quota / retry_cost)));
            }
            Some(budget::Settings::Ratio { ratio, .. }) => {
                assert_eq!(
                    balance,
                    Some(share(ratio, self.firsts).saturating_sub(self.extras))
                );
            }
            Some(other @ budget::Settings::Adaptive { .. }) => panic!("no books for {other:?}"),
        }
    }
}

fn share(ratio: Ratio, of: u64) -> u64 {
    of * ratio.parts() / Ratio::PARTS
}
