//! Policies over HTTP, with the decisions merged in.
