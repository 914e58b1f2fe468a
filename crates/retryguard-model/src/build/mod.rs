//! The explicit state space, breadth first.

mod explore;
mod guard;
mod initial;
mod pack;
mod successors;

use crate::chain::Chain;
use crate::error::Error;
use crate::options::Options;
use crate::program::Program;
use crate::reduce::Reduction;
use crate::wanted::Wanted;

/// Builds the chain of `program`, reduced as `reduction` says.
pub(crate) fn build(
    program: &Program,
    wanted: &Wanted,
    reduction: &Reduction,
    options: &Options,
) -> Result<Chain, Error> {
    let packing = pack::Packing::new(program)?;
    match packing.bits() {
        0..=64 => explore::explore::<u64>(program, wanted, reduction, options, &packing),
        65..=128 => explore::explore::<u128>(program, wanted, reduction, options, &packing),
        129..=256 => explore::explore::<[u64; 4]>(program, wanted, reduction, options, &packing),
        _ => explore::explore::<[u64; 16]>(program, wanted, reduction, options, &packing),
    }
}
