use std::fs;

use serde::{Deserialize, Serialize};

/// What a run ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that this program may use.
    pub cores: usize,
    /// The processor's name for itself.
    pub processor: String,
    /// Memory in gigabytes.
    pub memory_gb: f64,
    /// The kernel's release.
    pub kernel: String,
    /// Tasks that ran or wanted to, over the last minute: above the number of cores others were waiting too.
    pub load_average: f64,
    /// `release` or `debug`.
    pub build: String,
    /// The program's version.
    pub version: String,
}

impl Machine {
    /// As it is now. What the system does not tell stays empty.
    #[must_use]
    pub fn now() -> Self {
        let line = |path: &str, key: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let kilobytes: f64 = line("/proc/meminfo", "MemTotal")
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: line("/proc/cpuinfo", "model name"),
            memory_gb: (kilobytes / 1e5).round() / 10.0,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            load_average: load
                .split(' ')
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or_default(),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            }
            .to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cores={} processor=\"{}\" memory={}GB kernel={} load={} build={} version={}",
            self.cores,
            self.processor,
            self.memory_gb,
            self.kernel,
            self.load_average,
            self.build,
            self.version
        )
    }
}
