use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Process, free_port, need, wait};

/// The administrator's token: the server is gone with the test, and listens on loopback only.
const TOKEN: &str = "test-token";

/// A Kubernetes API server of its own with its etcd: one folder, free ports of the loopback interface, access
/// control on. There are no nodes and no controllers: objects are stored, checked and watched, nothing runs.
#[derive(Debug)]
pub struct Kubernetes {
    // The order of the fields is the order in which they end: the server before its store, the folder last.
    server: Process,
    etcd: Process,
    folder: TempDir,
    port: u16,
}

impl Kubernetes {
    /// Starts one, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When the programs are there and do not come up, with what they said.
    #[must_use]
    pub fn start() -> Self {
        let programs = [need("kube-apiserver"), need("etcd")];
        // Keys and the first question, asked over TLS.
        let (openssl, curl) = (need("openssl"), need("curl"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(&openssl, folder.path());
        // Another process may take one of the free ports first.
        for _ in 0..3 {
            if let Some((etcd, server, port)) = launch(&programs, &curl, folder.path()) {
                let started = Self {
                    server,
                    etcd,
                    folder,
                    port,
                };
                // Once: tests that share a server read the file while others ask for it.
                let _ = started.kubeconfig_for("admin", TOKEN);
                return started;
            }
        }
        let said = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        panic!(
            "the API server does not come up on loopback:\n{}\n{}",
            said("etcd.log"),
            said("server.log")
        );
    }

    /// One that all tests of a program share while at least one of them needs it: starting one costs some
    /// seconds, and a namespace each keeps tests apart.
    ///
    /// # Panics
    /// As [`Kubernetes::start`].
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Kubernetes>> = Mutex::new(Weak::new());
        // A test that failed while it started one has left nothing behind.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::start());
        *shared = Arc::downgrade(&started);
        started
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The certificate that its own is checked against.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("certificates/apiserver.crt")
    }

    /// A kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// A kubeconfig of another user, under a name of the caller's choice.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn kubeconfig_for(&self, name: &str, token: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters:\n- name: test\n  cluster:\n    server: {}\n    certificate-authority: {}\n\
             users:\n- name: {name}\n  user:\n    token: {token}\n\
             contexts:\n- name: test\n  context: {{cluster: test, user: {name}}}\n",
            self.url(),
            self.authority().display()
        );
        std::fs::write(&path, text).expect("a temporary file");
        path
    }

    /// Asks it to create what a manifest describes, without keeping it: all checks run. `path` is that of the kind, such as
    /// `/apis/batch/v1/namespaces/default/jobs`. The answer is the object as it would be stored, or what is wrong with it.
    ///
    /// # Panics
    /// When curl does not start.
    #[must_use]
    pub fn dry_run(&self, path: &str, manifest: &Path) -> String {
        self.post(&format!("{path}?dryRun=All"), manifest)
    }

    /// As [`Kubernetes::dry_run`], and keeps the object.
    ///
    /// # Panics
    /// When curl does not start.
    #[must_use]
    pub fn create(&self, path: &str, manifest: &Path) -> String {
        self.post(path, manifest)
    }

    fn post(&self, path: &str, manifest: &Path) -> String {
        let answer = Command::new(need("curl"))
            .args(["--silent", "--show-error", "--noproxy", "*", "--cacert"])
            .arg(self.authority())
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .args(["--header", "Content-Type: application/yaml"])
            .arg("--data-binary")
            .arg(format!("@{}", manifest.display()))
            .arg(format!("{}{path}", self.url()))
            .output()
            .expect("curl starts");
        String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned()
    }

    /// The API server's process, to pause or kill.
    pub fn process(&mut self) -> &mut Process {
        &mut self.server
    }

    /// The process of its store.
    pub fn etcd(&mut self) -> &mut Process {
        &mut self.etcd
    }
}

fn prepare(openssl: &Path, folder: &Path) {
    let made = Command::new(openssl)
        .args(["genrsa", "-out"])
        .arg(folder.join("accounts.key"))
        .arg("2048")
        .output()
        .expect("openssl starts");
    assert!(
        made.status.success(),
        "openssl failed: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let users = format!("{TOKEN},admin,1,\"system:masters\"\n");
    std::fs::write(folder.join("tokens.csv"), users).expect("a temporary file");
}

fn launch(programs: &[PathBuf; 2], curl: &Path, folder: &Path) -> Option<(Process, Process, u16)> {
    let [server, etcd] = programs;
    let (store, port) = (free_port(), free_port());
    let mut etcd = start_etcd(etcd, folder, store);
    if !wait::answers(store, Duration::from_secs(30)) || !etcd.runs() {
        return None;
    }
    let mut server = start_server(server, folder, store, port);
    let mut gone = false;
    let ready = wait::until(Duration::from_secs(120), || {
        gone = !server.runs();
        gone || is_ready(curl, folder, port)
    });
    (ready && !gone).then_some((etcd, server, port))
}

fn start_etcd(program: &Path, folder: &Path, port: u16) -> Process {
    let url = format!("http://127.0.0.1:{port}");
    let mut command = Command::new(program);
    command
        // A folder of its own for each try: the peers' port is written into it.
        .arg(format!(
            "--data-dir={}",
            folder.join(format!("etcd-{port}")).display()
        ))
        .args([
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
        ])
        .args(["--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync"])
        .stdout(Stdio::null())
        .stderr(log(folder, "etcd.log"));
    Process::start(command).expect("etcd starts")
}

fn start_server(program: &Path, folder: &Path, store: u16, port: u16) -> Process {
    let key = folder.join("accounts.key");
    let mut command = Command::new(program);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{store}"))
        .arg(format!("--cert-dir={}", folder.join("certificates").display()))
        .arg(format!("--secure-port={port}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg("--endpoint-reconciler-type=none")
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-signing-key-file={}", key.display()))
        .arg(format!("--service-account-key-file={}", key.display()))
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--authorization-mode=RBAC")
        .arg(format!(
            "--token-auth-file={}",
            folder.join("tokens.csv").display()
        ))
        // Its controller, which makes the accounts of new namespaces, does not run here.
        .arg("--disable-admission-plugins=ServiceAccount")
        .stdout(Stdio::null())
        .stderr(log(folder, "server.log"));
    Process::start(command).expect("the API server starts")
}

/// Whether the server is up. It says so a moment before it has made the namespace that every cluster has.
fn is_ready(curl: &Path, folder: &Path, port: u16) -> bool {
    ["/readyz", "/api/v1/namespaces/default"]
        .iter()
        .all(|path| answers(curl, folder, port, path))
}

fn answers(curl: &Path, folder: &Path, port: u16, path: &str) -> bool {
    Command::new(curl)
        .args([
            "--silent",
            "--fail",
            "--max-time",
            "5",
            "--noproxy",
            "*",
            "--cacert",
        ])
        .arg(folder.join("certificates/apiserver.crt"))
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .arg(format!("https://127.0.0.1:{port}{path}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn log(folder: &Path, name: &str) -> std::fs::File {
    std::fs::File::create(folder.join(name)).expect("a temporary file")
}
