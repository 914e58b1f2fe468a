//! Speed: ours and others in one run, so that only ratios are compared.

pub(crate) mod library;
pub(crate) mod simulator;
pub(crate) mod store;
