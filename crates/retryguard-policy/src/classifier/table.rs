//! The table behind a classifier: one reading for every status, code and kind.

use retryguard_core::outcome::{Failure, FailureKind, Hints};

use super::signal::{GRPC_STATUS, Signal};

const STATUSES: usize = 200;
const FIRST_STATUS: u16 = 400;
const KINDS: usize = FailureKind::ALL.len();

/// What a policy changes about the readings.
#[derive(Debug, Default)]
pub(crate) struct Lists<'a> {
    pub(crate) retry_on: &'a [Signal],
    pub(crate) never_retry_on: &'a [Signal],
    pub(crate) rejections: &'a [Signal],
    pub(crate) not_rejections: &'a [Signal],
    pub(crate) quota: &'a [Signal],
}

/// A failure without its hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) kind: FailureKind,
    pub(crate) retryable: bool,
    pub(crate) rejection: bool,
    pub(crate) unhealthy: bool,
}

impl Reading {
    fn of(kind: FailureKind) -> Self {
        Self {
            kind,
            retryable: kind.retryable(),
            rejection: kind.rejection(),
            unhealthy: kind.unhealthy(),
        }
    }

    fn failure(self) -> Failure {
        Failure {
            kind: self.kind,
            retryable: self.retryable,
            rejection: self.rejection,
            unhealthy: self.unhealthy,
            hints: Hints::NONE,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) statuses: [Reading; STATUSES],
    pub(crate) codes: [Reading; GRPC_STATUS.len()],
    pub(crate) kinds: [Reading; KINDS],
}

impl Table {
    /// The default readings, changed by a policy's lists. Quota first, because it changes the kind that the
    /// other lists may name; `neverRetryOn` last, because it must win.
    pub(crate) fn new(lists: &Lists<'_>) -> Self {
        let mut table = Self {
            statuses: std::array::from_fn(|index| status_by_default(index + usize::from(FIRST_STATUS))),
            codes: std::array::from_fn(code_by_default),
            kinds: std::array::from_fn(|index| Reading::of(FailureKind::ALL[index])),
        };
        table.change(lists.quota, |reading| *reading = Reading::of(FailureKind::Quota));
        table.change(lists.retry_on, |reading| reading.retryable = true);
        table.change(lists.rejections, |reading| reading.rejection = true);
        table.change(lists.not_rejections, |reading| reading.rejection = false);
        table.change(lists.never_retry_on, |reading| reading.retryable = false);
        table
    }

    pub(crate) fn http(&self, status: u16) -> Failure {
        let index = usize::from(status.wrapping_sub(FIRST_STATUS));
        match self.statuses.get(index) {
            Some(reading) => reading.failure(),
            // No HTTP status at all: the server does not speak the protocol, now or the next time.
            None => self.kind(FailureKind::Request),
        }
    }

    pub(crate) fn grpc(&self, code: u8) -> Failure {
        const UNKNOWN: usize = 2;
        self.codes
            .get(usize::from(code))
            .unwrap_or(&self.codes[UNKNOWN])
            .failure()
    }

    pub(crate) fn kind(&self, kind: FailureKind) -> Failure {
        let found = self
            .kinds
            .iter()
            .zip(FailureKind::ALL)
            .find(|(_, of)| *of == kind);
        found.map_or_else(|| Failure::new(kind), |(reading, _)| reading.failure())
    }

    fn change(&mut self, signals: &[Signal], change: impl Fn(&mut Reading)) {
        for signal in signals {
            match *signal {
                Signal::Status(status) => {
                    if let Some(reading) = self
                        .statuses
                        .get_mut(usize::from(status.wrapping_sub(FIRST_STATUS)))
                    {
                        change(reading);
                    }
                }
                Signal::Class(class) => {
                    let first = usize::from(class.saturating_sub(4)) * 100;
                    self.statuses.iter_mut().skip(first).take(100).for_each(&change);
                }
                Signal::Code(code) => {
                    if let Some(reading) = self.codes.get_mut(usize::from(code)) {
                        change(reading);
                    }
                }
                Signal::Kind(kind) => {
                    let kind = FailureKind::ALL[kind];
                    let all = self
                        .statuses
                        .iter_mut()
                        .chain(&mut self.codes)
                        .chain(&mut self.kinds);
                    all.filter(|reading| reading.kind == kind).for_each(&change);
                }
            }
        }
    }
}

/// What an HTTP status says, by the rules for safe clients.
pub(super) fn status_by_default(status: usize) -> Reading {
    Reading::of(match status {
        408 | 504 => FailureKind::Timeout,
        429 | 503 => FailureKind::Overload,
        // An intermediary whose own connection was refused, reset or garbled.
        502 => FailureKind::Disconnected,
        // Out of storage; the specification forbids a repetition without a person's decision.
        507 => FailureKind::Quota,
        // The server cannot do this at all: not implemented, wrong version, misconfigured, no network login.
        501 | 505 | 506 | 508 | 510 | 511 => FailureKind::Request,
        500.. => FailureKind::Fault,
        _ => FailureKind::Request,
    })
}

/// What a gRPC code says.
pub(super) fn code_by_default(code: usize) -> Reading {
    let kind = match GRPC_STATUS[code] {
        "CANCELLED" => FailureKind::Cancelled,
        "DEADLINE_EXCEEDED" => FailureKind::Timeout,
        "RESOURCE_EXHAUSTED" | "UNAVAILABLE" => FailureKind::Overload,
        "UNKNOWN" | "INTERNAL" | "DATA_LOSS" | "ABORTED" => FailureKind::Fault,
        _ => FailureKind::Request,
    };
    Reading {
        // A lost race between two writers is worth another attempt, yet the target is perfectly well.
        unhealthy: kind.unhealthy() && GRPC_STATUS[code] != "ABORTED",
        ..Reading::of(kind)
    }
}
