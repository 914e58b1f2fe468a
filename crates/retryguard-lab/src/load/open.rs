//! Open load: orders come at moments that were drawn beforehand. One that is sent late, or answered late, is late
//! from the moment at which it was to be sent.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::driver::{Inner, MOST_UNDER_WAY};
use crate::{chance::SharedRandom, clock};

pub(super) async fn run(inner: &Arc<Inner>, start: clock::Instant, rate: f64) {
    let dice = SharedRandom::new(inner.seed, "arrivals");
    let length = inner.span(inner.plan.duration);
    let mut tasks = JoinSet::new();
    let mut at = Duration::ZERO;
    for number in 0.. {
        at += dice.gap(rate);
        if at >= length {
            break;
        }
        let intended = start + at;
        clock::sleep_until(intended).await;
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= MOST_UNDER_WAY {
            inner.ledger.unsent();
            continue;
        }
        let inner = inner.clone();
        tasks.spawn(async move { inner.place(start, intended, number).await });
    }
    while tasks.join_next().await.is_some() {}
}
