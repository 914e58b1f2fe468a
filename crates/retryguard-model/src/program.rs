//! A model with everything resolved: what the builder runs and the reductions read.

use crate::expr::Expr;
use crate::source::Span;

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) variables: Vec<Variable>,
    pub(crate) groups: Vec<Group>,
    pub(crate) labels: Vec<(String, Expr)>,
    pub(crate) rewards: Vec<Rewards>,
    /// The `init` block, if there is one.
    pub(crate) init: Option<(Expr, Span)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) init: i64,
    pub(crate) boolean: bool,
    /// The module that owns it; `None` for a global.
    pub(crate) module: Option<usize>,
    /// Whether a state holds the distance to the other end of the range: `low + high` less the value as written.
    pub(crate) mirrored: bool,
}

/// Commands that move together: one enabled command of each part, in every combination.
///
/// The commands without an action of one module are a group of one part.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) action: Option<String>,
    pub(crate) parts: Vec<Vec<Command>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) guard: Expr,
    pub(crate) updates: Vec<Update>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) rate: Expr,
    pub(crate) assignments: Vec<(usize, Expr)>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Rewards {
    pub(crate) name: Option<String>,
    pub(crate) states: Vec<RewardItem>,
    /// With the action, `None` for transitions without one.
    pub(crate) transitions: Vec<(Option<String>, RewardItem)>,
}

#[derive(Clone, Debug)]
pub(crate) struct RewardItem {
    pub(crate) guard: Expr,
    pub(crate) value: Expr,
    pub(crate) span: Span,
}

impl Variable {
    /// Whether it is an `int` without a range: it has all values of PRISM's own integers.
    pub(crate) fn unranged(&self) -> bool {
        self.high == i64::from(i32::MAX) && self.low == -self.high
    }

    /// A value of the state as the model writes it.
    pub(crate) fn written(&self, value: i64) -> i64 {
        match self.mirrored {
            true => self.low + self.high - value,
            false => value,
        }
    }
}

impl Program {
    /// A state as an error shows it: `(x=1, on=true)`.
    pub(crate) fn show(&self, state: &[i64]) -> String {
        let shown: Vec<String> = self
            .variables
            .iter()
            .zip(state)
            .map(|(variable, value)| {
                if variable.boolean {
                    format!("{}={}", variable.name, *value != 0)
                } else {
                    format!("{}={}", variable.name, variable.written(*value))
                }
            })
            .collect();
        format!("({})", shown.join(", "))
    }
}
