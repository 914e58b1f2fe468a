//! The library against scripted services under paused time, and against real ones over loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod bodies;
mod endpoints;
mod features;
mod grpc;
mod known_mistakes;
mod layers;
mod names;
mod paused;
mod remote;
mod server;
mod stacks;
mod storm;
mod support;
mod telemetry;
mod tls;
