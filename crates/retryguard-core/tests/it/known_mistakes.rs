//! What users of other libraries run into, each mistake by name.

mod budgets;
mod impatience;
mod layers;
mod probes;
mod requests;
mod waits;
