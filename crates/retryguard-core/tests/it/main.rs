//! The proof of the machines, through their public face.
//!
//! - `exhaustive` walks every order of events and every chance on small bounds.
//! - `oracles` compares each machine with a naive one.
//! - `jitter` checks draws as distributions.
//! - `known_mistakes` has a test for each mistake that users of other libraries run into.
//! - `memory` bounds the bytes of a target.
//! - `order` pins the documented order of decisions and what a refusal leaves unspent.
//! - `replace` swaps policies under calls that are under way.

mod exhaustive;
mod jitter;
mod known_mistakes;
mod measuring;
mod memory;
mod oracles;
mod order;
mod replace;
mod support;
