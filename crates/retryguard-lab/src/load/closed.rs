//! Closed load: users who wait for an answer and think before the next order. Under a `gateway_overload` their
//! number rises to 500 over the first third of it, and they hardly think.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use super::driver::Inner;
use crate::{chance::SharedRandom, clock, faults::Kind};

/// The users of the spike.
const SPIKE: usize = 500;

/// How long they think.
const SPIKE_THINK: Duration = Duration::from_millis(100);

/// A user's stay, from the start of the load.
struct UserSession {
    from: Duration,
    until: Duration,
    think: (Duration, Duration),
}

pub(super) async fn run(
    inner: &Arc<Inner>,
    start: clock::Instant,
    users: usize,
    think: (Duration, Duration),
) {
    let numbers = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for (user, stay) in stays(inner, users, think).into_iter().enumerate() {
        let (inner, numbers) = (inner.clone(), numbers.clone());
        tasks.spawn(async move { live(&inner, start, user, &stay, &numbers).await });
    }
    while tasks.join_next().await.is_some() {}
}

fn stays(inner: &Inner, users: usize, think: (Duration, Duration)) -> Vec<UserSession> {
    let mut stays: Vec<UserSession> = (0..users)
        .map(|_| UserSession {
            from: Duration::ZERO,
            until: inner.plan.duration,
            think,
        })
        .collect();
    if let Some(window) = inner.plan.window(Kind::GatewayOverload) {
        let more = SPIKE.saturating_sub(users);
        let rise = (window.until - window.from) / 3;
        stays.extend((0..more).map(|user| UserSession {
            from: window.from + rise.mul_f64(user as f64 / more.max(1) as f64),
            until: window.until,
            think: (SPIKE_THINK, SPIKE_THINK),
        }));
    }
    stays
}

async fn live(inner: &Inner, start: clock::Instant, user: usize, stay: &UserSession, numbers: &AtomicU64) {
    let dice = SharedRandom::new(inner.seed, &format!("user {user}"));
    let thought = || {
        let (least, most) = stay.think;
        inner.span(least + (most - least).mul_f64(dice.unit()))
    };
    let end = start + inner.span(stay.until);
    // Users do not come in step.
    let mut next = start + inner.span(stay.from) + thought();
    while next < end {
        clock::sleep_until(next).await;
        inner
            .place(start, next, numbers.fetch_add(1, Ordering::Relaxed))
            .await;
        // A user thinks after the answer; so the next order is meant for then and never late by waiting.
        next = clock::now() + thought();
    }
}
