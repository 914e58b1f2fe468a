//! Envoy as a data plane: runtime discovery and the admin endpoint.
