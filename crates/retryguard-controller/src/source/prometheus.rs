//! A Prometheus server as a source of signals.
