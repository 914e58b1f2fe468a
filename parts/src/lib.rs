//! Real servers for tests: found on this machine, started on free ports in folders of their own, stopped by
//! their id. Besides, the comparison of generated files with the committed ones.
//!
//! `cargo xtask test` installs every part and says in the environment where it is; a part that is on the
//! `PATH` is found without that. A test that needs one is ignored, with the part as the reason, and panics where it is run
//! without the part:
//!
//! ```no_run
//! # mod tests {
//! #[test]
//! #[ignore = "needs Redis"]
//! fn a_key_is_kept() {
//!     let redis = retryguard_parts::Redis::start();
//!     println!("{}", redis.url());
//! }
//! # }
//! # fn main() {}
//! ```
//!
//! Plain `cargo test` reports such a test as ignored. `cargo xtask test` runs `cargo test -- --include-ignored`, so a missing
//! part fails the run.

mod aws;
mod chromium;
mod envoy;
mod haproxy;
mod http;
mod kubernetes;
mod pages;
mod port;
mod postgres;
mod process;
mod prometheus;
mod redis;
pub mod storm;
mod wait;

use std::path::PathBuf;

pub use aws::{Aws, AwsKind};
pub use chromium::{Chromium, key};
pub use envoy::{Envoy, EnvoyPorts};
pub use haproxy::{Haproxy, HaproxyPlaces};
pub use http::status;
pub use kubernetes::Kubernetes;
pub use pages::{committed, root};
pub use port::free_port;
pub use postgres::Postgres;
pub use process::Process;
pub use prometheus::Prometheus;
pub use redis::{Redis, RedisCluster};
pub use wait::{answers, until};

/// Where a program is: the variable `RETRYGUARD_PART_<NAME>` or the `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let variable = format!(
        "RETRYGUARD_PART_{}",
        program.to_uppercase().replace(['-', '.'], "_")
    );
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        return Some(path);
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// As [`find`], for what cannot go on without it.
///
/// # Panics
/// Where the program is not on this machine.
#[must_use]
pub fn need(program: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("`{program}` is not on this machine; `cargo xtask test` installs it and runs the tests that need it")
    })
}
