//! The proof of the machines, through their public face.
//!
//! - `replace` swaps policies under calls that are under way.

mod replace;
mod support;
