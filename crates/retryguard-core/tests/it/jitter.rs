//! Draws as distributions: mean, variance and shape, with a fixed seed, so that a failure is a change of the
//! code and not of luck.

mod backoff;
mod schedule;
mod statistics;
mod waits;
