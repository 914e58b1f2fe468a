//! The event kernel: what happens next, and places for what is under way.

mod queue;
mod slab;

pub use queue::Queue;
pub use slab::{HANDLE_BITS, Handle, Slab};
