//! What goes wrong, under paused time: each trouble with its test.

mod data;
mod flapping;
mod holding;
mod leading;
mod noticing;
mod restarting;
