//! The laboratory from outside: real services over loopback, on embedded databases.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod configurations;
mod effects;
mod faults;
mod hostile;
mod outside;
mod storm;
mod support;
mod traces;
