//! The client side: one layer that runs a whole policy around any tower service.

mod function;
mod future;
mod layer;
mod sending;
mod service;

pub use function::{CallBuilder, ErrorsFail, ReadBy, Reading, RetryIf, call, target};
pub use future::ResponseFuture;
pub use layer::RetryGuardLayer;
pub use service::RetryGuard;
