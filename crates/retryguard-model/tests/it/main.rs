//! The model checker from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod agreement;
mod language;
mod limits;
mod paths;
mod properties;
mod reductions;
mod refusals;
mod robust;
mod variants;
