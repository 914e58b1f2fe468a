//! Drives a plan against a system.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use retryguard::{Policy, for_http::tags};
use tokio::sync::Semaphore;

use super::{
    Live, Measurements, Plan, Shape, Verdict, closed,
    measurements::{Ledger, SLICE},
    open,
    orders::{OrderMaker, PreparedOrder},
};
use crate::{
    clock,
    counts::EdgeCounts,
    faults::{Faults, Kind},
    scale::TimeScale,
    system::{Downstream, Life, System},
    trace::Span,
};

/// The most orders under way at once. Beyond it a driver on a small machine measures itself.
pub(super) const MOST_UNDER_WAY: usize = 20_000;

/// A driver that sends an order later than this, as it passes here, has not kept its load: its requests no longer
/// come when the plan says.
const LATEST: Duration = Duration::from_millis(250);

/// A run under way.
#[derive(Clone)]
pub struct Driver {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) plan: Plan,
    pub(super) scale: TimeScale,
    pub(super) seed: u64,
    pub(super) ledger: Ledger,
    pub(super) maker: OrderMaker,
    client: Downstream,
    counts: Arc<EdgeCounts>,
    faults: Option<Faults>,
}

impl Driver {
    /// A driver against the gateway of a system in this process, whose faults it switches.
    ///
    /// # Errors
    /// Where the plan has no time or no load.
    pub fn new(system: &System, plan: Plan) -> anyhow::Result<Self> {
        let settings = system.settings();
        let address = system.address(crate::Name::Gateway);
        Self::against(
            address,
            plan,
            settings.scale,
            settings.seed,
            settings.goods,
            Some(system.faults().clone()),
        )
    }

    /// A driver against any gateway. Without `faults` nothing is broken by it, but its users behave as the plan's
    /// faults say.
    ///
    /// # Errors
    /// Where the plan has no time or no load.
    pub fn against(
        gateway: SocketAddr,
        plan: Plan,
        scale: TimeScale,
        seed: u64,
        goods: u32,
        faults: Option<Faults>,
    ) -> anyhow::Result<Self> {
        check(&plan)?;
        let counts = Arc::new(EdgeCounts::default());
        // Users have no connection limit: their number is the plan's.
        let connections = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let policy = user_policy(&plan, scale, plan.user_attempts)?;
        let client = Downstream::new("users", &policy, "gateway", gateway, connections, counts.clone());
        Ok(Self {
            inner: Arc::new(Inner {
                ledger: Ledger::new(
                    scale.span(SLICE),
                    plan.measured
                        .map(|(from, until)| (scale.span(from), scale.span(until))),
                ),
                maker: OrderMaker::new(seed, goods, plan.replays),
                plan,
                scale,
                seed,
                client,
                counts,
                faults,
            }),
        })
    }

    /// The numbers so far.
    #[must_use]
    pub fn live(&self) -> Live {
        self.inner.ledger.live()
    }

    /// The calls that users have made, replays included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.inner.counts.calls.get()
    }

    /// The attempts that users have made: more than their calls where they retry by themselves.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.inner.counts.attempts.get()
    }

    /// Runs the plan to its end. Orders under way at the end are waited for, as long as a user waits.
    pub async fn run(&self) -> Measurements {
        let life = Life::begin();
        let start = clock::now();
        life.spawn(switch(self.inner.clone(), start));
        match self.inner.plan.shape {
            Shape::Open { rate } => open::run(&self.inner, start, rate).await,
            Shape::Closed { users, think } => closed::run(&self.inner, start, users, think).await,
        }
        life.end();
        if let Some(faults) = &self.inner.faults {
            for window in &self.inner.plan.faults {
                faults.end(window.fault.kind);
            }
        }
        self.inner.ledger.finish(self.inner.ledger.worst_lag() <= LATEST)
    }
}

impl Inner {
    /// Places one order, which was to be sent at `intended`, and writes down what became of it.
    pub(super) async fn place(&self, start: clock::Instant, intended: clock::Instant, number: u64) {
        let sheet = self.maker.sheet(number);
        let at = intended - start;
        self.ledger.sent(at, clock::now() - intended);
        let verdict = self.send(&sheet).await;
        self.ledger.ended(at, clock::now() - intended, verdict);
        if sheet.replayed {
            let again = self.send(&sheet).await;
            self.ledger.replayed(again == Verdict::Paid);
        }
    }

    async fn send(&self, sheet: &PreparedOrder) -> Verdict {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(key) = HeaderValue::from_str(&sheet.key) {
            headers.insert("idempotency-key", key);
        }
        let body = Bytes::from(sheet.body.clone());
        let call = self.client.call(Method::POST, "/orders", headers, body);
        let Ok((status, headers, body)) = Span::root().scope(call).await else {
            return Verdict::Lost;
        };
        if status == StatusCode::CREATED && is_paid(&body) {
            return Verdict::Paid;
        }
        if status == StatusCode::TOO_MANY_REQUESTS || headers.contains_key(tags::DO_NOT_RETRY) {
            return Verdict::Shed;
        }
        Verdict::Failed
    }

    /// A described span as it passes here.
    pub(super) fn span(&self, described: Duration) -> Duration {
        self.scale.span(described)
    }
}

/// Success is what the order came to, and not the status alone.
fn is_paid(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|order| order["status"] == "paid")
}

/// Switches the plan's faults, and the users' own behaviour with them.
async fn switch(inner: Arc<Inner>, start: clock::Instant) {
    let mut moments: Vec<(Duration, bool, &super::Window)> = inner
        .plan
        .faults
        .iter()
        .flat_map(|window| [(window.from, true, window), (window.until, false, window)])
        .collect();
    moments.sort_by_key(|(at, ..)| *at);
    for (at, begins, window) in moments {
        clock::sleep_until(start + inner.span(at)).await;
        if window.fault.kind == Kind::RetryStorm {
            let attempts = if begins { 3 } else { inner.plan.user_attempts };
            if let (Ok(policy), Some(handle)) = (
                user_policy(&inner.plan, inner.scale, attempts),
                inner.counts.handle(),
            ) {
                handle.replace(&policy);
            }
        }
        if let Some(faults) = &inner.faults {
            if begins {
                faults.start(window.fault.clone());
            } else {
                faults.end(window.fault.kind);
            }
        }
    }
}

/// How users call: once, or several times without a pause, for as long as their patience lasts. Their patience is
/// not reported to the gateway: no browser does that.
fn user_policy(plan: &Plan, scale: TimeScale, attempts: u32) -> anyhow::Result<Policy> {
    let patience = scale.span(plan.patience).as_millis().max(1);
    let text = format!(
        "defaults: {{maxRetries: {}, initialDelay: 0s, jitter: none, retryNonIdempotent: true, retryRetried: true, \
         deadline: off, attemptTimeout: {patience}ms, budget: off, guard: off, breaker: off, bulkhead: off, server: off, \
         gate: {{scope: call, atMost: 0s, noRetryFor: 0s}}}}",
        attempts.saturating_sub(1)
    );
    Policy::parse(&text).map_err(|mistakes| anyhow::anyhow!("the users' policy is wrong:\n{mistakes}"))
}

fn check(plan: &Plan) -> anyhow::Result<()> {
    if plan.duration.is_zero() {
        anyhow::bail!("a plan of no duration has nothing to measure: give it some seconds");
    }
    match plan.shape {
        Shape::Open { rate } if !(rate > 0.0 && rate <= 100_000.0) => {
            anyhow::bail!("a rate of {rate} orders a second does not work: choose one from above 0 to 100000")
        }
        Shape::Closed { users, .. } if users == 0 || users > MOST_UNDER_WAY => {
            anyhow::bail!("{users} users do not work: choose from 1 to {MOST_UNDER_WAY}")
        }
        _ => {}
    }
    for window in &plan.faults {
        if window.from >= window.until || window.until > plan.duration {
            anyhow::bail!(
                "{} begins before it ends, and ends with the plan at the latest",
                window.fault.kind
            );
        }
    }
    Ok(())
}
