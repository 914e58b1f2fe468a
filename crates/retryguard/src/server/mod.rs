//! The server side: reads the tags of requests, sheds by them, bounds the work by their deadline, and tells
//! refused clients when to come back.

mod body;
mod future;
mod layer;
mod processor;
mod refuse;
mod service;
mod shared;
mod trust;

pub use body::ServerBody;
pub use future::ServerFuture;
pub use layer::ServerLayer;
pub(crate) use layer::WeakServer;
pub use service::ServerGuard;
