//! Files of other systems as policies, and back.

mod envoy_validate;
mod files;
mod round_trips;
