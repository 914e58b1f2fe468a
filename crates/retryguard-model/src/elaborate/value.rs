//! The values of constants and variables.

use std::fmt;

/// The value of a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A double.
    Real(f64),
    /// A truth value.
    Bool(bool),
}

impl Value {
    /// The number; `None` for a truth value.
    pub fn number(self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(value as f64),
            Value::Real(value) => Some(value),
            Value::Bool(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => value.fmt(f),
            Value::Real(value) => value.fmt(f),
            Value::Bool(value) => value.fmt(f),
        }
    }
}
