//! The store's tests on real backends.
