//! The client side: one layer that runs a whole policy around any tower service.

mod future;
mod layer;
mod sending;
mod service;

pub use future::ResponseFuture;
pub use layer::RetryGuardLayer;
pub use service::RetryGuard;
