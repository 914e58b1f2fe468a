//! A Kubernetes Lease.
