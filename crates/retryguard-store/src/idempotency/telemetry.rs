//! The layer's metrics.

/// Requests with a key, by what became of them and by backend.
pub(super) const REQUESTS: &str = "retryguard_idempotency_requests_total";
/// Responses that the handler gave and the store did not take.
pub(super) const UNRECORDED: &str = "retryguard_idempotency_unrecorded_total";
/// Keys that were forgotten because their time was over.
pub(super) const SWEPT: &str = "retryguard_idempotency_swept_total";

pub(super) fn count(result: &'static str, backend: crate::Backend) {
    metrics::counter!(REQUESTS, "result" => result, "backend" => backend.as_str()).increment(1);
}
