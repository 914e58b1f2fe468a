//! The values of constants: defined by an expression, or given from outside.

use std::collections::{BTreeMap, HashMap};

use super::scope::Scope;
use super::value::Value;
use crate::error::Error;
use crate::syntax::ast::{self, ExprKind, Type};

/// How long a chain of constants that use each other may be.
const MAX_CHAIN: usize = 500;

pub(super) fn evaluate<'a>(
    scope: &mut Scope<'a>,
    model: &'a ast::Model,
    file: &'a ast::PropertyFile,
    given: &BTreeMap<String, Value>,
) -> Result<(), Error> {
    let mut definitions: HashMap<&str, (&'a ast::Constant, bool)> = HashMap::new();
    for constant in &model.constants {
        definitions.insert(&constant.name.text, (constant, false));
    }
    for constant in &file.constants {
        let name = constant.name.text.as_str();
        if scope.declared.insert(name, constant.name.span).is_some() {
            return Err(Error::at(constant.name.span, format!("`{name}` is declared twice")).in_properties());
        }
        definitions.insert(name, (constant, true));
    }
    for (name, value) in given {
        let refuse = |reason: &str| Error::GivenConstant {
            name: name.clone(),
            reason: reason.to_owned(),
        };
        let Some((constant, _)) = definitions.get(name.as_str()) else {
            return Err(refuse(&no_such_constant(&definitions)));
        };
        if constant.value.is_some() {
            return Err(refuse(
                "the model gives this constant its value itself; leave it open there (`const int N;`) to give it here",
            ));
        }
        let value = converted(*value, constant.ty).ok_or_else(|| {
            refuse(match constant.ty {
                ast::Type::Int => {
                    "the value is of the wrong type: the constant is an int and takes a whole number"
                }
                ast::Type::Double => {
                    "the value is of the wrong type: the constant is a double and takes a number"
                }
                ast::Type::Bool => {
                    "the value is of the wrong type: the constant is a bool and takes true or false"
                }
            })
        })?;
        scope.constants.insert(name.clone(), value);
    }
    let order: Vec<&str> = model
        .constants
        .iter()
        .chain(&file.constants)
        .map(|c| c.name.text.as_str())
        .collect();
    for name in order {
        define(scope, &definitions, name, &mut Vec::new())?;
    }
    Ok(())
}

/// Said with the constants that could have been meant.
fn no_such_constant(definitions: &HashMap<&str, (&ast::Constant, bool)>) -> String {
    let mut open: Vec<&str> = definitions
        .iter()
        .filter(|(_, (constant, _))| constant.value.is_none())
        .map(|(name, _)| *name)
        .collect();
    open.sort_unstable();
    if open.is_empty() {
        "the model has no such constant, and none that is open".to_owned()
    } else {
        format!("the model has no such constant; open are {}", open.join(", "))
    }
}

fn define<'a>(
    scope: &mut Scope<'a>,
    definitions: &HashMap<&'a str, (&'a ast::Constant, bool)>,
    name: &'a str,
    chain: &mut Vec<&'a str>,
) -> Result<(), Error> {
    if scope.constants.contains_key(name) {
        return Ok(());
    }
    let Some((constant, in_properties)) = definitions.get(name) else {
        return Ok(());
    };
    let placed = |error: Error| {
        if *in_properties {
            error.in_properties()
        } else {
            error
        }
    };
    // An open constant that nothing uses may stay open; what uses it will say so.
    let Some(expr) = &constant.value else {
        return Ok(());
    };
    if chain.contains(&name) || chain.len() > MAX_CHAIN {
        return Err(placed(Error::at(
            constant.name.span,
            format!("the constant `{name}` is defined by itself"),
        )));
    }
    chain.push(name);
    let mut names = Vec::new();
    names_in(scope, expr, &mut names, 0);
    for used in names {
        define(scope, definitions, used, chain)?;
    }
    chain.pop();
    let value = match scope.value(expr) {
        Ok(value) => value,
        Err(Error::OpenConstant { .. }) => return Ok(()),
        Err(error) => return Err(placed(error)),
    };
    let value = converted(value, constant.ty).ok_or_else(|| {
        placed(Error::at(
            expr.span,
            format!("{value} is not of the type of the constant `{name}`"),
        ))
    })?;
    scope.constants.insert(name.to_owned(), value);
    Ok(())
}

/// The names that `expr` uses, also through formulas.
fn names_in<'a>(scope: &Scope<'a>, expr: &'a ast::Expr, names: &mut Vec<&'a str>, depth: usize) {
    match &expr.kind {
        ExprKind::Name(name) => {
            if names.contains(&name.as_str()) {
                return;
            }
            names.push(name);
            if let Some(formula) = scope.formulas.get(name.as_str())
                && depth < MAX_CHAIN
            {
                names_in(scope, formula, names, depth + 1);
            }
        }
        ExprKind::Not(a) | ExprKind::Minus(a) => names_in(scope, a, names, depth),
        ExprKind::Binary(_, a, b) => {
            names_in(scope, a, names, depth);
            names_in(scope, b, names, depth);
        }
        ExprKind::IfThenElse(a, b, c) => {
            names_in(scope, a, names, depth);
            names_in(scope, b, names, depth);
            names_in(scope, c, names, depth);
        }
        ExprKind::Call(_, arguments) => {
            for argument in arguments {
                names_in(scope, argument, names, depth);
            }
        }
        _ => {}
    }
}

fn converted(value: Value, ty: Type) -> Option<Value> {
    match (value, ty) {
        (Value::Int(_), Type::Int) | (Value::Real(_), Type::Double) | (Value::Bool(_), Type::Bool) => {
            Some(value)
        }
        (Value::Int(value), Type::Double) => Some(Value::Real(value as f64)),
        // A range such as 10:10:40 is made of doubles; whole ones may serve as whole numbers.
        (Value::Real(real), Type::Int) if real.fract() == 0.0 && real.abs() < 9.0e15 => {
            format!("{real:.0}").parse().ok().map(Value::Int)
        }
        _ => None,
    }
}
