//! The one place that sleeps and reads the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "waiting for another process to come up needs the real clock"
)]

use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Asks again and again until the answer is yes; false when it did not come within `limit`.
pub fn until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if ready() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
}

/// Waits until a server accepts connections on this port of the loopback interface.
#[must_use]
pub fn answers(port: u16, limit: Duration) -> bool {
    until(limit, || TcpStream::connect(("127.0.0.1", port)).is_ok())
}
