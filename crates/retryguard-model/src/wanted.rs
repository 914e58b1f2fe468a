//! What the questions want of a chain.

use crate::expr::Expr;

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
