//! The explicit state space, breadth first.

mod explore;
mod guard;
mod initial;
mod pack;
mod successors;

use crate::chain::Chain;
use crate::error::Error;
use crate::expr::Expr;
use crate::options::Options;
use crate::program::Program;
use crate::reduce::Reduction;

/// What a chain must keep of its states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Reward structures, by their place in the program.
    pub(crate) rewards: Vec<usize>,
    /// Conditions.
    pub(crate) conditions: Vec<Expr>,
    /// Numbers.
    pub(crate) values: Vec<Expr>,
    /// States that need not be left: nothing asked depends on what follows them.
    pub(crate) stop: Option<Expr>,
    /// Whether the values of the variables are kept, for export.
    pub(crate) valuations: bool,
}

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
