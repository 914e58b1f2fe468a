//! The end of a call: what its caller gets, and what is reported.

use std::{pin::Pin, time::Duration};

use retryguard_core::{Call, Refusal, call::Verdict};
use tower_service::Service;

use super::{ResponseFuture, Stage};
use crate::{
    context,
    error::Error,
    observer::CallEvent,
    protocol::{Judge, Protocol, Report},
    shared::Shared,
};

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request> + Judge<S::Response, S::Error>,
    S: Service<P::Attempt> + Clone,
{
    /// Hands on the result that the machine calls a success.
    pub(super) fn succeed(mut self: Pin<&mut Self>, number: u8) -> Result<S::Response, Error<S::Error>> {
        let report = self.as_mut().conclude(&Verdict::Success { number });
        if report.retries > 0 {
            self.shared.tell_gain();
        }
        let this = self.project();
        let ended = this.troubled.as_mut().and_then(|troubled| {
            let history = std::mem::take(&mut troubled.history);
            troubled.last.take().map(|(_, result)| (result, history))
        });
        match ended {
            Some((Ok(mut response), _)) => {
                this.protocol.conclude(&mut response, &report);
                Ok(response)
            }
            // An error that the judge reads as an answer like any other ("not found", say).
            Some((Err(error), history)) => Err(Error::Failed {
                error,
                attempts: report.attempts,
                refusal: Refusal::NotRetryable,
                retry_after: None,
                history,
            }),
            // Only the end of an attempt is a success.
            None => {
                debug_assert!(false, "a success without a result");
                Err(Error::TimedOut {
                    attempts: report.attempts,
                    refusal: Refusal::AttemptsUsed,
                    retry_after: None,
                    history: Vec::new(),
                })
            }
        }
    }

    /// Turns any other verdict into what the caller gets.
    #[cold]
    pub(super) fn finish(
        mut self: Pin<&mut Self>,
        verdict: &Verdict,
    ) -> Result<S::Response, Error<S::Error>> {
        let report = self.as_mut().conclude(verdict);
        let this = self.project();
        let ends_here = match verdict {
            Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. } => refusal.is_of_target(),
            Verdict::Success { .. } => false,
        };
        let layers = report
            .retried_below
            .saturating_add(u8::from(report.retries > 0 || ends_here));
        if layers > 0 {
            match this.protocol.context(this.kept) {
                Some(carried) => carried.note_retried(layers),
                None => context::note_retried(layers),
            }
        }
        tell_failed(this.shared, verdict, &report);
        let now = *this.told;
        if let Some(balance) = this.shared.with(|state| state.target.budget_balance(now)) {
            this.shared.telemetry().on_budget(balance);
        }
        this.shared.tell_gain();
        let (last, history) = this.troubled.as_mut().map_or_else(Default::default, |troubled| {
            (troubled.last.take(), std::mem::take(&mut troubled.history))
        });
        let Report {
            attempts,
            retry_after,
            ..
        } = report;
        match (verdict, last) {
            (Verdict::Refused { refusal, .. }, _) => Err(Error::Refused {
                refusal: *refusal,
                retry_after,
            }),
            (Verdict::Failure { number, .. }, Some((of, Ok(mut response)))) if *number == of => {
                this.protocol.conclude(&mut response, &report);
                Ok(response)
            }
            (Verdict::Failure { number, refusal, .. }, Some((of, Err(error)))) if *number == of => {
                Err(Error::Failed {
                    error,
                    attempts,
                    refusal: *refusal,
                    retry_after,
                    history,
                })
            }
            (Verdict::Failure { refusal, .. }, _) => Err(Error::TimedOut {
                attempts,
                refusal: *refusal,
                retry_after,
                history,
            }),
            // A success has its own way out.
            (Verdict::Success { .. }, _) => {
                debug_assert!(false, "a success that has failed");
                Err(Error::TimedOut {
                    attempts,
                    refusal: Refusal::AttemptsUsed,
                    retry_after,
                    history,
                })
            }
        }
    }

    /// The call is over: nothing is left to be given back, and the telemetry is updated.
    fn conclude(self: Pin<&mut Self>, verdict: &Verdict) -> Report {
        let this = self.project();
        *this.stage = Stage::Over;
        let queued = this.troubled.as_ref().filter(|troubled| troubled.queued);
        let ticket = queued.map(|troubled| troubled.call.ticket());
        this.shared.with(|state| {
            state.on_end();
            if let Some(ticket) = ticket {
                state.forget(ticket);
            }
        });
        let report = match this.troubled {
            Some(troubled) => report(verdict, &troubled.call),
            None => Report::CLEAN,
        };
        let took = this.told.nanos_since(*this.began);
        this.shared.telemetry().on_verdict(verdict, &report, took);
        this.shared.notify(|| CallEvent::Finished {
            attempts: report.attempts,
            refusal: match verdict {
                Verdict::Success { .. } => None,
                Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. } => Some(*refusal),
            },
            at: Duration::from_nanos(took),
        });
        report
    }
}

/// A call has ended without a success.
#[cold]
fn tell_failed(shared: &Shared, verdict: &Verdict, report: &Report) {
    let (Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. }) = verdict else {
        return;
    };
    tracing::debug!(
        target: "retryguard",
        name = shared.name(),
        attempts = report.attempts,
        failure = report.failed.map(|(kind, _)| kind.as_str()),
        refusal = refusal.as_str(),
        "call failed"
    );
}

fn report(verdict: &Verdict, call: &Call) -> Report {
    let mut report = Report {
        attempts: call.sent(),
        retries: call.retries(),
        hedges: call.hedges(),
        failed: None,
        retried_below: 0,
        retry_after: None,
    };
    match verdict {
        Verdict::Success { .. } => {}
        Verdict::Failure {
            failure,
            refusal,
            retry_after,
            ..
        } => {
            report.failed = Some((failure.kind, *refusal));
            report.retried_below = failure.hints.retried_below;
            report.retry_after = *retry_after;
        }
        Verdict::Refused { retry_after, .. } => report.retry_after = *retry_after,
    }
    report
}
