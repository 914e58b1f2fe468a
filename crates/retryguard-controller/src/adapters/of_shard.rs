//! Actuators and elections of one shard.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::domain::shard::Shard;
use crate::domain::state::{Change, Found, Loss};
use crate::reconcile::actuator::{Actuator, Answer};
use crate::reconcile::election::{ElectionAnswer, LeaderElection, Leadership};

/// An actuator that does not report the targets of other shards. Without it a shard would take them for targets of a former
/// configuration and restore them.
pub(crate) struct ActuatorOfShard {
    pub(crate) inner: Arc<dyn Actuator>,
    pub(crate) shard: Shard,
}

impl Actuator for ActuatorOfShard {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(async {
            let mut found = self.inner.find().await?;
            found.retain(|found| self.shard.owns(&found.target));
            Ok(found)
        })
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        self.inner.apply(change)
    }

    fn describe(&self, change: &Change) -> String {
        self.inner.describe(change)
    }

    fn details(&self) -> Value {
        self.inner.details()
    }

    fn notice<'a>(
        &'a self,
        changed: &'a (dyn Fn() + Send + Sync),
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.inner.notice(changed)
    }

    fn stand_down(&self) {
        self.inner.stand_down();
    }
}

/// An election that is not asked in the first `wait` rounds. Each process begins with other shards, so that several processes
/// that start at once do not leave all shards to the fastest of them.
pub(crate) struct ElectionOfShard {
    pub(crate) inner: Box<dyn LeaderElection>,
    pub(crate) wait: usize,
}

impl LeaderElection for ElectionOfShard {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn every(&self) -> Duration {
        self.inner.every()
    }

    fn ask(&mut self, asks: bool) {
        self.inner.ask(asks);
    }

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        if self.wait > 0 {
            self.wait -= 1;
            return Box::pin(std::future::ready(Ok(Leadership::Follower { leader: None })));
        }
        self.inner.campaign()
    }

    fn hand_over<'a>(&'a mut self, to: &'a str) -> ElectionAnswer<'a, ()> {
        self.inner.hand_over(to)
    }

    fn resign(&mut self) -> ElectionAnswer<'_, ()> {
        self.inner.resign()
    }
}
