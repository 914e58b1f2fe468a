//! The policy in force and the layers that follow it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use retryguard_policy::{Diagnostics, Policy};

use super::file;
use crate::{
    RetryGuardLayer,
    for_http::{Http, HttpLayer},
    handle::WeakTarget,
    periodic::Periodic,
    server::{ServerLayer, WeakServer},
    shared::Shared,
    telemetry::{POLICY, POLICY_REFUSED},
};

/// Why a policy could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The file cannot be read.
    #[error("cannot read the policy {path}: {error}; check the path and its permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The address cannot be fetched.
    #[cfg(feature = "reqwest")]
    #[error("cannot fetch the policy: {0}; check the address and that its server runs")]
    Fetch(#[source] reqwest::Error),
    /// The address is `https`, and this build of reqwest has no TLS.
    #[cfg(feature = "reqwest")]
    #[error("the policy's address is https and {}", crate::tls::advice!())]
    NoTls,
    /// The server requires a token, or another one than it was given.
    #[cfg(feature = "reqwest")]
    #[error(
        "the policy server answered with status {0}: it requires a token, or another one; give it with `PolicyServer::token`"
    )]
    Unauthorized(u16),
    /// The token cannot be sent. It is not repeated here.
    #[cfg(feature = "reqwest")]
    #[error(
        "the policy's token is empty or has characters that a header cannot carry, such as a line end; trim what was read"
    )]
    Token,
    /// The server answered with something that is not a policy.
    #[error("the policy's server answered with status {0}; it should be 200 or 304")]
    Status(u16),
    /// The policy is larger than a policy may be.
    #[error("the policy is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The policy is empty. Read as a policy it would be all defaults; it is most often a file that is being written, or an
    /// answer that got lost.
    #[error(
        "the policy is empty; write `services: {{}}` for a policy of defaults, and replace a file by renaming another one over it"
    )]
    Empty,
    /// The text is not a policy.
    #[error("the policy is wrong:\n{0}")]
    Wrong(#[source] Diagnostics),
}

/// A policy that is kept up to date. Lives until its last clone is dropped; its layers then keep the policy
/// that they have.
#[derive(Clone)]
pub struct LivePolicy {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    source: String,
    state: Mutex<State>,
}

struct State {
    policy: Arc<Policy>,
    targets: Vec<WeakTarget>,
    servers: Vec<WeakServer>,
    periodic: Vec<(String, Weak<Periodic>)>,
}

impl LivePolicy {
    /// Loads a file and follows it. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// Where the first policy cannot be read or is wrong: a program does not start without one.
    pub fn file(path: impl Into<PathBuf>) -> Result<Self, RemoteError> {
        let path = path.into();
        let text = file::read(&path)?;
        let live = Self::start(path.display().to_string(), &text)?;
        tokio::spawn(file::follow(path, text, Arc::downgrade(&live.inner)));
        Ok(live)
    }

    /// Fetches an address and polls it, with ETag and jitter. Must be called inside a tokio runtime. For a server
    /// that requires a token, see [`PolicyServer`](super::PolicyServer).
    ///
    /// # Errors
    /// Where the first policy cannot be fetched or is wrong.
    #[cfg(feature = "reqwest")]
    pub async fn http(url: impl Into<String>) -> Result<Self, RemoteError> {
        super::PolicyServer::new(url).follow().await
    }

    #[cfg(feature = "reqwest")]
    pub(super) async fn poll(mut poller: super::http::Poller) -> Result<Self, RemoteError> {
        let text = poller.fetch().await?.ok_or(RemoteError::Status(304))?;
        let live = Self::start(poller.shown().to_owned(), &text)?;
        tokio::spawn(poller.follow(Arc::downgrade(&live.inner)));
        Ok(live)
    }

    fn start(source: String, text: &str) -> Result<Self, RemoteError> {
        let policy = parse(text)?;
        tell(&policy, 1.0);
        let state = State {
            policy,
            targets: Vec::new(),
            servers: Vec::new(),
            periodic: Vec::new(),
        };
        Ok(Self {
            inner: Arc::new(Inner {
                source,
                state: Mutex::new(state),
            }),
        })
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.lock().policy.clone()
    }

    /// A client layer that follows the policy of a service. All layers of one service share one target: what one client
    /// learns of it, all know.
    pub fn layer<P>(&self, service: &str, protocol: P) -> RetryGuardLayer<P> {
        let mut state = self.inner.lock();
        RetryGuardLayer::from_shared(state.target(service), protocol)
    }

    /// The same for HTTP and gRPC clients.
    #[must_use]
    pub fn http_layer(&self, service: &str, protocol: Http) -> HttpLayer {
        HttpLayer::from_guard(self.layer(service, protocol))
    }

    /// A server layer that follows the policy of its service.
    #[must_use]
    pub fn server(&self, service: &str) -> ServerLayer {
        let mut state = self.inner.lock();
        let layer = ServerLayer::new(&state.policy, service);
        state.servers.retain(WeakServer::is_alive);
        state.servers.push(layer.downgrade());
        layer
    }

    /// How many targets, servers and periodic works follow the policy.
    #[must_use]
    pub fn followers(&self) -> usize {
        let state = self.inner.lock();
        let targets = state.targets.iter().filter(|target| target.is_alive()).count();
        let servers = state.servers.iter().filter(|server| server.is_alive()).count();
        let periodic = state.periodic.iter().filter(|(_, it)| it.strong_count() > 0);
        targets + servers + periodic.count()
    }

    /// Periodic work that follows the period and the switched-off features of a service; `period` where the
    /// policy names none.
    #[must_use]
    pub fn periodic(&self, service: &str, period: Duration) -> Arc<Periodic> {
        let mut state = self.inner.lock();
        let periodic = Arc::new(Periodic::new(period));
        periodic.follow(&state.policy.service(service));
        state
            .periodic
            .push((service.to_owned(), Arc::downgrade(&periodic)));
        periodic
    }
}

impl State {
    /// The target of a service, made where no layer has it.
    fn target(&mut self, service: &str) -> Arc<Shared> {
        let known = self.targets.iter().filter_map(WeakTarget::upgrade);
        if let Some(shared) = known.into_iter().find(|shared| shared.name() == service) {
            return shared;
        }
        let shared = Arc::new(Shared::new(self.policy.service(service)));
        self.targets.retain(WeakTarget::is_alive);
        self.targets.push(WeakTarget::new(&shared));
        shared
    }
}

impl std::fmt::Debug for LivePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivePolicy")
            .field("source", &self.inner.source)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Takes a new text in: puts its policy in force, or refuses it loudly. Says how long to wait for the next.
    pub(super) fn offer(&self, text: &str) {
        let policy = match parse(text) {
            Ok(policy) => policy,
            Err(error) => return self.refuse(&error),
        };
        let mut state = self.lock();
        if policy.digest() == state.policy.digest() {
            return;
        }
        tell(&state.policy, 0.0);
        tell(&policy, 1.0);
        tracing::info!(target: "retryguard", source = self.source, digest = policy.digest(), "policy in force");
        state.policy = policy.clone();
        // A layer that the program has dropped is forgotten.
        state.targets.retain(|target| target.replace(&policy));
        state.servers.retain(|server| server.replace(&policy));
        state.periodic.retain(|(service, periodic)| {
            let periodic = periodic.upgrade();
            if let Some(periodic) = &periodic {
                periodic.follow(&policy.service(service));
            }
            periodic.is_some()
        });
    }

    /// Says that a new policy could not be had and that the last good one stays.
    pub(super) fn refuse(&self, error: &RemoteError) {
        metrics::counter!(POLICY_REFUSED, "source" => self.source.clone()).increment(1);
        tracing::error!(target: "retryguard", source = self.source, %error, "policy refused; the last good one stays");
    }

    #[cfg(feature = "reqwest")]
    pub(super) fn period(&self) -> Duration {
        self.lock().policy.remote_period()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(text: &str) -> Result<Arc<Policy>, RemoteError> {
    let is_empty = |line: &str| matches!(line.trim(), "" | "---") || line.trim().starts_with('#');
    if text.lines().all(is_empty) {
        return Err(RemoteError::Empty);
    }
    Policy::parse(text).map(Arc::new).map_err(RemoteError::Wrong)
}

fn tell(policy: &Policy, value: f64) {
    metrics::gauge!(POLICY, "digest" => policy.digest().to_owned()).set(value);
}
