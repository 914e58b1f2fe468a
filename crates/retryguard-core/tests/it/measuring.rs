//! Guard, limit and breaker that follow what becomes of attempts.

mod limit;
mod recovery;
mod response;
