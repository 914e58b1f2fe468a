use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, need, wait};

/// A Redis server of its own: one folder, one port of the loopback interface.
#[derive(Debug)]
pub struct Redis {
    mode: Mode,
    program: PathBuf,
    folder: TempDir,
    port: u16,
    process: Process,
}

/// How a server runs.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// What it holds is gone when it ends.
    Forgetful,
    /// Every write is on the disk before it is answered.
    Durable,
    /// It keeps no keys, and watches servers that do.
    Sentinel,
}

impl Redis {
    /// Starts one without persistence, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When the server is there and does not come up.
    #[must_use]
    pub fn start() -> Self {
        Self::start_as(Mode::Forgetful)
    }

    /// Starts one that has every acknowledged write again after it was killed.
    ///
    /// # Panics
    /// As [`Redis::start`].
    #[must_use]
    pub fn start_durable() -> Self {
        Self::start_as(Mode::Durable)
    }

    /// Starts a Sentinel that watches nothing yet.
    ///
    /// # Panics
    /// As [`Redis::start`].
    #[must_use]
    pub fn start_sentinel() -> Self {
        Self::start_as(Mode::Sentinel)
    }

    fn start_as(mode: Mode) -> Self {
        let program = need("redis-server");
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Another process may take the free port first.
        for _ in 0..5 {
            let port = free_port();
            let mut process = launch(mode, &program, &folder, port);
            if wait::answers(port, Duration::from_secs(20)) && process.runs() {
                return Self {
                    mode,
                    program,
                    folder,
                    port,
                    process,
                };
            }
        }
        panic!("redis-server does not come up on loopback");
    }

    /// Its address as clients want it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Its port of the loopback interface.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
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

    /// Starts it anew on the same port after it was stopped or killed; it comes back empty unless it is durable.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = launch(self.mode, &self.program, &self.folder, self.port);
        assert!(
            wait::answers(self.port, Duration::from_secs(20)),
            "redis-server does not come up again"
        );
    }
}

fn launch(mode: Mode, program: &PathBuf, folder: &TempDir, port: u16) -> Process {
    let mut command = Command::new(program);
    match mode {
        Mode::Forgetful => command.args(["--save", "", "--appendonly", "no"]),
        Mode::Durable => command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]),
        Mode::Sentinel => {
            // A Sentinel writes what it learns into its file.
            let file = folder.path().join("sentinel.conf");
            std::fs::write(&file, "").expect("the folder is ours");
            command.arg(file).arg("--sentinel")
        }
    };
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"])
        .arg(folder.path())
        .stdout(Stdio::null());
    Process::start(command).expect("redis-server starts")
}

/// A Redis Cluster of three nodes without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    ports: Vec<u16>,
    _processes: Vec<Process>,
    _folders: Vec<TempDir>,
}

impl RedisCluster {
    /// Starts one, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When the servers are there and do not form a cluster.
    #[must_use]
    pub fn start() -> Self {
        let program = need("redis-server");
        let tool = need("redis-cli");
        // Another process may take a free port first.
        for _ in 0..5 {
            let cluster = Self::launch(&program);
            let all_answer = cluster
                .ports
                .iter()
                .all(|port| wait::answers(*port, Duration::from_secs(20)));
            if all_answer && cluster.join(&tool) {
                return cluster;
            }
        }
        panic!("three redis-servers do not form a cluster on loopback");
    }

    fn launch(program: &PathBuf) -> Self {
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let folders: Vec<_> = (0..3)
            .map(|_| tempfile::tempdir().expect("a temporary folder"))
            .collect();
        let processes = ports.iter().zip(&folders).map(|(port, folder)| {
            let mut command = Command::new(program);
            command
                .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
                .args(["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"])
                // By default 10000 above the port, which may be no port at all.
                .args(["--cluster-port", &free_port().to_string()])
                .args(["--port", &port.to_string(), "--dir"])
                .arg(folder.path())
                .stdout(Stdio::null());
            Process::start(command).expect("redis-server starts")
        });
        Self {
            _processes: processes.collect(),
            ports,
            _folders: folders,
        }
    }

    fn join(&self, tool: &PathBuf) -> bool {
        let created = Command::new(tool)
            .args(["--cluster", "create"])
            .args(self.ports.iter().map(|port| format!("127.0.0.1:{port}")))
            .args(["--cluster-yes", "--cluster-replicas", "0"])
            .stdout(Stdio::null())
            .status();
        created.is_ok_and(|status| status.success()) && self.is_whole(tool)
    }

    /// Every node knows of every slot: a node may lag behind the tool.
    fn is_whole(&self, tool: &PathBuf) -> bool {
        wait::until(Duration::from_secs(60), || {
            self.ports.iter().all(|port| {
                let info = Command::new(tool)
                    .args(["-p", &port.to_string(), "cluster", "info"])
                    .output();
                info.is_ok_and(|info| String::from_utf8_lossy(&info.stdout).contains("cluster_state:ok"))
            })
        })
    }

    /// The addresses of its nodes.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.ports
            .iter()
            .map(|port| format!("redis://127.0.0.1:{port}/"))
            .collect()
    }
}
