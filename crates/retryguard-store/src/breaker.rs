//! Shared breaker state: replicas agree that a target is open.
