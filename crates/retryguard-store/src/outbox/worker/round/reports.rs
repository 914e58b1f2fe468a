//! Reporting batches, and claiming the next ones meanwhile.

use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{
    super::super::{
        BatchReport, BatchSettled, OutboxStore, Publisher, Taken,
        batch::{LeaseTime, Stragglers},
    },
    Round,
};
use crate::{StoreError, clock};

/// A batch that has ended and is not reported yet.
pub(super) struct Report {
    settled: BatchSettled,
    failures: u64,
    lease_ends: Instant,
    stragglers: Option<Stragglers>,
}

impl<S: OutboxStore, P: Publisher> Round<'_, S, P> {
    /// Reports a batch; what still runs gets leases of its own. Where there is a backlog, the next batch is claimed at the same
    /// time: of the same parts by the same statement, or of others while the store is notified of this one.
    pub(super) async fn end_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let lease_ends = batch.lease_ends;
        let (events, kept) = (batch.events, batch.kept);
        let was_large = events * 2 >= self.worker.settings.batch as usize;
        let (settled, failures, stragglers) = batch.end();
        let was_published = settled.is_published(events);
        self.reports.push_back(Report {
            settled,
            failures,
            lease_ends,
            stragglers,
        });
        let goes_on = was_large && self.errors == 0 && self.reports.len() == 1 && self.room() > 0;
        if !goes_on || self.stopping.load(Ordering::Relaxed) {
            return self.settle_batches().await;
        }
        let Some(report) = self.next_report() else { return };
        if was_published && kept.may_stay(events) {
            return self.go_on(report, kept).await;
        }
        let (worker, keep) = (self.worker, self.keeps());
        let (answer, taken) = tokio::join!(
            worker.store.settle_batch(&report.settled, keep),
            self.claim_batch()
        );
        self.on_report(report, answer);
        match taken {
            Ok(taken) => self.start_next(taken),
            Err(error) => self.on_error(&error, "claiming"),
        }
    }

    /// Reports a batch and takes the next of the same parts.
    async fn go_on(&mut self, report: Report, kept: LeaseTime) {
        let (worker, settings) = (self.worker, &self.worker.settings);
        self.batch_lease_ends = clock::now() + settings.lease;
        let answer = worker
            .store
            .settle_and_go_on(&report.settled, self.keeps(), settings.batch, settings.lease)
            .await;
        match answer {
            Ok((answer, taken)) => {
                self.on_report(report, Ok(answer));
                self.start_next(taken);
                if let Some(batch) = &mut self.batch {
                    batch.kept = kept.longer();
                }
            }
            Err(error) => {
                self.on_report(report, Err(error));
            }
        }
    }

    fn start_next(&mut self, taken: Taken) {
        if let Taken::Batch(batch) = taken {
            self.start(batch);
            self.look_at = self.exceptions_at;
        }
    }

    pub(super) async fn settle_batches(&mut self) {
        while let Some(report) = self.next_report() {
            let answer = self
                .worker
                .store
                .settle_batch(&report.settled, self.keeps())
                .await;
            if !self.on_report(report, answer) {
                return;
            }
        }
    }

    /// The first batch that the store can still be notified of.
    fn next_report(&mut self) -> Option<Report> {
        while let Some(report) = self.reports.pop_front() {
            if clock::now() < report.lease_ends {
                return Some(report);
            }
            // It belongs to another worker: telling of it would change nothing.
            self.telemetry.lost.increment(report.settled.parts.len() as u64);
        }
        None
    }

    /// Takes up what the store answered; false where the report must be repeated.
    fn on_report(&mut self, mut report: Report, answer: Result<BatchReport, StoreError>) -> bool {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.reports.push_front(report);
                self.on_error(&error, "settling");
                return false;
            }
        };
        self.errors = 0;
        self.look_at = clock::now();
        let failed = report.settled.failed.iter();
        let parked: usize = failed.map(|(_, lane)| lane.parked.len()).sum();
        self.telemetry.lost.increment(answer.lost as u64);
        self.telemetry.failed.increment(report.failures);
        let published = report.settled.published.len();
        self.telemetry.published.increment(published as u64);
        self.telemetry.given_up.increment(parked as u64);
        if let Some(mut stragglers) = report.stragglers.take() {
            stragglers.have(&answer.tokens);
            self.stragglers.push(stragglers);
        }
        true
    }
}
