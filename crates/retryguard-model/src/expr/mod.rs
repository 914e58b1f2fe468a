//! Expressions with names resolved and types known, simplified as they are made.
//!
//! Every constructor folds constants, so that putting a value in place of a variable ([`Expr::with`]) leaves the
//! shortest text that still says the same. The reductions compare such residues.

mod eval;
mod integers;
mod interval;
mod settled;
mod simplify;

pub(crate) use eval::Fault;
pub(crate) use interval::{Interval, Maybe, Vague};
pub(crate) use settled::Within;

/// A double that can be compared and hashed by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Real(u64);

impl Real {
    pub(crate) fn new(value: f64) -> Real {
        // Both zeros are one number.
        Real(if value == 0.0 { 0 } else { value.to_bits() })
    }

    pub(crate) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Int,
    Real,
    Bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    Pow,
    Mod,
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Rounding {
    Floor,
    Ceil,
    Nearest,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Expr {
    Int(i64),
    Real(Real),
    Bool(bool),
    /// A variable by its place in the state, and whether it is a truth value.
    Variable(usize, bool),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// The kind is what the two sides are compared as.
    Compare(Compare, Kind, Box<Expr>, Box<Expr>),
    /// The kind is that of the result.
    Arithmetic(Arithmetic, Kind, Box<Expr>, Box<Expr>),
    Round(Rounding, Box<Expr>),
    IfThenElse(Box<Expr>, Box<Expr>, Box<Expr>),
}

impl Expr {
    pub(crate) fn real(value: f64) -> Expr {
        Expr::Real(Real::new(value))
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Expr::Int(_) | Expr::Variable(_, false) | Expr::Round(..) => Kind::Int,
            Expr::Real(_) => Kind::Real,
            Expr::Bool(_)
            | Expr::Variable(_, true)
            | Expr::Not(_)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Compare(..) => Kind::Bool,
            Expr::Arithmetic(_, kind, ..) => *kind,
            Expr::IfThenElse(_, yes, no) => match (yes.kind(), no.kind()) {
                (Kind::Int, Kind::Int) => Kind::Int,
                (Kind::Bool, _) => Kind::Bool,
                _ => Kind::Real,
            },
        }
    }

    pub(crate) fn is_constant(&self) -> bool {
        matches!(self, Expr::Int(_) | Expr::Real(_) | Expr::Bool(_))
    }

    /// Calls `visit` with every variable that the expression reads.
    pub(crate) fn variables(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Expr::Int(_) | Expr::Real(_) | Expr::Bool(_) => {}
            Expr::Variable(variable, _) => visit(*variable),
            Expr::Not(a) | Expr::Round(_, a) => a.variables(visit),
            Expr::And(parts) | Expr::Or(parts) => {
                for part in parts {
                    part.variables(visit);
                }
            }
            Expr::Compare(_, _, a, b) | Expr::Arithmetic(_, _, a, b) => {
                a.variables(visit);
                b.variables(visit);
            }
            Expr::IfThenElse(a, b, c) => {
                a.variables(visit);
                b.variables(visit);
                c.variables(visit);
            }
        }
    }

    pub(crate) fn reads(&self, variable: usize) -> bool {
        let mut found = false;
        self.variables(&mut |v| found |= v == variable);
        found
    }
}
