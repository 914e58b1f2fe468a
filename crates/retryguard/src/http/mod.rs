//! HTTP and gRPC: tags on requests, hints on responses, bodies that can be sent again, failures in trailers.

mod layer;
mod peek;
mod protocol;
mod replay;
pub mod tags;

pub use layer::{HttpLayer, HttpService};
pub(crate) use peek::is_grpc;
pub use peek::{GrpcStatus, Peek, PeekBody, PeekFuture};
#[cfg(feature = "reqwest")]
pub(crate) use protocol::read_request;
pub use protocol::{Http, KeptRequest, NetworkFailure};
pub use replay::ReplayBody;
