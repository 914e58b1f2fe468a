use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, http, need, wait};

/// A Prometheus of its own: one folder, one port of the loopback interface.
#[derive(Debug)]
pub struct Prometheus {
    // Held for its removal.
    _folder: TempDir,
    port: u16,
    process: Process,
}

impl Prometheus {
    /// Starts one with the text of its configuration, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When Prometheus is there and does not come up, with what it said.
    #[must_use]
    pub fn start(configuration: &str) -> Self {
        let program = need("prometheus");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        std::fs::write(path.join("prometheus.yaml"), configuration).expect("a temporary file");
        // Another process may take the free port first.
        for _ in 0..3 {
            let port = free_port();
            let mut process = launch(&program, path, port);
            let mut gone = false;
            if wait::until(Duration::from_secs(60), || {
                gone = !process.runs();
                gone || http::status(port, "/-/ready") == Some(200)
            }) && !gone
            {
                return Self {
                    _folder: folder,
                    port,
                    process,
                };
            }
        }
        panic!(
            "prometheus does not come up on loopback:\n{}",
            std::fs::read_to_string(path.join("log")).unwrap_or_default()
        );
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process, to pause, stop or kill.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn launch(program: &Path, folder: &Path, port: u16) -> Process {
    let log = std::fs::File::create(folder.join("log")).expect("a temporary file");
    let mut command = Command::new(program);
    command
        .arg(format!(
            "--config.file={}",
            folder.join("prometheus.yaml").display()
        ))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(log);
    Process::start(command).expect("prometheus starts")
}
