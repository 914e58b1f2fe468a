//! How reqwest's requests are read, tagged and judged.

use http::HeaderValue;
use retryguard_core::Outcome;
use retryguard_policy::{Classifier, NetworkError, Service as ServicePolicy};

use super::{
    Tagged,
    redirects::{AttemptError, Redirected},
};
use crate::{
    for_http::{Has, Http, caller, is_grpc, note_idempotency, read_request, tags},
    protocol::{Asked, Judge, Protocol, Report, Sending},
};

/// The protocol of reqwest's requests.
#[derive(Debug, Clone, Default)]
pub struct Reqwest {
    http: Http,
}

impl Reqwest {
    /// With a protocol that names the client.
    #[must_use]
    pub const fn new(http: Http) -> Self {
        Self { http }
    }
}

/// What is kept of a request: the request itself, until a body that cannot be cloned is sent.
pub struct Kept {
    request: Option<reqwest::Request>,
    replayable: bool,
    feature: Option<HeaderValue>,
    inside: bool,
    classifier: Option<Classifier>,
    /// The caller as the target sees it, once the request itself is gone.
    caller: u64,
}

impl Protocol<Tagged> for Reqwest {
    type Kept = Kept;
    type Attempt = reqwest::Request;

    fn accept(&self, tagged: Tagged, policy: &ServicePolicy) -> (Asked, Kept) {
        let Tagged {
            mut request,
            tags: own,
        } = tagged;
        let method = request.method().clone();
        let by_hand = self.http.is_idempotent(&method, || request.url().path());
        let idempotent = note_idempotency(&method, request.headers_mut(), by_hand, policy);
        let received = tags::Received::left(request.headers());
        let (asked, feature) = read_request(idempotent, received, (Some(&own), None), policy);
        let replayable = match request.body() {
            None => true,
            // A body in memory is cloned by counting; one that streams has no bytes to show.
            Some(body) => body
                .as_bytes()
                .is_some_and(|bytes| bytes.len() <= policy.replay_limit),
        };
        (
            Asked { replayable, ..asked },
            Kept {
                request: Some(request),
                replayable,
                feature,
                inside: policy.tags,
                classifier: own.classifier,
                caller: 0,
            },
        )
    }

    fn attempt(&self, kept: &mut Kept, sending: &Sending) -> Option<reqwest::Request> {
        let mut request = if kept.replayable {
            kept.request.as_ref()?.try_clone()?
        } else {
            let request = kept.request.take()?;
            kept.caller = caller_of(&request);
            request
        };
        let headers = request.headers_mut();
        headers.reserve(tags::MOST);
        let has = Has {
            tags: tags::is_tagged(headers),
            grpc: is_grpc(headers),
            inside: kept.inside,
        };
        self.http.write_tags(headers, has, kept.feature.as_ref(), sending);
        Some(request)
    }

    fn caller(&self, kept: &Kept) -> u64 {
        kept.request.as_ref().map_or(kept.caller, caller_of)
    }

    fn classifier<'k>(&self, kept: &'k Kept) -> Option<&'k Classifier> {
        kept.classifier.as_ref()
    }

    fn can_replay(&self, kept: &Kept) -> bool {
        kept.replayable
    }
}

fn caller_of(request: &reqwest::Request) -> u64 {
    caller(|name| request.headers().get_all(name).iter())
}

impl Judge<reqwest::Response, AttemptError> for Reqwest {
    fn succeeds(&self, response: &reqwest::Response) -> bool {
        response.status().as_u16() < 400 && self.http.reads_as_usual()
    }

    fn judge(&self, result: &Result<reqwest::Response, AttemptError>, classifier: &Classifier) -> Outcome {
        match result {
            Ok(response) => judge_response(&self.http, response, classifier),
            Err(attempt) => match attempt.redirected {
                Redirected::No => self.http.network(&attempt.error, classifier),
                // The server that redirected has processed the request.
                Redirected::Yes => classifier.network(NetworkError::Other),
                // It may have been the server of a redirect that was not reached.
                Redirected::Unknown => may_have_been_sent(self.http.network(&attempt.error, classifier)),
            },
        }
    }

    fn conclude(&self, response: &mut reqwest::Response, report: &Report) {
        report.attach(response.extensions_mut());
    }
}

impl Judge<reqwest::Response, reqwest::Error> for Reqwest {
    fn succeeds(&self, response: &reqwest::Response) -> bool {
        response.status().as_u16() < 400 && self.http.reads_as_usual()
    }

    fn judge(&self, result: &Result<reqwest::Response, reqwest::Error>, classifier: &Classifier) -> Outcome {
        match result {
            Ok(response) => judge_response(&self.http, response, classifier),
            Err(error) => self.http.network(error, classifier),
        }
    }

    fn conclude(&self, response: &mut reqwest::Response, report: &Report) {
        report.attach(response.extensions_mut());
    }
}

fn may_have_been_sent(mut outcome: Outcome) -> Outcome {
    if let Outcome::Failure(failure) = &mut outcome {
        failure.hints.never_sent = false;
    }
    outcome
}

fn judge_response(http: &Http, response: &reqwest::Response, classifier: &Classifier) -> Outcome {
    if let Some(outcome) = http.own_reading(response.status(), response.headers()) {
        return outcome;
    }
    let status = response.status().as_u16();
    if status < 400 {
        return Outcome::Success;
    }
    classifier.http(status, tags::read_hints(response.headers()))
}
