use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
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
    /// Starts one, or says why not (see [`need`]).
    ///
    /// # Panics
    /// When it is there and does not come up, with what it said.
    #[must_use]
    pub fn start(kind: AwsKind) -> Option<Self> {
        let program = need(&kind.to_string())?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        std::fs::write(
            path.join("credentials"),
            "[default]\naws_access_key_id = test\naws_secret_access_key = test\n",
        )
        .expect("a temporary file");
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
                return Some(Self {
                    folder,
                    port,
                    process,
                });
            }
        }
        panic!(
            "{kind} does not come up on loopback:\n{}",
            std::fs::read_to_string(path.join("log")).unwrap_or_default()
        );
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A file with credentials, as Amazon's own tools read them.
    #[must_use]
    pub fn credentials(&self) -> String {
        self.folder
            .path()
            .join("credentials")
            .to_string_lossy()
            .into_owned()
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
