//! The model checker from outside.

mod agreement;
mod jobs;
mod language;
mod robust;
