//! The documented order of decisions: where two parts would refuse, the first one named is what is reported,
//! and what a refusal leaves unspent.

mod admitting;
mod retrying;
mod waiting;
