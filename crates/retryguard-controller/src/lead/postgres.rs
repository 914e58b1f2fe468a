//! A lock in PostgreSQL.
