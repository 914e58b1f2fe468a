//! A real API server with Istio's VirtualService, and what the actuator `istio` and the Lease do to it. There is
//! no Istio behind it: what is proven is what stands in the cluster, not what proxies make of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod cluster;
mod created;
mod deploy;
mod edits;
mod gateway;
mod gitops;
mod helm;
mod hostile;
mod lease;
mod life;
mod linkerd;
mod restart;
mod whole;
