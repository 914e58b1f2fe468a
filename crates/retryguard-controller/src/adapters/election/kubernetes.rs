//! A Kubernetes Lease.
//!
//! No wall clock is trusted. A follower counts the time for which it has seen the Lease unchanged, on its
//! own clock, and takes over when that is as long as the term; the leader counts from before its last renewal was
//! sent, and stops a fifth of the term earlier. So one of two acts at a time as long as no clock runs more
//! than a fifth faster than another, however wrong either is. Two that reach for a free Lease at once are
//! distinguished by the version of the object.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use retryguard_core::{Chance as _, Instant};

use crate::adapters::kubernetes;
use crate::adapters::kubernetes::RequestError;
use crate::adapters::start_error::StartError;
use crate::clock::{Clock, Random, unix_time};
use crate::config::election::Lease as Settings;
use crate::reconcile::election::{ElectionAnswer, ElectionError, LeaderElection, Leadership};

/// The longest term of another controller that is waited for; what is longer was not written by one of ours.
const LONGEST_TERM: Duration = Duration::from_secs(600);

/// The annotation that names a controller which asks for the Lease.
const ASKED_BY: &str = "retryguard.io/asked-by";

/// A Lease in the API server.
pub struct Lease {
    api: Api<Object>,
    name: String,
    identity: String,
    term: Duration,
    asks: bool,
    clock: Clock,
    seen: Option<ObservedLease>,
    /// When the Lease of another controller ends, counted from the last answer.
    free_in: Option<Duration>,
}

/// The Lease as it was when it last changed, and when we saw that.
struct ObservedLease {
    spec: LeaseSpec,
    at: Instant,
}

impl Lease {
    /// From the configuration; `run` is a number for this run of the program. No request is sent yet.
    ///
    /// # Errors
    /// When there is no way to the API server.
    pub async fn start(settings: &Settings, run: u64) -> Result<Self, StartError> {
        let client = kubernetes::client(None).await?;
        let namespace = match &settings.namespace {
            Some(namespace) => namespace.clone(),
            None => client.default_namespace().to_owned(),
        };
        let instance = kubernetes::instance();
        let mut lease = Self::new(client, &namespace, &settings.name, &instance, settings.term);
        lease.identity = format!("{instance}-{run:016x}");
        Ok(lease)
    }

    /// The Lease `name` of `namespace`. `instance` is this controller's name among its kind; a few letters are
    /// added, so that one that has started anew is not taken for the one that died.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, instance: &str, term: Duration) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: format!("{instance}-{:08x}", Random.below(1 << 32)),
            term,
            asks: false,
            clock: Clock::start(),
            seen: None,
            free_in: None,
        }
    }

    /// How this controller signs.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// A request that was written between our reading and our writing costs no leadership: it is read again, once.
    async fn verdict(&mut self) -> Result<Leadership, RequestError> {
        match self.try_for_it().await {
            Err(RequestError::Stale(_)) => match self.try_for_it().await {
                Err(RequestError::Stale(_)) => Ok(Leadership::Follower { leader: None }),
                verdict => verdict,
            },
            verdict => verdict,
        }
    }

    async fn try_for_it(&mut self) -> Result<Leadership, RequestError> {
        let found = self.limited(self.api.get_opt(&self.name)).await?;
        let Some(found) = found else {
            let new = self.signed(Object::default(), true);
            let written = self.limited(self.api.create(&PostParams::default(), &new)).await;
            return self.judged(written?, None, None);
        };
        let spec = found.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        let ours = holder.as_deref() == Some(&self.identity);
        if !ours && holder.is_some() && !self.has_ended(&spec) {
            self.request(found).await?;
            return Ok(Leadership::Follower { leader: holder });
        }
        let version = found.metadata.resource_version.clone();
        let mut signed = self.signed(found, !ours);
        let asked_by = signed
            .metadata
            .annotations
            .as_mut()
            .and_then(|all| all.remove(ASKED_BY));
        let written = self
            .limited(self.api.replace(&self.name, &PostParams::default(), &signed))
            .await;
        self.judged(written?, version, asked_by.filter(|_| ours))
    }

    /// Writes that we ask for the Lease, where we do. Its holder and its times stay as they were found.
    async fn request(&self, mut found: Object) -> Result<(), RequestError> {
        let annotations = found.metadata.annotations.get_or_insert_default();
        if !self.asks || annotations.get(ASKED_BY) == Some(&self.identity) {
            return Ok(());
        }
        annotations.insert(ASKED_BY.to_owned(), self.identity.clone());
        let written = self
            .limited(self.api.replace(&self.name, &PostParams::default(), &found))
            .await;
        match written {
            // The next campaign asks again.
            Ok(_) | Err(RequestError::Stale(_)) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// Whether it was not renewed for a whole term of ours and of its holder's.
    fn has_ended(&mut self, spec: &LeaseSpec) -> bool {
        let now = self.clock.now();
        let written = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let term = Duration::from_secs(written).min(LONGEST_TERM).max(self.term);
        let unchanged_for = match &self.seen {
            Some(seen) if seen.spec == *spec => now.since(seen.at),
            _ => {
                self.seen = Some(ObservedLease {
                    spec: spec.clone(),
                    at: now,
                });
                Duration::ZERO
            }
        };
        self.free_in = Some(term.saturating_sub(unchanged_for));
        unchanged_for >= term
    }

    /// What we write: the object as it was found, with our name on it.
    fn signed(&self, mut object: Object, taken: bool) -> Object {
        let now = i64::try_from(unix_time().as_micros())
            .ok()
            .and_then(|micros| Timestamp::from_microsecond(micros).ok())
            .map(MicroTime);
        let mut spec = object.spec.unwrap_or_default();
        if taken {
            // A new object has no former holder.
            spec.lease_transitions = Some(match object.metadata.resource_version {
                Some(_) => spec.lease_transitions.unwrap_or(0).max(0).saturating_add(1),
                None => 0,
            });
            spec.acquire_time.clone_from(&now);
        }
        spec.holder_identity = Some(self.identity.clone());
        let seconds = self.term.as_secs() + u64::from(self.term.subsec_nanos() > 0);
        spec.lease_duration_seconds = i32::try_from(seconds).ok();
        spec.renew_time = now;
        object.metadata = ObjectMeta {
            name: Some(self.name.clone()),
            ..object.metadata
        };
        object.spec = Some(spec);
        object
    }

    /// A write that changed nothing renews nothing, because no follower can have seen it.
    fn judged(
        &self,
        written: Object,
        before: Option<String>,
        asked_by: Option<String>,
    ) -> Result<Leadership, RequestError> {
        if written.metadata.resource_version == before {
            return Err(RequestError::Refused("the renewal changed nothing".to_owned()));
        }
        Ok(Leadership::Leader {
            term: term(&written),
            lasts: self.term - self.term / 5,
            asked_by: super::by_another(asked_by.unwrap_or_default(), &self.identity),
        })
    }

    /// Signs the Lease with another's name, as that controller would when it takes it.
    async fn give(&mut self, to: &str) -> Result<(), RequestError> {
        let Some(found) = self.limited(self.api.get_opt(&self.name)).await? else {
            return Ok(());
        };
        let holder = found
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(&self.identity) {
            return Ok(());
        }
        let mut signed = self.signed(found, true);
        if let Some(annotations) = &mut signed.metadata.annotations {
            annotations.remove(ASKED_BY);
        }
        if let Some(spec) = &mut signed.spec {
            spec.holder_identity = Some(to.to_owned());
        }
        self.limited(self.api.replace(&self.name, &PostParams::default(), &signed))
            .await
            .map(drop)
    }

    async fn give_up(&mut self) -> Result<(), RequestError> {
        let Some(mut found) = self.limited(self.api.get_opt(&self.name)).await? else {
            return Ok(());
        };
        let Some(spec) = &mut found.spec else {
            return Ok(());
        };
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        spec.holder_identity = None;
        match self
            .limited(self.api.replace(&self.name, &PostParams::default(), &found))
            .await
        {
            Ok(_) | Err(RequestError::Stale(_)) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// An answer that comes later than this is of no use: the next question is due.
    async fn limited<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        let limit = self.term / 5;
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer.map_err(RequestError::from),
            Err(_) => Err(RequestError::Silent(format!("no answer within {limit:?}"))),
        }
    }
}

/// The number of the term. It also rises when the Lease was deleted and made anew, which starts its own count
/// again: the second of its making comes first.
fn term(object: &Object) -> u64 {
    let made = object
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0));
    let transitions = object.spec.as_ref().and_then(|spec| spec.lease_transitions);
    let transitions = u64::try_from(transitions.unwrap_or(0)).unwrap_or(0);
    (made << 20) + transitions.min((1 << 20) - 1)
}

impl LeaderElection for Lease {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn every(&self) -> Duration {
        super::next_question(self.term / 5, self.free_in)
    }

    fn ask(&mut self, asks: bool) {
        self.asks = asks;
    }

    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership> {
        self.free_in = None;
        Box::pin(async move { self.verdict().await.map_err(|trouble| error(&trouble)) })
    }

    fn hand_over<'a>(&'a mut self, to: &'a str) -> ElectionAnswer<'a, ()> {
        Box::pin(async move { self.give(to).await.map_err(|trouble| error(&trouble)) })
    }

    fn resign(&mut self) -> ElectionAnswer<'_, ()> {
        Box::pin(async move { self.give_up().await.map_err(|trouble| error(&trouble)) })
    }
}

fn error(trouble: &RequestError) -> ElectionError {
    ElectionError {
        backend: "kubernetes",
        reason: trouble.reason().to_owned(),
    }
}
