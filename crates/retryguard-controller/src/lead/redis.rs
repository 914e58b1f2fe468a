//! A lock in Redis.
