//! Real servers for tests: found on this machine, started on free ports in folders of their own, stopped by
//! their id.
//!
//! `cargo xtask test` installs every part and says in the environment where it is; a part that is on the
//! `PATH` is found without that. A test asks with [`need`] and returns early when there is none:
//!
//! ```no_run
//! # fn main() {
//! let Some(redis) = retryguard_parts::Redis::start() else { return };
//! println!("{}", redis.url());
//! # }
//! ```
//!
//! Where `CI` is set, a missing part is a failure: a run that decides something never skips silently.

mod aws;
mod base64;
mod chromium;
mod envoy;
mod http;
mod kubernetes;
mod port;
mod postgres;
mod process;
mod prometheus;
mod redis;
mod wait;

use std::path::PathBuf;

pub use aws::{Aws, AwsKind};
pub use chromium::Chromium;
pub use envoy::{Envoy, EnvoyPorts};
pub use http::status;
pub use kubernetes::Kubernetes;
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

/// As [`find`], for a test that cannot run without it: prints that it is skipped, or panics where `CI` is set.
///
/// # Panics
/// Where `CI` is set and the program is not there.
#[must_use]
pub fn need(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "`{program}` is not on this machine; run `cargo xtask test`, which installs it"
        );
        eprintln!("skipped: `{program}` is not on this machine; `cargo xtask test` installs it");
    }
    found
}
