//! Each machine against a naive one that is written in the obvious way: lists of moments, and loops over them.
//!
//! Windows are cut into ten buckets, so an event is forgotten at an age between nine tenths and all of the
//! window. The oracles know the buckets and are compared exactly; `window` checks that bound by itself.

mod breaker;
mod budget;
mod bulkhead;
mod endpoints;
mod first;
mod gate;
mod guard;
mod latency;
mod shed;
mod throttle;
mod time;
mod window;
