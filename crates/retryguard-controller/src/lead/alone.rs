//! One controller, and nobody to ask.

use std::time::Duration;

use super::{Lead, Standing, Verdict};

/// Always leads.
#[derive(Debug, Default)]
pub struct Alone;

impl Lead for Alone {
    fn name(&self) -> &'static str {
        "alone"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn ask(&mut self) -> Verdict<'_, Standing> {
        Box::pin(std::future::ready(Ok(Standing::Leading {
            term: 1,
            lasts: Duration::MAX,
        })))
    }

    fn resign(&mut self) -> Verdict<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
