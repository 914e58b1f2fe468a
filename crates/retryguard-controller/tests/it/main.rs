//! The controller from the outside.
