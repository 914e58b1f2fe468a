//! From what an object is and what is wanted of it to the patch that brings the two together. Pure: it
//! is tried on objects of every shape without a cluster.
//!
//! **Precedence.** What stands in a route when we first touch it is the user's, and it comes back. A
//! block that we wrote and that has become another was changed by the user (or by a tool in the user's name):
//! that block stands, we let go of the route until the target's retries are back to normal, and the next time
//! it is the one that is kept. Everything else of a route may change at will. A route that is new while
//! retries are off, or has none of ours in it, is switched off like the others, and its own block is kept.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::adapters::actuator::routes::block;
use crate::adapters::actuator::routes::block::Block;
use crate::adapters::actuator::routes::dialect::Dialect;
use crate::adapters::actuator::routes::host::Host;
use crate::adapters::actuator::routes::record::{ANNOTATION, Kept, Record, locate};
use crate::adapters::actuator::routes::route::{Route, routes};
use crate::adapters::actuator::stored_state::StoredState;
use crate::domain::state::{Loss, RetryState};

/// An object as far as it concerns us.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) dialect: Dialect,
    pub(super) namespace: &'a str,
    pub(super) resource_version: &'a str,
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) spec: &'a Value,
    /// What this process knows that it held, for an object that has lost the annotation.
    pub(super) remembered: Option<&'a Record>,
}

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct DesiredTarget<'a> {
    pub(super) target: &'a str,
    /// `None` for a target that is no longer configured: what is held of it can only be given back.
    pub(super) host: Option<&'a Host>,
    pub(super) desired: RetryState,
    pub(super) domain: &'a str,
    /// How many retries a route without a block has.
    pub(super) default_attempts: u32,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Plan {
    /// The JSON patch; empty when everything is as wanted.
    pub(super) operations: Vec<Value>,
    /// What we hold afterwards.
    pub(super) record: Option<Record>,
    /// Whether we made the whole object.
    pub(super) created: bool,
    /// How many routes carry this target's desired state out.
    pub(super) matched: usize,
    /// Routes that the user has changed under us, by title.
    pub(super) yielded: Vec<String>,
    pub(super) losses: Vec<Loss>,
}

/// # Errors
/// When the object cannot be touched, in a sentence for the operator.
pub(super) fn plan(view: &View<'_>, wanted: &DesiredTarget<'_>) -> Result<Plan, String> {
    let standing = standing(view)?;
    let mut plan = Plan {
        created: standing.created,
        yielded: standing.yielded,
        ..Plan::default()
    };
    let mut held: Vec<Kept> = standing
        .routes
        .iter()
        .filter_map(|(_, _, kept)| kept.clone())
        .collect();
    let routes: Vec<Route<'_>> = standing.routes.iter().map(|(_, route, _)| *route).collect();
    desired(&mut held, &routes, view, wanted, &mut plan);

    let mut operations = Vec::new();
    held.retain_mut(|held| {
        let route = routes[held.index];
        let Some(strictest) = held.strictest() else {
            if !held.yielded {
                write_block(&mut operations, view.dialect, held.index, route, &held.original);
            }
            return false;
        };
        if !held.yielded {
            held.ours = block::wanted(&held.original, strictest, view.dialect, wanted.default_attempts);
            write_block(&mut operations, view.dialect, held.index, route, &held.ours);
        }
        true
    });

    // In the order of the routes, so that the same is written the same whatever came first.
    held.sort_by_key(|held| held.index);
    let record = (!held.is_empty()).then(|| Record::new(plan.created, held));
    // An annotation that was removed together with our blocks means "leave it alone": that is remembered, and
    // not written into the object again.
    let only_remembered = !standing.written
        && record
            .as_ref()
            .is_some_and(|record| record.routes.iter().all(|route| route.yielded));
    if !only_remembered {
        write_annotation(&mut operations, view, record.as_ref())?;
    }
    if !operations.is_empty() {
        // A stale version is a clean conflict. It comes first, so that nothing else is looked at before it.
        operations.insert(
            0,
            json!({"op": "replace", "path": "/metadata/resourceVersion", "value": view.resource_version}),
        );
    }
    plan.operations = operations;
    plan.record = record;
    Ok(plan)
}

/// What of ours stands in an object now.
#[derive(Debug)]
pub(super) struct Leadership<'a> {
    /// Each route with its place, and what we hold of it.
    pub(super) routes: Vec<(usize, Route<'a>, Option<Kept>)>,
    /// Whether we made the whole object.
    created: bool,
    /// Whether the object itself says so, and not our memory alone.
    written: bool,
    /// Routes that turn out to have been changed outside this controller, by title.
    yielded: Vec<String>,
}

/// # Errors
/// When the object's annotation is not what we write.
pub(super) fn standing<'a>(view: &View<'a>) -> Result<Leadership<'a>, String> {
    let written = Record::read(view.annotations)?;
    let record = written.as_ref().or(view.remembered);
    let before = record.map_or(&[][..], |record| &record.routes);
    let routes = routes(view.spec, view.dialect);
    let mut standing = Leadership {
        created: record.is_some_and(|record| record.created),
        written: written.is_some(),
        yielded: Vec::new(),
        routes: Vec::new(),
    };
    let places = locate(before, &routes);
    for (index, route) in routes.into_iter().enumerate() {
        let kept = places.iter().position(|place| *place == Some(index));
        let kept = kept.map(|number| refresh(&before[number], index, route, &mut standing.yielded));
        standing.routes.push((index, route, kept));
    }
    Ok(standing)
}

/// What we hold of a route, at its present place. One whose block is no longer ours is yielded.
fn refresh(before: &Kept, index: usize, route: Route<'_>, yielded: &mut Vec<String>) -> Kept {
    let mut kept = Kept {
        name: route.name().map(str::to_owned),
        index,
        print: route.print(),
        ..before.clone()
    };
    if !kept.yielded && kept.ours.as_ref() != route.retries() {
        kept.yielded = true;
        yielded.push(route.title(index));
    }
    if kept.yielded {
        // Neither is of use any more.
        (kept.original, kept.ours) = (None, None);
    }
    kept
}

/// Enters the target's desired state into every route that sends to it, and takes it out of every other.
fn desired(
    held: &mut Vec<Kept>,
    routes: &[Route<'_>],
    view: &View<'_>,
    wanted: &DesiredTarget<'_>,
    plan: &mut Plan,
) {
    for held in held.iter_mut() {
        held.desired_states.remove(wanted.target);
    }
    let (Some(desired), Some(host)) = (StoredState::new(wanted.desired), wanted.host) else {
        return;
    };
    for (index, route) in routes.iter().enumerate() {
        let hosts = route.hosts(view.namespace, wanted.domain);
        if !hosts.contains(host) {
            continue;
        }
        plan.matched += 1;
        let place = held.iter().position(|held| held.index == index);
        let user: Block = match place {
            Some(place) if !held[place].yielded => held[place].original.clone(),
            _ => route.block(),
        };
        let Some(all) = block::attempts(user.as_ref(), view.dialect, wanted.default_attempts) else {
            plan.losses.push(Loss(format!(
                "{} has retries of a shape that {} does not know; they are left alone",
                route.title(index),
                view.dialect.system()
            )));
            continue;
        };
        if let Some(place) = place {
            held[place]
                .desired_states
                .insert(wanted.target.to_owned(), desired);
        } else if all > 0 {
            held.push(Kept {
                name: route.name().map(str::to_owned),
                index,
                print: route.print(),
                original: route.block(),
                ours: None,
                yielded: false,
                desired_states: BTreeMap::from([(wanted.target.to_owned(), desired)]),
            });
        }
        let yielded = place.is_some_and(|place| held[place].yielded);
        plan.losses
            .extend(losses(route.title(index), all, yielded, view, wanted, &hosts));
    }
}

fn losses(
    title: String,
    all: u32,
    yielded: bool,
    view: &View<'_>,
    wanted: &DesiredTarget<'_>,
    hosts: &[Host],
) -> Vec<Loss> {
    let mut losses = Vec::new();
    if yielded {
        losses.push(Loss(format!(
            "{title} was changed outside this controller while its retries were held; it is left alone until the target is \
             back to normal"
        )));
        return losses;
    }
    if all == 0 {
        return losses;
    }
    if let RetryState::Part { share, .. } = wanted.desired {
        let part = block::part(all, share);
        losses.push(Loss(format!(
            "{title}: {} counts whole retries, so {part} of {all} stands for {:.1} %",
            view.dialect.system(),
            share.as_f64() * 100.0
        )));
    }
    let others: Vec<&str> = hosts
        .iter()
        .filter(|host| Some(*host) != wanted.host)
        .map(Host::as_str)
        .collect();
    if !others.is_empty() {
        losses.push(Loss(format!(
            "{title} also sends to {}, whose retries go with it",
            others.join(", ")
        )));
    }
    losses
}

/// Nothing where the block is as wanted already. The test makes sure that the entry is the one that was read,
/// should a server not look at the version.
fn write_block(
    operations: &mut Vec<Value>,
    dialect: Dialect,
    index: usize,
    route: Route<'_>,
    wanted: &Block,
) {
    let now = route.retries();
    if now == wanted.as_ref() {
        return;
    }
    let place = format!("/spec/{}/{index}", dialect.list());
    let path = format!("{place}/{}", dialect.retries());
    operations.push(match (route.name(), route.destinations()) {
        (Some(name), _) => json!({"op": "test", "path": format!("{place}/name"), "value": name}),
        (None, Some(route)) => {
            json!({"op": "test", "path": format!("{place}/{}", dialect.destinations()), "value": route})
        }
        // Only a route that has lost its destinations while we held it.
        (None, None) => json!({"op": "test", "path": path, "value": now}),
    });
    operations.push(match (now, wanted) {
        (_, None) => json!({"op": "remove", "path": path}),
        (None, Some(block)) => json!({"op": "add", "path": path, "value": block}),
        (Some(_), Some(block)) => json!({"op": "replace", "path": path, "value": block}),
    });
}

fn write_annotation(
    operations: &mut Vec<Value>,
    view: &View<'_>,
    kept: Option<&Record>,
) -> Result<(), String> {
    let path = format!("/metadata/annotations/{}", ANNOTATION.replace('/', "~1"));
    let now = view.annotations.get(ANNOTATION);
    match (now, kept) {
        (None, None) => {}
        // The last annotation takes the list with it, so that an object that had none has none.
        (Some(_), None) if view.annotations.len() == 1 => {
            operations.push(json!({"op": "remove", "path": "/metadata/annotations"}));
        }
        (Some(_), None) => operations.push(json!({"op": "remove", "path": path})),
        (now, Some(held)) => {
            let text = held.write()?;
            if now == Some(&text) {
                return Ok(());
            }
            if view.annotations.is_empty() {
                operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
            }
            operations.push(json!({"op": "add", "path": path, "value": text}));
        }
    }
    Ok(())
}
