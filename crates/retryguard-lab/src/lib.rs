//! Five real services, faults, load and experiments: what retry policies really do.
