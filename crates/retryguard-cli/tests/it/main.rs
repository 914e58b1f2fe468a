//! The command from the outside: what it prints, where, and how it exits.

mod fleets;
mod lint;
mod predict;
