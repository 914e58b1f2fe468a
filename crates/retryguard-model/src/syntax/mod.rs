//! The PRISM language, from text to tree. No meaning is given here: names are not resolved, types not known.

pub(crate) mod ast;
mod commands;
mod expressions;
mod filters;
mod lexer;
mod model;
mod properties;
mod tokens;

pub(crate) use model::parse_model;
pub(crate) use properties::parse_properties;
