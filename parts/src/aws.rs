//! Implementations of Amazon's APIs.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, need, wait};

/// Which implementation of Amazon's APIs. Neither is Amazon's: see each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwsKind {
    /// `moto`: Lambda configuration without a revision check, SSM; no deployments of AppConfig.
    Moto,
    /// `ministack`: all of AppConfig, revision checks, quantiles of CloudWatch, and functions that really run.
    Ministack,
}

impl fmt::Display for AwsKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Moto => "moto_server",
            Self::Ministack => "ministack",
        })
    }
}

/// An implementation of Amazon's APIs of its own: one folder, one port of the loopback interface, and credentials that
/// it takes.
#[derive(Debug)]
pub struct Aws {
    folder: TempDir,
    port: u16,
    process: Process,
}

impl Aws {
    /// Starts one, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When it is there and does not come up, with what it said.
    #[must_use]
    pub fn start(kind: AwsKind) -> Self {
        let program = need(&kind.to_string());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        // Another process may take the free port first.
        for _ in 0..3 {
            let port = free_port();
            let mut process = launch(kind, &program, path, port);
            let mut gone = false;
            // Both are Python programs with hundreds of modules.
            if wait::until(Duration::from_secs(180), || {
                gone = !process.runs();
                gone || wait::answers(port, Duration::ZERO)
            }) && !gone
            {
                return Self {
                    folder,
                    port,
                    process,
                };
            }
        }
        panic!(
            "{kind} does not come up on loopback:\n{}",
            std::fs::read_to_string(path.join("log")).unwrap_or_default()
        );
    }

    /// One for all tests that run at the same time; each has an account or a region of its own. Started by the first,
    /// ended by the last.
    ///
    /// # Panics
    /// As [`Aws::start`].
    #[must_use]
    pub fn shared(kind: AwsKind) -> Arc<Self> {
        static SHARED: [Mutex<Weak<Aws>>; 2] = [Mutex::new(Weak::new()), Mutex::new(Weak::new())];
        let place = usize::from(kind == AwsKind::Ministack);
        // A test that failed while it started one has left nothing behind.
        let mut shared = SHARED[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::start(kind));
        *shared = Arc::downgrade(&started);
        started
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A file with credentials of this account, as Amazon's own tools read them. `ministack` takes the key for the
    /// account, and keeps accounts apart; `moto` does not look at it.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn credentials(&self, account: u32) -> String {
        let path = self.folder.path().join(format!("credentials-{account}"));
        let text = format!("[default]\naws_access_key_id = {account:012}\naws_secret_access_key = test\n");
        std::fs::write(&path, text).expect("a temporary file");
        path.to_string_lossy().into_owned()
    }

    /// What it has said so far, for a test that fails.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The process, to pause, stop or kill.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn launch(kind: AwsKind, program: &Path, folder: &Path, port: u16) -> Process {
    let log = std::fs::File::create(folder.join("log")).expect("a temporary file");
    let mut command = Command::new(program);
    match kind {
        AwsKind::Moto => {
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        }
        AwsKind::Ministack => {
            // It binds every interface unless told otherwise.
            command
                .env("BIND_HOST", "127.0.0.1")
                .env("GATEWAY_PORT", port.to_string())
                .env("TMPDIR", folder);
        }
    }
    let also = log.try_clone().expect("a temporary file");
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also);
    Process::start(command).expect("it starts")
}
