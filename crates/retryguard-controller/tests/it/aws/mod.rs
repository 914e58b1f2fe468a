//! CloudWatch, Lambda, SSM and AppConfig: Amazon's own SDK against real implementations of Amazon's APIs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod appconfig;
mod cloudwatch;
mod configuration;
mod lambda;
mod ssm;
mod throttling;
mod whole;
mod world;
