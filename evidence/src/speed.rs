//! Speed: ours and others in one run, so that only ratios are compared.

mod guarded;
pub(crate) mod library;
mod programs;
pub(crate) mod simulator;
pub(crate) mod store;
