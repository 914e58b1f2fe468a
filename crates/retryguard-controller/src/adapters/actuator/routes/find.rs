//! What the cluster holds of ours, read from the objects alone.

use std::collections::BTreeMap;

use retryguard_core::ratio::Ratio;

use crate::adapters::actuator::routes::object::RouteObject;
use crate::adapters::actuator::routes::plan::{Leadership, standing};
use crate::adapters::actuator::routes::settle::view;
use crate::adapters::actuator::routes::{Routes, block, created};
use crate::domain::state::{Found, Observed, RetryState};
use crate::domain::target::TargetName;

/// The observed state of a target of which some routes do not carry out the desired state: they are new, or the controller was
/// killed half way. Retries of such routes are on. The value differs from every desired state of a guard, so the loop writes its
/// desired state again.
const LOOSE: RetryState = RetryState::Part {
    step: 0,
    share: Ratio::ONE,
};

/// What is known of one target.
#[derive(Debug, Default)]
struct Known {
    /// The desired states of the routes that we hold.
    ours: Vec<RetryState>,
    /// The routes that were changed outside this controller.
    theirs: Vec<String>,
    /// Routes of the target that we do not hold though we hold others, or two objects where one should be.
    loose: bool,
}

impl Routes {
    pub(super) fn found(&self, objects: &[RouteObject]) -> Vec<Found> {
        let mut all: BTreeMap<TargetName, Known> = BTreeMap::new();
        for object in objects {
            let remembered = self.remembered(object);
            match standing(&view(object, remembered.as_ref())) {
                Ok(standing) => gather(&mut all, object, &standing),
                Err(reason) => tracing::warn!(object = object.title(), reason, "left alone"),
            }
        }
        for (target, known) in &mut all {
            known.loose = self.is_loose(target, objects);
        }
        all.into_iter()
            .map(|(target, known)| Found {
                target,
                held: held(known),
            })
            .collect()
    }

    /// Whether a target of which we hold something has more that we should hold.
    fn is_loose(&self, target: &TargetName, objects: &[RouteObject]) -> bool {
        let Some(host) = self.hosts.get(target) else {
            return false;
        };
        let domain = &self.scope.domain;
        let free = |object: &RouteObject| {
            let remembered = self.remembered(object);
            let view = view(object, remembered.as_ref());
            let Ok(standing) = standing(&view) else {
                return false;
            };
            standing.routes.iter().any(|(_, route, kept)| {
                let some = block::attempts(route.retries(), object.dialect(), self.scope.default_attempts)
                    .unwrap_or(0)
                    > 0;
                let carries = kept
                    .as_ref()
                    .is_some_and(|kept| kept.desired_states.contains_key(target.as_str()));
                some && !carries && route.hosts(object.namespace(), domain).contains(host)
            })
        };
        let takers = || objects.iter().filter(|object| object.takes(host, domain));
        let removable =
            |object: &RouteObject| created::is_ours(object) && created::is_as_made(&view(object, None));
        let both = takers().any(removable) && takers().any(|object| !created::is_ours(object));
        both || objects.iter().any(free)
    }
}

fn gather(all: &mut BTreeMap<TargetName, Known>, object: &RouteObject, standing: &Leadership<'_>) {
    for (index, route, kept) in &standing.routes {
        let Some(kept) = kept else { continue };
        for (target, desired) in &kept.desired_states {
            let known = all.entry(TargetName::new(target)).or_default();
            if kept.yielded {
                known
                    .theirs
                    .push(format!("{} of {}", route.title(*index), object.title()));
            } else {
                known.ours.push(desired.desired());
            }
        }
    }
}

fn held(known: Known) -> Observed {
    let Some(first) = known.ours.first() else {
        return Observed::Overridden(format!(
            "the retries of {} were changed outside this controller while they were held",
            known.theirs.join(", ")
        ));
    };
    let agreed = known.ours.iter().all(|desired| desired == first);
    Observed::Managed(if agreed && !known.loose { *first } else { LOOSE })
}
