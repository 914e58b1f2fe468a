//! HTTP and gRPC: tags on requests, hints on responses, bodies that can be sent again, failures in trailers.

mod buffered;
mod endpoints;
mod errors;
mod head;
mod layer;
mod patience;
mod peek;
mod protocol;
mod replay;
pub mod tags;

pub use buffered::{Buffered, BufferedFuture, BufferedLayer};
pub use endpoints::{BaseUri, HttpEndpoints};
#[cfg(feature = "reqwest")]
pub(crate) use head::caller;
pub use layer::{HttpLayer, HttpService};
pub use patience::BodyTimedOut;
#[cfg(feature = "reqwest")]
pub(crate) use patience::PatientBody;
pub(crate) use patience::{Patience, Pause};
pub(crate) use peek::is_grpc;
pub use peek::{GrpcStatus, Peek, PeekBody, PeekFuture, StreamBroke};
#[cfg(feature = "reqwest")]
pub(crate) use protocol::{Has, note_idempotency, read_request};
pub use protocol::{Http, KeptRequest, NetworkFailure};
pub use replay::{ReplayBody, Superseded};
