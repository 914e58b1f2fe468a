//! One controller, without an election.

use std::time::Duration;

use crate::reconcile::election::{ElectionAnswer, LeaderElection, Leadership};

/// Always leads.
#[derive(Debug, Default)]
pub struct SingleInstance;

impl LeaderElection for SingleInstance {
    fn name(&self) -> &'static str {
        "none"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn ask(&mut self, _asks: bool) {}

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        Box::pin(std::future::ready(Ok(Leadership::Leader {
            term: 1,
            lasts: Duration::MAX,
            asked_by: None,
        })))
    }

    fn hand_over<'a>(&'a mut self, _to: &'a str) -> ElectionAnswer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn resign(&mut self) -> ElectionAnswer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
