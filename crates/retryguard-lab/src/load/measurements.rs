//! What was measured, while it runs and afterwards.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Serialize;

/// How finely the time line is cut, as described.
pub(super) const SLICE: Duration = Duration::from_secs(1);

/// The longest latency that is distinguished: ten minutes.
const LONGEST_MICROS: u64 = 600_000_000;

/// What became of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Paid, and the user got the answer in time.
    Paid,
    /// Refused at the door: shed or turned away before any work.
    Shed,
    /// Answered with an error.
    Failed,
    /// No answer in time, or none at all.
    Lost,
}

/// A slice of the time line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Slice {
    /// Orders that were to be sent in it.
    pub sent: u64,
    /// Orders of it that were paid, whenever that was.
    pub paid: u64,
    /// Orders of it that were shed.
    pub shed: u64,
    /// Orders of it that failed.
    pub failed: u64,
    /// Orders of it that got no answer.
    pub lost: u64,
}

/// The numbers so far, for a screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Live {
    /// Orders sent.
    pub sent: u64,
    /// Orders paid.
    pub paid: u64,
    /// Orders shed.
    pub shed: u64,
    /// Orders that failed.
    pub failed: u64,
    /// Orders without an answer.
    pub lost: u64,
    /// Orders under way.
    pub under_way: u64,
}

/// All that one run measured.
#[derive(Debug, Clone, Serialize)]
pub struct Measurements {
    /// The sums.
    pub total: Live,
    /// Replays sent, and of these answered as the first time.
    pub replays: u64,
    /// See `replays`.
    pub replays_paid: u64,
    /// By the moment at which orders were to be sent, in slices of a described second.
    pub slices: Vec<Slice>,
    /// Latency from the moment at which an order was to be sent, all answers.
    #[serde(skip)]
    pub latency: Histogram<u64>,
    /// The same of paid orders.
    #[serde(skip)]
    pub paid_latency: Histogram<u64>,
    /// Latency of the orders that the plan wants measured apart.
    #[serde(skip)]
    pub apart: Histogram<u64>,
    /// The same without those that were shed.
    #[serde(skip)]
    pub apart_admitted: Histogram<u64>,
    /// Latency of the orders before them.
    #[serde(skip)]
    pub before: Histogram<u64>,
    /// Those of them that were paid.
    pub paid_before: u64,
    /// How much later than intended an order was sent, at the worst.
    pub worst_lag: Duration,
    /// Orders that were not sent because too many were under way.
    pub unsent: u64,
    /// Whether the driver kept its offered load; if not, the run says nothing about the system.
    pub kept: bool,
}

impl Measurements {
    /// The share of orders that were paid.
    #[must_use]
    pub fn success(&self) -> f64 {
        share(self.total.paid, self.total.sent)
    }

    /// The share that was paid of the orders to be sent from one described second until another.
    #[must_use]
    pub fn success_between(&self, from: Duration, until: Duration) -> f64 {
        let (mut paid, mut sent) = (0, 0);
        for slice in self.between(from, until) {
            paid += slice.paid;
            sent += slice.sent;
        }
        share(paid, sent)
    }

    /// The slices from one described second until another.
    pub fn between(&self, from: Duration, until: Duration) -> impl Iterator<Item = &Slice> {
        let place = |at: Duration| usize::try_from(at.as_secs()).unwrap_or(usize::MAX);
        self.slices.iter().take(place(until)).skip(place(from))
    }

    /// A percentile of the latency of all answers, as it passed here.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_micros(self.latency.value_at_percentile(percent))
    }
}

/// Nothing of nothing is none.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Where a run is written down while it runs.
pub(super) struct Ledger(Mutex<Entries>);

struct Entries {
    slice: Duration,
    /// See `Measurements::apart`, as it passes here.
    apart: Option<(Duration, Duration)>,
    result: Measurements,
}

impl Ledger {
    /// `slice` is a described second as it passes here, `apart` the orders whose latency is kept apart.
    pub(super) fn new(slice: Duration, apart: Option<(Duration, Duration)>) -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LONGEST_MICROS, 3)
                .expect("bounds and precision that the format has")
        };
        Self(Mutex::new(Entries {
            slice,
            apart,
            result: Measurements {
                total: Live::default(),
                replays: 0,
                replays_paid: 0,
                slices: Vec::new(),
                latency: histogram(),
                paid_latency: histogram(),
                apart: histogram(),
                apart_admitted: histogram(),
                before: histogram(),
                paid_before: 0,
                worst_lag: Duration::ZERO,
                unsent: 0,
                kept: true,
            },
        }))
    }

    /// An order is sent, `lag` after it was to be sent at `at` from the start.
    pub(super) fn sent(&self, at: Duration, lag: Duration) {
        let mut book = self.lock();
        book.result.total.sent += 1;
        book.result.total.under_way += 1;
        book.result.worst_lag = book.result.worst_lag.max(lag);
        book.slice(at).sent += 1;
    }

    /// An order could not even be sent.
    pub(super) fn unsent(&self) {
        self.lock().result.unsent += 1;
    }

    /// What became of it, `latency` after it was to be sent.
    pub(super) fn ended(&self, at: Duration, latency: Duration, verdict: Verdict) {
        let mut book = self.lock();
        let micros = u64::try_from(latency.as_micros())
            .unwrap_or(LONGEST_MICROS)
            .clamp(1, LONGEST_MICROS);
        book.result.total.under_way -= 1;
        book.result.latency.saturating_record(micros);
        if book.apart.is_some_and(|(from, _)| at < from) {
            book.result.before.saturating_record(micros);
            book.result.paid_before += u64::from(verdict == Verdict::Paid);
        }
        if book
            .apart
            .is_some_and(|(from, until)| (from..until).contains(&at))
        {
            book.result.apart.saturating_record(micros);
            if verdict != Verdict::Shed {
                book.result.apart_admitted.saturating_record(micros);
            }
        }
        match verdict {
            Verdict::Paid => {
                book.result.total.paid += 1;
                book.result.paid_latency.saturating_record(micros);
                book.slice(at).paid += 1;
            }
            Verdict::Shed => {
                book.result.total.shed += 1;
                book.slice(at).shed += 1;
            }
            Verdict::Failed => {
                book.result.total.failed += 1;
                book.slice(at).failed += 1;
            }
            Verdict::Lost => {
                book.result.total.lost += 1;
                book.slice(at).lost += 1;
            }
        }
    }

    /// An order was sent a second time.
    pub(super) fn replayed(&self, paid: bool) {
        let mut book = self.lock();
        book.result.replays += 1;
        book.result.replays_paid += u64::from(paid);
    }

    pub(super) fn live(&self) -> Live {
        self.lock().result.total
    }

    pub(super) fn finish(&self, kept: bool) -> Measurements {
        let mut result = self.lock().result.clone();
        result.kept = kept && result.unsent == 0;
        result
    }

    pub(super) fn worst_lag(&self) -> Duration {
        self.lock().result.worst_lag
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn slice(&mut self, at: Duration) -> &mut Slice {
        let place = usize::try_from(at.as_nanos() / self.slice.as_nanos().max(1)).unwrap_or(usize::MAX);
        // A run of a day in slices of a second; beyond it, the last slice takes the rest.
        let place = place.min(86_400);
        if self.result.slices.len() <= place {
            self.result.slices.resize(place + 1, Slice::default());
        }
        &mut self.result.slices[place]
    }
}
