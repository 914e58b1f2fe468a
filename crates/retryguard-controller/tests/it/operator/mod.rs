//! What an operator writes and sees.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod configuration;
mod guides;
mod policies;
mod port;
mod replay;
mod secrets;
mod soak;
