use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, http, need, wait};

/// The ports of the loopback interface that an [`Envoy`]'s bootstrap shall name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvoyPorts {
    /// For `admin.address`.
    pub admin: u16,
    /// For the listener that clients talk to.
    pub listener: u16,
}

/// An Envoy of its own: one worker, no hot restart (so that no two of them meet in shared memory), one folder.
#[derive(Debug)]
pub struct Envoy {
    program: PathBuf,
    folder: TempDir,
    ports: EnvoyPorts,
    process: Process,
}

impl Envoy {
    /// Starts one from the bootstrap that `bootstrap` writes for the ports it is given, or says why not
    /// (see [`need`]).
    ///
    /// # Panics
    /// When Envoy is there and does not come up, with what it said.
    #[must_use]
    pub fn start(bootstrap: impl Fn(EnvoyPorts) -> String) -> Self {
        let program = need("envoy");
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Another process may take a free port first.
        for _ in 0..3 {
            let ports = EnvoyPorts {
                admin: free_port(),
                listener: free_port(),
            };
            std::fs::write(folder.path().join("bootstrap.yaml"), bootstrap(ports)).expect("a temporary file");
            let mut process = launch(&program, folder.path());
            if ready(ports, &mut process) {
                return Self {
                    program,
                    folder,
                    ports,
                    process,
                };
            }
        }
        panic!("envoy does not come up on loopback:\n{}", said(folder.path()));
    }

    /// Where it listens.
    #[must_use]
    pub fn ports(&self) -> EnvoyPorts {
        self.ports
    }

    /// The address of its administration endpoint.
    #[must_use]
    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.admin)
    }

    /// The address that clients talk to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.listener)
    }

    /// The process, to pause, stop or kill.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What it has logged since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        said(self.folder.path())
    }

    /// Kills it and starts it anew on the same ports with the same bootstrap; it comes back with nothing else.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.program, self.folder.path());
        assert!(
            ready(self.ports, &mut self.process),
            "envoy does not come up again:\n{}",
            said(self.folder.path())
        );
    }
}

fn launch(program: &Path, folder: &Path) -> Process {
    let log = std::fs::File::create(folder.join("log")).expect("a temporary file");
    let mut command = Command::new(program);
    command
        .args([
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "-c",
        ])
        .arg(folder.join("bootstrap.yaml"))
        .stdout(Stdio::null())
        .stderr(log);
    Process::start(command).expect("envoy starts")
}

/// Envoy answers 503 until its first configuration has come or its wait for it has ended.
fn ready(ports: EnvoyPorts, process: &mut Process) -> bool {
    let mut gone = false;
    wait::until(Duration::from_secs(60), || {
        gone = !process.runs();
        gone || http::status(ports.admin, "/ready") == Some(200)
    }) && !gone
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}
