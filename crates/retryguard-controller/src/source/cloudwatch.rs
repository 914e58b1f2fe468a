//! Amazon CloudWatch as a source of signals.
