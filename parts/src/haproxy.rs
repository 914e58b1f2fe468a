use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, http, need, wait};

/// What a [`Haproxy`]'s configuration shall name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaproxyPlaces {
    /// The port of the loopback interface that clients talk to.
    pub listener: u16,
    /// The port of the loopback interface for `/metrics`.
    pub metrics: u16,
    /// The path of the admin socket.
    pub socket: PathBuf,
    /// The path of an empty map.
    pub map: PathBuf,
}

/// A HAProxy of its own, in one folder.
#[derive(Debug)]
pub struct Haproxy {
    program: PathBuf,
    folder: TempDir,
    places: HaproxyPlaces,
    process: Process,
}

impl Haproxy {
    /// Starts one from the configuration that `configuration` writes for the places it is given, or says why not
    /// (see [`need`]).
    ///
    /// # Panics
    /// When HAProxy is there and does not come up, with what it said.
    #[must_use]
    pub fn start(configuration: impl Fn(&HaproxyPlaces) -> String) -> Self {
        // Debian's package puts it where only the administrator's path leads.
        let debian = PathBuf::from("/usr/sbin/haproxy");
        let program = if debian.is_file() { debian } else { need("haproxy") };
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Another process may take a free port first.
        for _ in 0..3 {
            let places = HaproxyPlaces {
                listener: free_port(),
                metrics: free_port(),
                socket: folder.path().join("admin.sock"),
                map: folder.path().join("retryguard.map"),
            };
            std::fs::write(&places.map, "").expect("a temporary file");
            let text = configuration(&places);
            std::fs::write(folder.path().join("haproxy.cfg"), text).expect("a temporary file");
            let mut process = launch(&program, folder.path());
            if ready(&places, &mut process) {
                return Self {
                    program,
                    folder,
                    places,
                    process,
                };
            }
        }
        panic!("haproxy does not come up on loopback:\n{}", said(folder.path()));
    }

    /// Where it listens.
    #[must_use]
    pub fn places(&self) -> &HaproxyPlaces {
        &self.places
    }

    /// The address that clients talk to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.places.listener)
    }

    /// The address of its metrics.
    #[must_use]
    pub fn metrics(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.places.metrics)
    }

    /// Kills it and starts it anew in the same places; it comes back with an empty map.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.program, self.folder.path());
        assert!(
            ready(&self.places, &mut self.process),
            "haproxy does not come up again:\n{}",
            said(self.folder.path())
        );
    }
}

fn launch(program: &Path, folder: &Path) -> Process {
    let log = std::fs::File::create(folder.join("log")).expect("a temporary file");
    let mut command = Command::new(program);
    command
        .args(["-db", "-f"])
        .arg(folder.join("haproxy.cfg"))
        .stdout(Stdio::null())
        .stderr(log);
    Process::start(command).expect("haproxy starts")
}

fn ready(places: &HaproxyPlaces, process: &mut Process) -> bool {
    let mut gone = false;
    wait::until(Duration::from_secs(60), || {
        gone = !process.runs();
        gone || http::status(places.metrics, "/metrics") == Some(200)
    }) && !gone
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}
