//! The proof of the machines, through their public face.
//!
//! - `exhaustive` walks every order of events and every chance on small bounds.
//! - `replace` swaps policies under calls that are under way.

mod exhaustive;
mod replace;
mod support;
