use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, need, wait};

/// A Redis server of its own: no persistence, one folder, one port of the loopback interface.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    process: Process,
}

impl Redis {
    /// Starts one, or says why not (see [`need`]).
    ///
    /// # Panics
    /// When the server is there and does not come up.
    #[must_use]
    pub fn start() -> Option<Self> {
        let program = need("redis-server")?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Another process may take the free port first.
        for _ in 0..5 {
            let port = free_port();
            let mut process = launch(&program, &folder, port);
            if wait::answers(port, Duration::from_secs(20)) && process.runs() {
                return Some(Self {
                    program,
                    folder,
                    port,
                    process,
                });
            }
        }
        panic!("redis-server does not come up on loopback");
    }

    /// Its address as clients want it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The process, to pause, stop or kill.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Holds it still: connections stay open, nothing answers.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets it go on after [`Redis::pause`].
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Starts it anew on the same port after it was stopped or killed; it comes back empty.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.program, &self.folder, self.port);
        assert!(
            wait::answers(self.port, Duration::from_secs(20)),
            "redis-server does not come up again"
        );
    }
}

fn launch(program: &PathBuf, folder: &TempDir, port: u16) -> Process {
    let mut command = Command::new(program);
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--port", &port.to_string(), "--dir"])
        .arg(folder.path())
        .stdout(Stdio::null());
    Process::start(command).expect("redis-server starts")
}
