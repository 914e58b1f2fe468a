//! The decisions of RetryGuard as pure machines.
//!
//! Nothing here reads a clock, owns a random generator or does I/O. Time comes in as an [`Instant`], chance
//! through [`Chance`], and what happened in the world as an [`Outcome`]. A *driver* supplies all three: the
//! tower layers of the `retryguard` crate in production, the event kernel of the simulator, or a test that
//! enumerates every order and every draw.
//!
//! Two machines hold the composition together:
//!
//! - [`Target`]: the state shared by all calls to one destination.
//! - [`Call`]: one logical request, with its attempts, waits and deadline.
//!
//! A driver by hand: the first attempt is rejected, the second succeeds after the wait.
//!
//! ```
//! use std::sync::Arc;
//!
//! use retryguard_core::{
//!     Call, Criticality, Deadline, Failure, FailureKind, Instant, Outcome, Target, TargetSettings,
//!     bulkhead::Ticket,
//!     call::{Facts, Step, Verdict},
//!     chance::Highest,
//! };
//!
//! let start = Instant::from_secs(1);
//! let mut target = Target::new(Arc::new(TargetSettings::default()), start);
//! let mut call = Call::new(&Facts {
//!     deadline: Deadline::at(Instant::from_secs(4)),
//!     criticality: Criticality::default(),
//!     idempotent: true,
//!     replayable: true,
//!     ticket: Ticket(1),
//! });
//!
//! let Step::Send(first) = call.start(&mut target, start, &mut Highest) else {
//!     panic!("a fresh target refuses no call");
//! };
//! let rejected = Outcome::Failure(Failure::new(FailureKind::Overload));
//! let step = call.on_outcome(first.number, &rejected, &mut target, start, &mut Highest);
//! assert_eq!(step, Step::Wait);
//!
//! let due = call.next_timer().expect("the wait before the retry");
//! let Step::Send(second) = call.on_timer(&mut target, due, &mut Highest) else {
//!     panic!("the wait is over");
//! };
//! let step = call.on_outcome(second.number, &Outcome::Success, &mut target, due, &mut Highest);
//! assert_eq!(step, Step::Done(Verdict::Success { number: 2 }));
//! ```
//!
//! The order in which the parts are asked is written in [`call`] and [`target`], and decided nowhere else.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod bulkhead;
pub mod call;
pub mod callers;
pub mod chance;
pub mod criticality;
pub mod deadline;
pub mod endpoints;
pub mod gate;
pub mod guard;
pub mod hedge;
pub mod latency;
mod levels;
pub mod limiter;
pub mod outcome;
mod pace;
mod patience;
pub mod rate;
pub mod ratio;
pub mod refusal;
mod rules;
pub mod schedule;
pub mod shed;
pub mod target;
pub mod throttle;
pub mod time;
mod window;

pub use backoff::Backoff;
pub use call::Call;
pub use chance::Chance;
pub use criticality::Criticality;
pub use deadline::Deadline;
pub use outcome::{Failure, FailureKind, Outcome};
pub use ratio::Ratio;
pub use refusal::Refusal;
pub use target::Target;
pub use time::Instant;

// Every machine's settings are `Settings` in its module; these names are unique in the workspace.
pub use breaker::Settings as BreakerSettings;
pub use budget::Settings as BudgetSettings;
pub use bulkhead::Settings as BulkheadSettings;
pub use call::Settings as CallSettings;
pub use endpoints::Settings as EndpointsSettings;
pub use gate::Settings as GateSettings;
pub use guard::Settings as GuardSettings;
pub use hedge::Settings as HedgeSettings;
pub use limiter::Settings as LimiterSettings;
pub use rate::Settings as RateSettings;
pub use shed::Settings as ShedSettings;
pub use target::Settings as TargetSettings;
pub use throttle::Settings as ThrottleSettings;
