//! The layer and its settings.

use std::{
    sync::{Arc, Once},
    time::Duration,
};

use http::{Method, StatusCode, request::Parts};
use tower_layer::Layer;

use super::{Idempotency, IdempotencyStore, OnStoreFailure, in_flight::InFlight, settings::Settings, sweep};

/// Makes the requests of a server that carry an `Idempotency-Key` take effect once.
#[derive(Clone)]
pub struct IdempotencyLayer {
    store: Arc<dyn IdempotencyStore>,
    settings: Arc<Settings>,
    /// Frameworks call [`Layer::layer`] more than once; one sweeper is enough.
    swept: Arc<Once>,
    in_flight: Arc<InFlight>,
}

impl IdempotencyLayer {
    /// With the defaults that each method below names.
    #[must_use]
    pub fn new(store: impl IdempotencyStore) -> Self {
        Self::shared(Arc::new(store))
    }

    /// As [`IdempotencyLayer::new`], with a store that was chosen when the program started.
    #[must_use]
    pub fn shared(store: Arc<dyn IdempotencyStore>) -> Self {
        Self {
            store,
            settings: Arc::default(),
            swept: Arc::new(Once::new()),
            in_flight: Arc::default(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Whether a request without a key is refused with 400. Default: no, it is worked on without protection.
    #[must_use]
    pub fn require_key(self, required: bool) -> Self {
        self.with(|settings| settings.required = required)
    }

    /// Whether keys are claimed in the transactions of the effects. Default: no.
    ///
    /// For handlers whose effects are in the store's own database and that call [`super::Claim::complete_in`]: claim, effect
    /// and response are then one transaction, without a commit of the claim's own. No record is locked while a handler
    /// works. Duplicates in one process wait for the first ([`Self::wait`]). Of two duplicates at the same moment in two
    /// processes both may run, the unique key lets one commit, and the other must roll back and is answered with the first one's response. So the handler must have no effects outside of its
    /// transaction. A crash leaves nothing behind, and no duplicate waits for a lock to run out.
    ///
    /// A final response that the handler has not stored, such as a refusal, is stored when the handler has ended.
    #[must_use]
    pub fn in_transaction(self, enabled: bool) -> Self {
        self.with(|settings| settings.in_transaction = enabled)
    }

    /// The methods that keys count for; others pass. Default: POST and PATCH.
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|settings| settings.methods = methods.into_iter().collect())
    }

    /// Whether a key without quotes is taken as it stands. Default: no, the draft's strings only.
    #[must_use]
    pub fn accept_bare_keys(self, bare: bool) -> Self {
        self.with(|settings| settings.bare = bare)
    }

    /// The page that explains keys to clients: the `type` of problems and their `Link`. Default: none.
    #[must_use]
    pub fn documentation(self, url: impl Into<String>) -> Self {
        self.with(|settings| settings.documentation = Some(url.into()))
    }

    /// Keeps the keys of this service apart from those of others in the same store. Default: empty.
    #[must_use]
    pub fn namespace(self, name: impl Into<String>) -> Self {
        self.with(|settings| settings.namespace = name.into())
    }

    /// Who asks: one principal never sees another's response. Default: the `Authorization` header.
    ///
    /// Where clients renew their tokens, take the subject of the token instead: a retry under a new token would
    /// be another principal's, and would be done again. Where they log in by a cookie, take the session's
    /// subject: without the header all of them are one principal.
    #[must_use]
    pub fn principal(self, principal: impl Fn(&Parts) -> Vec<u8> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.principal = Arc::new(principal))
    }

    /// What is asked for: a key counts per method and route. Default: the path, as the layer sees it; below a
    /// nested router that is the rest of the path, so give each nested service a [`Self::namespace`].
    #[must_use]
    pub fn route(self, route: impl Fn(&Parts) -> Vec<u8> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.route = Arc::new(route))
    }

    /// The answer to a key that was used for another request. Default: 422; some services use 409.
    #[must_use]
    pub fn other_request(self, status: StatusCode) -> Self {
        self.with(|settings| settings.other_request = status)
    }

    /// Which responses are stored. Default: [`super::is_final`].
    #[must_use]
    pub fn final_when(self, is_final: fn(StatusCode) -> bool) -> Self {
        self.with(|settings| settings.is_final = is_final)
    }

    /// What happens when the store is away, slow or full. Default: [`OnStoreFailure::Refuse`].
    #[must_use]
    pub fn on_store_failure(self, what: OnStoreFailure) -> Self {
        self.with(|settings| settings.on_store_failure = what)
    }

    /// How long a request may be worked on before a duplicate takes it over. Default: 30 s. Longer than the
    /// slowest handler: only [`super::Claim::complete_in`] stops two that work at the same time.
    #[must_use]
    pub fn lock(self, span: Duration) -> Self {
        self.with(|settings| settings.lock = span)
    }

    /// How long a key is remembered. Default: 24 h.
    #[must_use]
    pub fn keep(self, span: Duration) -> Self {
        self.with(|settings| settings.keep = span)
    }

    /// How long a duplicate waits for the first before it gets 409. Default: 5 s; zero does not wait.
    #[must_use]
    pub fn wait(self, span: Duration) -> Self {
        self.with(|settings| settings.wait = span)
    }

    /// How long the store may take for one answer. Default: 1 s. What is left of the request's deadline
    /// (`retryguard-deadline-ms`) bounds it too.
    #[must_use]
    pub fn store_timeout(self, span: Duration) -> Self {
        self.with(|settings| settings.store_timeout = span)
    }

    /// The deadline of requests that carry none, or a later one. Default: none.
    #[must_use]
    pub fn deadline(self, span: Duration) -> Self {
        self.with(|settings| settings.deadline = Some(span))
    }

    /// The longest key, in characters. Default: 255.
    #[must_use]
    pub fn key_limit(self, characters: usize) -> Self {
        self.with(|settings| settings.key_limit = characters)
    }

    /// The largest body of a request with a key: it is read into memory to be compared. Default: 1 MiB.
    #[must_use]
    pub fn request_limit(self, bytes: usize) -> Self {
        self.with(|settings| settings.request_limit = bytes)
    }

    /// The largest response that is stored, headers included. Default: 1 MiB. A larger one reaches the client,
    /// and its duplicates get 409 with the first one's status; nothing is done again.
    #[must_use]
    pub fn response_limit(self, bytes: usize) -> Self {
        self.with(|settings| settings.response_limit = bytes)
    }

    /// How often keys that are no longer kept are forgotten. Default: every minute or a little sooner; none
    /// where another process does it.
    #[must_use]
    pub fn sweep_every(self, span: Option<Duration>) -> Self {
        self.with(|settings| settings.sweep = span)
    }
}

impl std::fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Self::Service {
        if let Some(every) = self.settings.sweep {
            self.swept.call_once(|| sweep::start(&self.store, every));
        }
        Idempotency::new(
            inner,
            self.store.clone(),
            self.settings.clone(),
            self.in_flight.clone(),
        )
    }
}
