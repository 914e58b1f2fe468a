//! The controller from the outside.

#[cfg(feature = "kubernetes")]
mod kubernetes;
