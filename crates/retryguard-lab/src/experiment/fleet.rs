//! Five processes on PostgreSQL and Redis, started by a run and ended by their ids.

use std::{
    collections::BTreeMap,
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::{
    Settings, clock,
    counts::Reading,
    database::{Effects, Postgres},
    faults::Fault,
    name::Name,
    settings::Real,
};

/// How long a process may take until it answers.
const READY: Duration = Duration::from_secs(90);

/// How long an answer of the admin interface may take.
const ANSWER: Duration = Duration::from_secs(60);

/// Schemas of fleets that were given up, with the address of their server.
static LEFT: Mutex<Vec<Real>> = Mutex::new(Vec::new());

fn left() -> MutexGuard<'static, Vec<Real>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the schemas of fleets that were dropped without being stopped.
///
/// # Errors
/// Where the server cannot be reached.
pub(super) async fn remove_left() -> anyhow::Result<()> {
    let left = std::mem::take(&mut *left());
    for real in left {
        Postgres::remove(&real.postgres, &real.schema).await?;
    }
    Ok(())
}

/// The processes of a system.
pub struct Fleet {
    program: PathBuf,
    settings: Settings,
    real: Real,
    token: String,
    addresses: BTreeMap<Name, SocketAddr>,
    processes: BTreeMap<Name, Process>,
    client: Client<HttpConnector, Full<Bytes>>,
    /// The policy's file, and what the processes say on their standard error.
    folder: tempfile::TempDir,
    is_removed: bool,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if !self.is_removed {
            left().push(self.real.clone());
        }
    }
}

/// Killed when dropped, and waited for.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Fleet {
    /// Starts the five processes of a program (`retryguard`) on a schema of their own, and waits until all answer.
    ///
    /// # Errors
    /// Where a process does not come up, with what it said.
    pub async fn start(
        program: &Path,
        settings: Settings,
        postgres: &str,
        redis: &str,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("retryguard-lab-")
            .tempdir()
            .context("cannot make a temporary folder for the policy")?;
        std::fs::write(folder.path().join("policy.yaml"), &settings.policy)?;
        let unique = clock::wall_nanos() ^ u64::from(std::process::id());
        let mut fleet = Self {
            program: program.to_owned(),
            real: Real {
                postgres: postgres.to_owned(),
                redis: redis.to_owned(),
                schema: format!("lab_{unique:016x}"),
            },
            token: crate::system::token().to_string(),
            settings,
            addresses: BTreeMap::new(),
            processes: BTreeMap::new(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            folder,
            is_removed: false,
        };
        fleet.addresses = free_addresses()?;
        for name in Name::ALL {
            fleet.launch(name)?;
        }
        for name in Name::ALL {
            fleet.wait_for(name).await?;
        }
        Ok(fleet)
    }

    /// Where a service listens.
    ///
    /// # Panics
    /// Never: every service has an address.
    #[must_use]
    pub fn address(&self, name: Name) -> SocketAddr {
        self.addresses[&name]
    }

    /// What it was started with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Kills a service where it stands.
    pub fn kill(&mut self, name: Name) {
        drop(self.processes.remove(&name));
    }

    /// Starts a killed service again on the same port, and waits until it answers.
    ///
    /// # Errors
    /// Where it does not come up.
    pub async fn restart(&mut self, name: Name) -> anyhow::Result<()> {
        self.kill(name);
        self.launch(name)?;
        self.wait_for(name).await
    }

    fn launch(&mut self, name: Name) -> anyhow::Result<()> {
        let settings = &self.settings;
        let mut command = Command::new(&self.program);
        command
            .args(["lab", "serve", "--quiet", "--with-parent", "--stores", "real"])
            .args(["--service", name.as_str()])
            .args(["--postgres", &self.real.postgres, "--redis", &self.real.redis])
            .args(["--schema", &self.real.schema])
            .arg("--policy")
            .arg(self.folder.path().join("policy.yaml"))
            .args(["--time-scale", &settings.scale.factor().to_string()])
            .args(["--seed", &settings.seed.to_string()])
            .args(["--workers", &settings.payments.workers.to_string()])
            .args(["--queue", &settings.payments.queue.to_string()])
            .env("RETRYGUARD_LAB_TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(self.said(name))?);
        for (known, address) in &self.addresses {
            command.args(["--address", &format!("{known}={address}")]);
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        self.processes.insert(name, Process(child));
        Ok(())
    }

    fn said(&self, name: Name) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    async fn wait_for(&mut self, name: Name) -> anyhow::Result<()> {
        let end = clock::now() + READY;
        loop {
            if let Ok((StatusCode::OK, _)) = self.ask(name, Method::GET, "/healthz", None).await {
                return Ok(());
            }
            let ended = match self.processes.get_mut(&name) {
                Some(process) => process.0.try_wait()?.is_some(),
                None => true,
            };
            if ended || clock::now() > end {
                let said = std::fs::read_to_string(self.said(name)).unwrap_or_default();
                let said: String = said.chars().take(2000).collect();
                anyhow::bail!("{name} does not come up: {}", said.trim());
            }
            clock::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What all of them have counted. A process that does not answer, because it was killed, has counted nothing.
    pub async fn reading(&self, with_latency: bool) -> Reading {
        let path = if with_latency {
            "/admin/counts?latency"
        } else {
            "/admin/counts"
        };
        let ask = |name: Name| async move {
            let reading = match self.ask(name, Method::GET, path, None).await {
                Ok((StatusCode::OK, body)) => serde_json::from_slice::<Reading>(&body).unwrap_or_default(),
                _ => Reading::default(),
            };
            (name, reading)
        };
        // At once: a reading is of one moment.
        let (gateway, orders, payments, inventory, notifications) = tokio::join!(
            ask(Name::Gateway),
            ask(Name::Orders),
            ask(Name::Payments),
            ask(Name::Inventory),
            ask(Name::Notifications)
        );
        Reading::joined([gateway, orders, payments, inventory, notifications])
    }

    /// Starts a fault, or ends it.
    ///
    /// # Errors
    /// Where the service does not answer.
    pub async fn set(&self, fault: &Fault, broken: bool) -> anyhow::Result<()> {
        let (method, path, body) = if broken {
            let body = serde_json::to_vec(fault)?;
            (Method::POST, "/admin/faults".to_owned(), Some(body))
        } else {
            (Method::DELETE, format!("/admin/faults/{}", fault.kind), None)
        };
        let (status, body) = self.ask(fault.service, method, &path, body).await?;
        if !status.is_success() {
            anyhow::bail!(
                "{} answered {status}: {}",
                fault.service,
                String::from_utf8_lossy(&body)
            );
        }
        Ok(())
    }

    async fn ask(
        &self,
        name: Name,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address(name)))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        let answer = async {
            let response = self.client.request(request).await?;
            let status = response.status();
            anyhow::Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        tokio::time::timeout(ANSWER, answer)
            .await
            .with_context(|| format!("{name} does not answer"))?
    }

    /// What the database holds.
    ///
    /// # Errors
    /// Where it does not answer.
    pub async fn effects(&self) -> anyhow::Result<Effects> {
        Postgres::effects(&self.real.postgres, &self.real.schema).await
    }

    /// Ends the processes and removes their schema.
    ///
    /// # Errors
    /// Where the database does not answer.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.processes.clear();
        Postgres::remove(&self.real.postgres, &self.real.schema).await?;
        self.is_removed = true;
        Ok(())
    }
}

/// Ports that were free a moment ago. They are all held before the first is given back, so that no two are the same.
fn free_addresses() -> anyhow::Result<BTreeMap<Name, SocketAddr>> {
    let held: Vec<(Name, TcpListener)> = Name::ALL
        .into_iter()
        .map(|name| Ok((name, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)))
        .collect::<std::io::Result<_>>()?;
    held.iter()
        .map(|(name, listener)| Ok((*name, listener.local_addr()?)))
        .collect()
}
