//! Policies over HTTP, with the decisions merged in: for clients that fetch their policy.
//!
//! `GET /policies` lists them, `GET /policies/NAME` gives one with an ETag. A client that names the ETag it has
//! (`If-None-Match`) gets 304, at once or, with `?wait=SECONDS` or `Prefer: wait=SECONDS`, as soon as there is
//! something new. Every answer says in `x-retryguard-poll-after` when to come back: the policy's own period,
//! spread by half, so that a fleet that was started together does not poll together.
//!
//! **Nothing stays off without end.** A decision holds for [`LAPSE`] after it was last confirmed. A controller that
//! leads confirms its decisions with every look (`limits.resync`); when it is gone, a server that still runs serves the
//! user's own policy. When the server is gone too, its clients know: an answer with decisions in it says so in
//! `x-retryguard-lapse-after`, and `?original` gives the policy without them, to which the library's clients go back by
//! themselves.

mod folder;
mod merge;
mod plain;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path as Named, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use retryguard_core::Chance as _;
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::adapters::http::connections::{Limits, Share};
use crate::adapters::http::{Port, guarded, serve};
use crate::adapters::start_error::StartError;
use crate::clock::{Random, sleep};
use crate::config::actuator::policy_server as settings;
use crate::config::listen::Listen;
use crate::domain::state::{Change, Found, Loss, Observed, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

use folder::{Decision, Decisions, Folder, Policies, Served};

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The longest that a client may wait for news.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The most connections of clients; each waits with one of them for news.
const MOST_CONNECTIONS: usize = 8_192;

/// How long a decision holds without being confirmed: longer than a controller takes to come back, short enough
/// that a service is not without retries for long without a reason.
pub const LAPSE: Duration = Duration::from_secs(300);

/// After how many seconds without an answer a client shall take the policy without decisions (`?original`). Only on
/// answers that have any.
pub const LAPSE_AFTER: &str = "x-retryguard-lapse-after";

/// When to come back.
pub const POLL_AFTER: &str = "x-retryguard-poll-after";

/// Why the file as it is now is not what is served.
pub const REFUSED: &str = "x-retryguard-refused";

/// A server of policies; as an actuator it changes what it serves.
pub struct PolicyServer {
    folder: PathBuf,
    services: HashMap<TargetName, String>,
    /// Observed while the folder is read and what was read is published, so that an older look at it cannot undo a
    /// newer one.
    decisions: Arc<Mutex<Decisions>>,
    policies: watch::Sender<Folder>,
    port: Port,
    looking: JoinHandle<()>,
}

impl PolicyServer {
    /// Reads the folder, listens, and follows the folder from then on: its policies, and the decisions that a
    /// controller keeps there, this one or another.
    ///
    /// # Errors
    /// When the folder cannot be read or the port is taken.
    pub async fn start(
        folder: &Path,
        listen: &Listen,
        targets: Vec<(TargetName, settings::PolicyServerTarget)>,
    ) -> Result<Self, StartError> {
        let wrong = |error: std::io::Error| StartError::File {
            what: "policy-server",
            path: folder.display().to_string(),
            reason: error.to_string(),
        };
        let decisions = folder::decisions(folder).unwrap_or_else(|error| {
            tracing::error!(target: "retryguard::controller", %error, "{IGNORED}");
            Decisions::new()
        });
        let first = folder::read(folder, &valid(folder, &decisions), &Policies::new()).map_err(wrong)?;
        let (policies, _) = watch::channel(Folder::default());
        publish(&policies, first);
        let router = Router::new()
            .route("/policies", get(list))
            .route("/policies/{name}", get(one))
            .with_state(policies.subscribe());
        let router = guarded("policy-server", listen, router)?;
        let limits = Limits::new(MOST_CONNECTIONS, Share::Eighth);
        let port = serve("policy-server", listen, limits, router).await?;
        let decisions = Arc::new(Mutex::new(decisions));
        let looking = tokio::spawn(look(folder.to_owned(), Arc::clone(&decisions), policies.clone()));
        Ok(Self {
            folder: folder.to_owned(),
            services: targets
                .into_iter()
                .map(|(name, target)| (name, target.service))
                .collect(),
            decisions,
            policies,
            port,
            looking,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    /// The policies that are served.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.policies.borrow().policies.keys().cloned().collect()
    }

    fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = decisions.clone();
        if change.desired == RetryState::Original {
            next.remove(&change.target);
        } else {
            let service = self
                .services
                .get(&change.target)
                .ok_or_else(|| ActuatorError::Refused {
                    what: change.target.to_string(),
                    reason: "not a target of this policy server".to_owned(),
                })?;
            let decision = Decision {
                service: service.clone(),
                desired: change.desired,
            };
            next.insert(change.target.clone(), decision);
        }
        let failed = |error: std::io::Error| ActuatorError::Unreachable {
            address: self.folder.display().to_string(),
            reason: error.to_string(),
        };
        folder::keep(&self.folder, &next).map_err(failed)?;
        *decisions = next;
        let last = self.policies.borrow().policies.clone();
        let read = folder::read(&self.folder, &decisions, &last).map_err(failed)?;
        publish(&self.policies, read);
        Ok(losses(change.desired))
    }
}

impl Drop for PolicyServer {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl Actuator for PolicyServer {
    fn name(&self) -> &'static str {
        "policy-server"
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        // The caller is the leader, and confirms what was decided.
        if !decisions.is_empty()
            && let Err(error) = folder::keep(&self.folder, &decisions)
        {
            let address = self.folder.display().to_string();
            let reason = error.to_string();
            return Box::pin(std::future::ready(Err(ActuatorError::Unreachable {
                address,
                reason,
            })));
        }
        let found = decisions
            .iter()
            .map(|(target, decision)| Found {
                target: target.clone(),
                held: Observed::Managed(decision.desired),
            })
            .collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(std::future::ready(self.change(change)))
    }

    fn describe(&self, change: &Change) -> String {
        let service = self.services.get(&change.target).map_or("?", String::as_str);
        match change.desired {
            RetryState::Original => format!("serve `{service}` as its policy says"),
            RetryState::Off => format!("serve `{service}` with maxRetries: 0 and hedge: off"),
            RetryState::Part { share, .. } => {
                format!("serve `{service}` with {share} of its maxRetries, rounded up, and hedge: off")
            }
        }
    }

    fn details(&self) -> serde_json::Value {
        summary(&self.policies.borrow().policies)
    }
}

fn losses(desired: RetryState) -> Vec<Loss> {
    match desired {
        RetryState::Original => Vec::new(),
        RetryState::Off => vec![Loss("clients see it at their next poll, not at once".to_owned())],
        RetryState::Part { share, .. } => vec![Loss(format!(
            "a policy has a whole number of retries: {share} of it is rounded up"
        ))],
    }
}

/// Follows the folder.
async fn look(folder: PathBuf, decisions: Arc<Mutex<Decisions>>, policies: watch::Sender<Folder>) {
    let mut last = None;
    loop {
        sleep(LOOK).await;
        let error = look_once(&folder, &decisions, &policies)
            .err()
            .map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|error| last.as_ref() != Some(*error)) {
            tracing::error!(target: "retryguard::controller", error, "the folder of policies is not read as a whole");
        }
        last = error;
    }
}

/// What is logged where the file of decisions is not understood.
const IGNORED: &str = "the decisions beside the policies are ignored";

fn look_once(
    folder: &Path,
    decisions: &Mutex<Decisions>,
    policies: &watch::Sender<Folder>,
) -> std::io::Result<()> {
    let mut decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
    // Policies are served all the same, and the next decision of a controller replaces the file.
    let (known, ignored) = match folder::decisions(folder) {
        Ok(known) => (known, Ok(())),
        Err(error) => (
            Decisions::new(),
            Err(std::io::Error::other(format!("{IGNORED}: {error}"))),
        ),
    };
    *decisions = known;
    let last = policies.borrow().policies.clone();
    let read = folder::read(folder, &valid(folder, &decisions), &last)?;
    publish(policies, read);
    ignored
}

/// Those that were confirmed within [`LAPSE`].
fn valid(folder: &Path, decisions: &Decisions) -> Decisions {
    if folder::lapsed(folder) {
        Decisions::new()
    } else {
        decisions.clone()
    }
}

/// Tells those that wait, where there is something new, and logs each refusal once.
fn publish(policies: &watch::Sender<Folder>, read: Folder) {
    policies.send_if_modified(|now| {
        let changed = *now != read;
        if changed {
            for (name, served) in &read.policies {
                let before = now.policies.get(name).and_then(|before| before.refused.as_ref());
                if let Some(reason) = served.refused.as_ref().filter(|reason| before != Some(*reason)) {
                    tracing::error!(
                        target: "retryguard::controller", policy = name, reason, "policy refused; the last good one stays"
                    );
                }
            }
            for (name, reason) in &read.refused {
                if now.refused.get(name) != Some(reason) {
                    tracing::error!(target: "retryguard::controller", policy = name, reason, "policy refused");
                }
            }
            *now = read;
        }
        changed
    });
}

fn summary(policies: &Policies) -> serde_json::Value {
    let all = policies.iter().map(|(name, served)| {
        let about = json!({
            "version": served.version,
            "digest": served.digest,
            "etag": served.etag,
            "refused": served.refused,
        });
        (name.clone(), about)
    });
    serde_json::Value::Object(all.collect())
}

type FolderState = State<watch::Receiver<Folder>>;

async fn list(State(policies): FolderState) -> Json<serde_json::Value> {
    Json(summary(&policies.borrow().policies))
}

async fn one(
    State(mut policies): FolderState,
    Named(name): Named<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let wait = wait(&query, &headers);
    let news = |folder: &Folder| {
        folder
            .policies
            .get(&name)
            .is_none_or(|served| !matches(known, &served.etag))
    };
    if let (Some(_), Some(wait)) = (known, wait) {
        // No news within the time is an answer too.
        let _ = timeout(wait, policies.wait_for(news)).await;
    }
    let served = policies.borrow().policies.get(&name).cloned();
    match served {
        None => (
            StatusCode::NOT_FOUND,
            "no such policy; GET /policies lists them\n",
        )
            .into_response(),
        Some(served) if query.contains_key("original") => {
            let text = served.original.as_ref().unwrap_or(&served.text).clone();
            let (kind, text) = match query.get("service") {
                Some(service) => ("application/json", plain::service(&text, service)),
                None => ("application/yaml", text),
            };
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Some(served) => {
            let unchanged = matches(known, &served.etag);
            match query.get("service") {
                Some(service) => answer(
                    &served,
                    unchanged,
                    ("application/json", plain::service(&served.text, service)),
                ),
                None => answer(&served, unchanged, ("application/yaml", served.text.clone())),
            }
        }
    }
}

fn matches(known: Option<&str>, etag: &str) -> bool {
    known.is_some_and(|known| {
        known
            .split(',')
            .map(|one| one.trim().trim_start_matches("W/"))
            .any(|one| one == "*" || one == etag)
    })
}

/// How long the client would wait, at most [`LONGEST_WAIT`]: `?wait=30` or `Prefer: wait=30`, in seconds.
fn wait(query: &HashMap<String, String>, headers: &HeaderMap) -> Option<Duration> {
    let preferred = headers.get("prefer").and_then(|value| value.to_str().ok());
    let preferred =
        preferred.and_then(|text| text.split(',').find_map(|part| part.trim().strip_prefix("wait=")));
    let text = query.get("wait").map(String::as_str).or(preferred)?;
    let seconds: u64 = text.trim_end_matches('s').parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

fn answer(served: &Served, unchanged: bool, (kind, text): (&str, String)) -> Response {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, text: String| {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    };
    set("etag", served.etag.clone());
    set("cache-control", "no-cache".to_owned());
    set("x-retryguard-version", served.version.to_string());
    set("x-retryguard-digest", served.digest.clone());
    set(POLL_AFTER, format!("{:.3}", spread(served.period).as_secs_f64()));
    if served.original.is_some() {
        set(LAPSE_AFTER, LAPSE.as_secs().to_string());
    }
    if let Some(reason) = &served.refused {
        let line: String = reason
            .chars()
            .filter(|letter| (' '..='~').contains(letter))
            .take(200)
            .collect();
        set(REFUSED, line);
    }
    if unchanged {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    set("content-type", kind.to_owned());
    (StatusCode::OK, headers, text).into_response()
}

/// Between a half and one and a half of the period.
fn spread(period: Duration) -> Duration {
    let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX / 2);
    Duration::from_nanos(nanos / 2) + Duration::from_nanos(Random.below(nanos.max(1)))
}
