//! The one module that reads the clock.

use std::time::Instant;

#[inline]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
