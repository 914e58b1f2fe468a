//! A request with a key, from its claim to its record.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, request::Parts};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use super::{
    Asked, Claim, Fingerprint, Held, IDEMPOTENCY_REPLAYED, IdempotencyBody, IdempotencyStore, KeyId,
    OnStoreFailure, Standing, StoredResponse,
    body::{End, Read},
    claim::{Completed, Hold, Lost},
    future::ClientGone,
    in_flight::{InFlight, LocalClaim},
    problem::Problem,
    settings::Settings,
    telemetry::{self, UNRECORDED},
};
use crate::{StoreError, clock};

pub(super) struct Guarded {
    pub(super) store: Arc<dyn IdempotencyStore>,
    pub(super) settings: Arc<Settings>,
    pub(super) in_flight: Arc<InFlight>,
    /// When the caller does not want the answer any more.
    pub(super) end: Option<Instant>,
}

/// The first pause of a duplicate that waits for the first request, and the longest.
const POLL: Duration = Duration::from_millis(10);
const POLL_AT_MOST: Duration = Duration::from_millis(250);

/// Works on a request that carries a key.
pub(super) async fn run<S, A, B>(
    mut inner: S,
    this: Guarded,
    request: Request<A>,
    key: String,
    gone: ClientGone,
) -> Result<Response<IdempotencyBody<B>>, S::Error>
where
    S: Service<Request<A>, Response = Response<B>>,
    A: Body<Data = Bytes> + From<Bytes>,
    B: Body<Data = Bytes>,
{
    let (mut head, body) = request.into_parts();
    let body = match this.read(body).await {
        Ok(body) => body,
        Err(problem) => return Ok(this.refuse(&problem)),
    };
    // Before the store is asked: an answer that is there at once would otherwise win against the deadline.
    if this.is_late() {
        return Ok(this.refuse(&Problem::TooLate));
    }
    let asked = this.asked(&head, &key, &body);
    gone.asked();
    // Until the response is stored.
    let mut turn = None;
    let hold = match this.enter(asked, &gone, &mut turn).await {
        Ok(Standing::Yours(held)) => Some(Hold::Claimed(held)),
        Ok(Standing::Open(open)) => Some(Hold::Open(open)),
        Ok(Standing::Done(stored)) => return Ok(this.replay(stored)),
        Ok(Standing::OtherRequest) => {
            return Ok(this.refuse(&Problem::OtherRequest(this.settings.other_request)));
        }
        Ok(Standing::Busy(_)) => return Ok(this.refuse(&Problem::InFlight)),
        Err(error) => match this.without_store(error) {
            Ok(()) => None,
            Err(problem) => return Ok(this.refuse(&problem)),
        },
    };
    let Some(hold) = hold else {
        telemetry::count("unguarded", this.store.backend());
        let response = inner.call(Request::from_parts(head, A::from(body))).await?;
        return Ok(response.map(IdempotencyBody::handler));
    };
    let mut release = Release::new(this.store.clone(), hold);
    if gone.is_gone() || this.is_late() {
        // The client has left, or has no use for an answer any more, before anything was done.
        release.now().await;
        return Ok(this.refuse(&Problem::TooLate));
    }
    let lost = Lost::default();
    head.extensions.insert(Claim::new(
        hold,
        this.store.backend(),
        this.settings.keep,
        this.settings.response_limit,
        lost.clone(),
    ));
    let work = Work {
        asked,
        hold,
        lost,
        lock_end: clock::now() + this.settings.lock,
    };
    let response = inner.call(Request::from_parts(head, A::from(body))).await?;
    let settled = this.settle(response, release, work, &gone).await;
    drop(turn);
    settled
}

/// A request whose handler works.
struct Work {
    asked: Asked,
    hold: Hold,
    /// Whether the handler found that another request was faster.
    lost: Lost,
    lock_end: Instant,
}

impl Guarded {
    async fn read<A: Body<Data = Bytes>>(&self, body: A) -> Result<Bytes, Problem> {
        let limit = self.settings.request_limit;
        let read = Read::from(body, limit);
        let read = match self.end {
            Some(end) => tokio::time::timeout_at(end, read)
                .await
                .map_err(|_| Problem::TooLate)?,
            None => read.await,
        };
        match read.end {
            End::Whole(_) if read.bytes.len() <= limit => Ok(read.bytes),
            End::Whole(_) | End::Large(_) => Err(Problem::BodyTooLarge(limit)),
            End::Broken(_) => Err(Problem::BodyUnreadable),
        }
    }

    fn asked(&self, head: &Parts, key: &str, body: &Bytes) -> Asked {
        let settings = &self.settings;
        let method = head.method.as_str().as_bytes();
        let query = head.uri.query().unwrap_or_default().as_bytes();
        let caller = (settings.principal)(head);
        let parts = [
            settings.namespace.as_bytes(),
            &caller,
            method,
            &(settings.route)(head),
            key.as_bytes(),
        ];
        Asked {
            id: KeyId::of_caller(&caller, &parts),
            fingerprint: Fingerprint::of(&[query, body]),
            lock: settings.lock,
            keep: settings.keep,
        }
    }

    /// Until when a duplicate waits for the first: bounded by the setting and by the deadline.
    fn patience(&self) -> Instant {
        let patience = clock::now() + self.settings.wait;
        self.end.map_or(patience, |end| patience.min(end))
    }

    /// Claims the key; or takes the turn to work on it in this process, and then sees that it is open. In this order, because
    /// a request that has ended between the two has stored its response.
    async fn enter(
        &self,
        asked: Asked,
        gone: &ClientGone,
        turn: &mut Option<LocalClaim>,
    ) -> Result<Standing, StoreError> {
        let patience = self.patience();
        if !self.settings.in_transaction {
            return self.claim(asked, gone, patience).await;
        }
        loop {
            let mut other = match self.in_flight.enter(asked.id, clock::now() + asked.lock) {
                Ok(mine) => {
                    let standing = self.claim(asked, gone, patience).await?;
                    if matches!(standing, Standing::Open(_)) {
                        *turn = Some(mine);
                    }
                    return Ok(standing);
                }
                Err(other) => other,
            };
            while !other
                .ended_before(patience.min(clock::now() + POLL_AT_MOST))
                .await
            {
                if clock::now() >= patience || gone.is_gone() {
                    return Ok(Standing::Busy(Duration::ZERO));
                }
            }
            // All that have waited look at once. Only where the other left nothing does one of them take the turn.
            let standing = self.claim(asked, gone, patience).await?;
            if !matches!(standing, Standing::Open(_)) {
                return Ok(standing);
            }
        }
    }

    /// Claims the key, and waits for another that holds it.
    async fn claim(
        &self,
        asked: Asked,
        gone: &ClientGone,
        patience: Instant,
    ) -> Result<Standing, StoreError> {
        let mut pause = POLL;
        loop {
            let answer = if self.settings.in_transaction {
                self.store.look(asked)
            } else {
                self.store.claim(asked)
            };
            let standing = self.bounded(answer).await?;
            let Standing::Busy(left) = standing else {
                return Ok(standing);
            };
            let time = patience.saturating_duration_since(clock::now());
            if time.is_zero() || gone.is_gone() {
                return Ok(standing);
            }
            // Not longer than the other may hold it, so that a dead holder is replaced at once.
            clock::sleep(pause.min(time).min(left.max(POLL))).await;
            pause = (pause * 2).min(POLL_AT_MOST);
        }
    }

    /// One answer of the store, in the time that it may take and that is left.
    async fn bounded<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let mut waited = self.settings.store_timeout;
        if let Some(end) = self.end {
            waited = waited.min(end.saturating_duration_since(clock::now()));
        }
        tokio::time::timeout(waited, answer).await.unwrap_or_else(|_| {
            let backend = self.store.backend();
            Err(StoreError::Slow { backend, waited })
        })
    }

    /// Whether the deadline of the request has passed.
    fn is_late(&self) -> bool {
        self.end.is_some_and(|end| end <= clock::now())
    }

    fn without_store(&self, error: StoreError) -> Result<(), Problem> {
        tracing::warn!(target: "retryguard", %error, "the store of idempotency keys failed");
        if self.is_late() {
            return Err(Problem::TooLate);
        }
        match self.settings.on_store_failure {
            OnStoreFailure::Refuse => Err(Problem::Store(error)),
            OnStoreFailure::Proceed => Ok(()),
        }
    }

    async fn settle<B: Body<Data = Bytes>, E>(
        &self,
        response: Response<B>,
        mut release: Release,
        work: Work,
        gone: &ClientGone,
    ) -> Result<Response<IdempotencyBody<B>>, E> {
        let (head, body) = response.into_parts();
        if head.extensions.get::<Completed>().is_some() {
            telemetry::count("first", self.store.backend());
            release.settled();
            return Ok(Response::from_parts(head, IdempotencyBody::handler(body)));
        }
        if !(self.settings.is_final)(head.status) {
            // The handler has rolled back because another request was faster: that one's response is the answer.
            if work.lost.is_set()
                && let Hold::Open(_) = work.hold
                && let Some(other) = self.superseded(work.asked, None, gone).await
            {
                return Ok(other);
            }
            telemetry::count("not-final", self.store.backend());
            release.now_or_later(self).await;
            return Ok(Response::from_parts(head, IdempotencyBody::handler(body)));
        }
        let read = Read::from(body, self.settings.response_limit).await;
        let stored = match &read.end {
            End::Whole(_) => StoredResponse::of(&head, Some(read.bytes.clone())),
            End::Large(_) => StoredResponse::of(&head, None),
            End::Broken(_) => {
                // No client has seen it whole, so a retry may.
                release.now_or_later(self).await;
                return Ok(Response::from_parts(head, IdempotencyBody::read(read)));
            }
        };
        let stored = self.fitting(stored);
        release.settled();
        match self
            .bounded(record(&*self.store, work.hold, &stored, self.settings.keep))
            .await
        {
            Ok(true) => telemetry::count("first", self.store.backend()),
            Ok(false) => {
                if let Some(other) = self.superseded(work.asked, Some(&stored), gone).await {
                    return Ok(other);
                }
            }
            Err(error) => {
                tracing::warn!(target: "retryguard", %error, "a response could not be stored; trying again");
                tokio::spawn(keep_trying(
                    self.store.clone(),
                    work.hold,
                    stored,
                    self.settings.keep,
                    work.lock_end,
                ));
            }
        }
        Ok(Response::from_parts(head, IdempotencyBody::read(read)))
    }

    /// A response whose headers alone are too large is kept as its status.
    fn fitting(&self, mut stored: StoredResponse) -> StoredResponse {
        if stored.size() > self.settings.response_limit {
            stored.body = None;
        }
        if stored.size() > self.settings.response_limit {
            stored.headers.clear();
        }
        stored
    }

    /// Another request has the key: this one's lock ran out while it worked, or the other's transaction was faster. All
    /// duplicates get the same response, so this one waits for the other as any duplicate would: what that stored is
    /// the answer, or, if it failed, this one's.
    async fn superseded<B: Body<Data = Bytes>>(
        &self,
        asked: Asked,
        stored: Option<&StoredResponse>,
        gone: &ClientGone,
    ) -> Option<Response<IdempotencyBody<B>>> {
        telemetry::count("superseded", self.store.backend());
        match self.claim(asked, gone, self.patience()).await {
            Ok(Standing::Done(other)) => Some(self.replay(other)),
            Ok(Standing::Yours(held)) => {
                self.record_late(Hold::Claimed(held), stored).await;
                None
            }
            Ok(Standing::Open(open)) => {
                self.record_late(Hold::Open(open), stored).await;
                None
            }
            Ok(Standing::OtherRequest) => {
                Some(self.refuse(&Problem::OtherRequest(self.settings.other_request)))
            }
            Ok(Standing::Busy(_)) => Some(self.refuse(&Problem::InFlight)),
            Err(error) => {
                let problem = self.without_store(error).err()?;
                Some(self.refuse(&problem))
            }
        }
    }

    /// Nothing more can be done where this fails: the effect is done, and its response is the client's.
    async fn record_late(&self, hold: Hold, stored: Option<&StoredResponse>) {
        if let Some(stored) = stored {
            let recorded = record(&*self.store, hold, stored, self.settings.keep);
            let _ = self.bounded(recorded).await;
        }
    }

    fn replay<B: Body<Data = Bytes>>(&self, stored: StoredResponse) -> Response<IdempotencyBody<B>> {
        if stored.body.is_none() {
            return self.refuse(&Problem::NotKept(stored.status));
        }
        telemetry::count("replayed", self.store.backend());
        let mut response = stored.into_response();
        response
            .headers_mut()
            .insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        response.map(IdempotencyBody::own)
    }

    fn refuse<B: Body<Data = Bytes>>(&self, problem: &Problem) -> Response<IdempotencyBody<B>> {
        telemetry::count(problem.word(), self.store.backend());
        problem
            .response(self.settings.documentation.as_deref())
            .map(IdempotencyBody::own)
    }
}

/// Lets the key go when the work ends without a response: by an error, or by a panic.
struct Release {
    store: Arc<dyn IdempotencyStore>,
    held: Option<Held>,
}

impl Release {
    fn new(store: Arc<dyn IdempotencyStore>, hold: Hold) -> Self {
        let held = match hold {
            Hold::Claimed(held) => Some(held),
            // There is no record to release.
            Hold::Open(_) => None,
        };
        Self { store, held }
    }

    /// The key is completed, or no longer this request's.
    fn settled(&mut self) {
        self.held = None;
    }

    async fn now(&mut self) {
        if let Some(held) = self.held.take() {
            let _ = self.store.release(held).await;
        }
    }

    /// Within the time that is left; if that is too short, by itself: the client has its answer.
    async fn now_or_later(&mut self, guarded: &Guarded) {
        if let Some(held) = self.held
            && guarded.bounded(self.store.release(held)).await.is_ok()
        {
            self.held = None;
        }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let store = self.store.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = store.release(held).await {
                    tracing::warn!(target: "retryguard", %error, "a key could not be released; its lock will run out");
                }
            });
        }
    }
}

/// Stores the response of a request whose handler has not stored it in its own transaction.
async fn record(
    store: &dyn IdempotencyStore,
    hold: Hold,
    stored: &StoredResponse,
    keep: Duration,
) -> Result<bool, StoreError> {
    match &hold {
        Hold::Claimed(held) => store.complete(*held, stored, keep).await,
        Hold::Open(open) => store.store(open, stored, keep).await,
    }
}

/// The effect is done and only its record is missing: worth trying until another may take the key over.
async fn keep_trying(
    store: Arc<dyn IdempotencyStore>,
    hold: Hold,
    stored: StoredResponse,
    keep: Duration,
    lock_end: Instant,
) {
    let mut pause = POLL_AT_MOST;
    while clock::now() + pause < lock_end {
        clock::sleep(pause).await;
        let answer = tokio::time::timeout_at(lock_end, record(&*store, hold, &stored, keep)).await;
        if matches!(answer, Ok(Ok(_))) {
            return;
        }
        pause = (pause * 2).min(Duration::from_secs(2));
    }
    metrics::counter!(UNRECORDED, "backend" => store.backend().as_str()).increment(1);
    tracing::error!(
        target: "retryguard",
        key = %match hold {
            Hold::Claimed(held) => held.id,
            Hold::Open(open) => open.asked.id,
        },
        "a response was not stored before its lock ran out; a duplicate of the request will be done again"
    );
}
