//! CloudWatch and AWS as far as they need nobody to answer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod configuration;
