//! What we hold of a VirtualService, kept in an annotation of the object itself: the controller after a
//! controller that was killed finds there what to give back.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::adapters::actuator::routes::block::Block;
use crate::adapters::actuator::routes::route::Route;
use crate::adapters::actuator::stored_state::StoredState;
use crate::domain::state::RetryState;

/// The annotation's key.
pub(super) const ANNOTATION: &str = "retryguard.io/held";

/// The most bytes that the annotation may have. Kubernetes allows an object 256 KiB of annotations in all,
/// and the user's own must keep their place.
pub(super) const MOST_BYTES: usize = 64 * 1024;

/// The form that this version writes.
const FORM: u32 = 1;

/// Everything that we hold of one VirtualService.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    form: u32,
    /// Whether we made the whole object.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) created: bool,
    pub(super) routes: Vec<Kept>,
}

/// One route whose retries we have changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) index: usize,
    pub(super) print: String,
    /// The user's own block. The key is missing where there was none, which is Istio's default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub(super) original: Block,
    /// What we wrote last. Where something else stands now, the user has changed it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub(super) ours: Block,
    /// The user has changed the block while we held it: it is left alone until all desired states are over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) yielded: bool,
    /// What each target wants of this route. A route can send to several; the strictest desired state decides.
    #[serde(rename = "wishes")]
    pub(super) desired_states: BTreeMap<String, StoredState>,
}

/// How much a desired state lets through: the least is the strictest.
fn lets(desired: StoredState) -> u64 {
    match desired {
        StoredState::Off => 0,
        StoredState::Part { billionths, .. } => billionths.max(1),
    }
}

impl Record {
    pub(super) fn new(created: bool, routes: Vec<Kept>) -> Self {
        Self {
            form: FORM,
            created,
            routes,
        }
    }

    /// From the annotations of an object; `None` where there is nothing of ours.
    ///
    /// # Errors
    /// When the annotation is there and is not what we write: what was the user's configuration cannot be
    /// told any more, so a person must look.
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, String> {
        let Some(text) = annotations.get(ANNOTATION) else {
            return Ok(None);
        };
        if text.len() > MOST_BYTES {
            return Err(format!(
                "the annotation {ANNOTATION} has {} bytes, more than we write",
                text.len()
            ));
        }
        let held: Self = serde_json::from_str(text).map_err(|error| {
            format!(
                "the annotation {ANNOTATION} is not what we wrote ({error}): set the route's retries by hand and remove it"
            )
        })?;
        if held.form != FORM {
            return Err(format!(
                "the annotation {ANNOTATION} has form {}, and this version knows form {FORM}: use the version that wrote it",
                held.form
            ));
        }
        Ok(Some(held))
    }

    /// The annotation's text.
    ///
    /// # Errors
    /// When the user's blocks are too large to be kept.
    pub(super) fn write(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        if text.len() > MOST_BYTES {
            return Err(format!(
                "to keep its retries would take {} bytes of annotations, more than {MOST_BYTES}",
                text.len()
            ));
        }
        Ok(text)
    }
}

impl Kept {
    pub(super) fn strictest(&self) -> Option<RetryState> {
        self.desired_states
            .values()
            .min_by_key(|desired| lets(**desired))
            .map(|desired| desired.desired())
    }
}

/// Where each held route stands now; `None` for those that are gone.
///
/// The user may have moved, renamed and changed routes meanwhile. The surest sign is taken first: the same
/// name and content, the same name, the same content, the same place with our own block still in it, and last our own
/// block wherever it is: a route that was renamed, edited and moved all at once must not stay off. A route that the user
/// wrote with a block just like ours, in the place of one that is gone, is then taken for that one.
/// No route is given out twice.
pub(super) fn locate(held: &[Kept], routes: &[Route<'_>]) -> Vec<Option<usize>> {
    type Sign = fn(&Kept, usize, Route<'_>, &str) -> bool;
    let signs: [Sign; 5] = [
        |held, _, route, print| held.name.as_deref() == route.name() && held.print == print,
        |held, _, route, _| held.name.is_some() && held.name.as_deref() == route.name(),
        |held, _, _, print| held.print == print,
        |held, index, route, _| held.index == index && held.ours.as_ref() == route.retries(),
        |held, _, route, _| held.ours.is_some() && held.ours.as_ref() == route.retries(),
    ];
    let prints: Vec<String> = routes.iter().map(|route| route.print()).collect();
    let mut places: Vec<Option<usize>> = vec![None; held.len()];
    let mut taken = vec![false; routes.len()];
    for sign in signs {
        for (place, held) in places.iter_mut().zip(held).filter(|(place, _)| place.is_none()) {
            // Among routes that look alike, the one in the old place is the likeliest.
            let alike = |index: usize| !taken[index] && sign(held, index, routes[index], &prints[index]);
            let found = Some(held.index)
                .filter(|index| *index < routes.len() && alike(*index))
                .or_else(|| (0..routes.len()).find(|index| alike(*index)));
            if let Some(index) = found {
                taken[index] = true;
                *place = Some(index);
            }
        }
    }
    places
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// A key that is there is a block, be it `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Block, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
