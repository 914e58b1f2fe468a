use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, getuid};
use tempfile::TempDir;

use crate::{Process, free_port, need, wait};

/// A PostgreSQL server of its own: one folder, one port of the loopback interface, user `postgres`, no password.
#[derive(Debug)]
pub struct Postgres {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    process: Process,
}

impl Postgres {
    /// Starts one, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When the server is there and does not come up.
    #[must_use]
    pub fn start() -> Self {
        // Debian keeps the server's programs off the `PATH`, under their version.
        let program = debian().unwrap_or_else(|| need("postgres"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        own(folder.path());
        let data = folder.path().join("data");
        let output = as_postgres(&program.with_file_name("initdb"))
            .args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-sync",
                "--pgdata",
            ])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(
            output.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        // Another process may take the free port first.
        for _ in 0..5 {
            let port = free_port();
            let mut process = launch(&program, folder.path(), port);
            if ready(&program, port) && process.runs() {
                return Self {
                    program,
                    folder,
                    port,
                    process,
                };
            }
        }
        panic!("postgres does not come up on loopback");
    }

    /// The address of the database that every server has.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port of the loopback interface.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster, to pause, stop or kill. Its children do the work: a paused postmaster still answers on
    /// connections that are open.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Holds the whole server still, its children included: connections stay open, nothing answers.
    pub fn pause(&self) {
        // The postmaster first, so that it starts no child that is then missed.
        self.process.pause();
        signal_all(&self.children(), Signal::SIGSTOP);
    }

    /// Lets it go on after [`Postgres::pause`].
    pub fn resume(&self) {
        signal_all(&self.children(), Signal::SIGCONT);
        self.process.resume();
    }

    /// The processes whose parent is the postmaster. They are in sessions of their own, so no signal to a
    /// group reaches them.
    fn children(&self) -> Vec<Pid> {
        let Ok(all) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let postmaster = self.process.id();
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|id| parent(*id) == Some(postmaster))
            .map(Pid::from_raw)
            .collect()
    }

    /// Stops it without waiting for its clients, which lose their connections.
    pub fn stop(&mut self) {
        self.process.interrupt(Duration::from_secs(20));
    }

    /// Starts it anew on the same port and the same data after it was stopped or killed.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn restart(&mut self) {
        self.stop();
        // Processes of a server that was killed may hold its memory for a while: a new one ends at once then.
        let up = wait::until(Duration::from_secs(60), || {
            if !self.process.runs() {
                self.process = launch(&self.program, self.folder.path(), self.port);
            }
            answers(&self.program, self.port)
        });
        assert!(up, "postgres does not come up again");
    }
}

/// Its parent's id, the fourth field; the second is a name in parentheses that may hold spaces.
fn parent(id: i32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn signal_all(ids: &[Pid], signal: Signal) {
    for id in ids {
        // Fails only when it has ended already.
        let _ = kill(*id, signal);
    }
}

fn debian() -> Option<PathBuf> {
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/postgres")))
        .filter(|path| path.is_file())
        .collect();
    versions.sort();
    versions.pop()
}

fn launch(program: &Path, folder: &Path, port: u16) -> Process {
    let mut command = as_postgres(program);
    command
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder)
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["-c", "max_connections=200", "-c", "shared_buffers=32MB"])
        .args(quick_recovery(program))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process::start(command).expect("postgres starts")
}

/// After a kill the server syncs every file of its data, which takes more than a minute on a busy disk. From version 14 on
/// one call for the whole file system does the same.
fn quick_recovery(program: &Path) -> &'static [&'static str] {
    let version: Option<u32> = program
        .ancestors()
        .find_map(|folder| folder.file_name()?.to_str()?.parse().ok());
    if version.is_some_and(|version| version >= 14) {
        &["-c", "recovery_init_sync_method=syncfs"]
    } else {
        &[]
    }
}

fn ready(program: &Path, port: u16) -> bool {
    wait::until(Duration::from_secs(60), || answers(program, port))
}

fn answers(program: &Path, port: u16) -> bool {
    Command::new(program.with_file_name("pg_isready"))
        .args(["--quiet", "--host=127.0.0.1", &format!("--port={port}")])
        .status()
        .is_ok_and(|status| status.success())
}

/// The server refuses to run as root, so root runs it as the user that its package made.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = postgres_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    // Not every folder of root may be entered by that user.
    command.current_dir("/");
    command
}

fn own(folder: &Path) {
    if let Some(user) = postgres_user() {
        chown(folder, Some(user.uid), Some(user.gid)).expect("root may give a folder away");
    }
}

fn postgres_user() -> Option<User> {
    if !getuid().is_root() {
        return None;
    }
    User::from_name("postgres").ok().flatten()
}
