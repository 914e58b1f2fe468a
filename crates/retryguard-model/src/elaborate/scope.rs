//! What names mean, and expressions in their terms.

use std::cell::Cell;
use std::collections::HashMap;

use super::Renames;
use super::value::Value;
use crate::error::Error;
use crate::expr::{Arithmetic, Compare, Expr, Kind, Rounding};
use crate::source::Span;
use crate::syntax::ast::{self, Binary, ExprKind, Function};

/// How many nodes one expression may have once its formulas are in place. Formulas that double a dozen times would
/// otherwise fill the memory from a text of a few lines.
const MAX_NODES: usize = 2_000_000;

/// How deep formulas may make an expression.
const MAX_HEIGHT: usize = 2_000;

pub(crate) struct Scope<'a> {
    pub(super) formulas: HashMap<&'a str, &'a ast::Expr>,
    pub(super) labels: HashMap<&'a str, &'a ast::Expr>,
    pub(super) constants: HashMap<String, Value>,
    pub(super) variables: HashMap<String, (usize, bool)>,
    /// Names of constants, also of those not evaluated yet.
    pub(super) declared: HashMap<&'a str, Span>,
    nodes: Cell<usize>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(model: &'a ast::Model) -> Result<Scope<'a>, Error> {
        let mut declared: HashMap<&'a str, Span> = HashMap::new();
        let mut declare = |name: &'a ast::Name| match declared.insert(&name.text, name.span) {
            None => Ok(()),
            Some(_) => Err(Error::at(name.span, format!("`{}` is declared twice", name.text))),
        };
        let mut formulas = HashMap::new();
        for (name, value) in &model.formulas {
            declare(name)?;
            formulas.insert(name.text.as_str(), value);
        }
        for constant in &model.constants {
            declare(&constant.name)?;
        }
        let labels = model.labels.iter();
        Ok(Scope {
            formulas,
            labels: labels.map(|(name, value)| (name.text.as_str(), value)).collect(),
            constants: HashMap::new(),
            variables: HashMap::new(),
            declared,
            nodes: Cell::new(0),
        })
    }

    pub(crate) fn has_value(&self, constant: &str) -> bool {
        self.constants.contains_key(constant)
    }

    pub(super) fn declare_variable(
        &mut self,
        name: &str,
        span: Span,
        place: usize,
        boolean: bool,
    ) -> Result<(), Error> {
        if self.declared.contains_key(name)
            || self.variables.insert(name.to_owned(), (place, boolean)).is_some()
        {
            return Err(Error::at(span, format!("`{name}` is declared twice")));
        }
        Ok(())
    }

    /// `expr` as a condition.
    pub(crate) fn condition(&self, expr: &ast::Expr, renames: &Renames) -> Result<Expr, Error> {
        let resolved = self.resolve(expr, renames)?;
        if resolved.kind() != Kind::Bool {
            return Err(Error::at(expr.span, "expected a condition, found a number"));
        }
        Ok(resolved)
    }

    /// `expr` without variables, as a value.
    pub(crate) fn value(&self, expr: &ast::Expr) -> Result<Value, Error> {
        let resolved = self.resolve(expr, &Renames::new())?;
        let fault = |fault: crate::expr::Fault| Error::at(expr.span, fault.reason());
        let mut variable = false;
        resolved.variables(&mut |_| variable = true);
        if variable {
            return Err(Error::at(
                expr.span,
                "expected a constant, found an expression that depends on the state",
            ));
        }
        Ok(match resolved.kind() {
            Kind::Int => Value::Int(resolved.stored(&[]).map_err(fault)?),
            Kind::Real => Value::Real(resolved.real_value(&[]).map_err(fault)?),
            Kind::Bool => Value::Bool(resolved.truth(&[]).map_err(fault)?),
        })
    }

    /// `expr` with every name resolved; the names of a copied module are renamed first.
    pub(crate) fn resolve(&self, expr: &ast::Expr, renames: &Renames) -> Result<Expr, Error> {
        self.nodes.set(0);
        self.walk(expr, renames, 0)
    }

    fn walk(&self, expr: &ast::Expr, renames: &Renames, height: usize) -> Result<Expr, Error> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > MAX_NODES || height > MAX_HEIGHT {
            return Err(Error::at(
                expr.span,
                "the formulas here refer to themselves, or expand to too much text",
            ));
        }
        let walk = |inner: &ast::Expr| self.walk(inner, renames, height + 1);
        match &expr.kind {
            ExprKind::Int(value) => Ok(Expr::Int(*value)),
            ExprKind::Real(value) => Ok(Expr::real(*value)),
            ExprKind::Bool(value) => Ok(Expr::Bool(*value)),
            ExprKind::Name(name) => self.name(name, expr.span, renames, height),
            ExprKind::Not(a) => {
                let inner = walk(a)?;
                wanted(Kind::Bool, &inner, a.span)?;
                Ok(Expr::negation(inner))
            }
            ExprKind::Minus(a) => {
                let inner = numeric(walk(a)?, a.span)?;
                let kind = inner.kind();
                Ok(Expr::arithmetic(Arithmetic::Subtract, kind, Expr::Int(0), inner))
            }
            ExprKind::Binary(operator, a, b) => {
                let (left, right) = (walk(a)?, walk(b)?);
                binary(*operator, left, right, a.span, b.span)
            }
            ExprKind::IfThenElse(condition, yes, no) => {
                let test = walk(condition)?;
                wanted(Kind::Bool, &test, condition.span)?;
                let (first, second) = (walk(yes)?, walk(no)?);
                if (first.kind() == Kind::Bool) != (second.kind() == Kind::Bool) {
                    return Err(Error::at(
                        expr.span,
                        "the two sides of `?` are of different types",
                    ));
                }
                Ok(Expr::if_then_else(test, first, second))
            }
            ExprKind::Call(function, arguments) => {
                let mut resolved = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    resolved.push(numeric(walk(argument)?, argument.span)?);
                }
                call(*function, resolved, expr.span)
            }
            ExprKind::Label(label) => match self.labels.get(label.as_str()) {
                Some(condition) => {
                    let inner = self.walk(condition, &super::NO_RENAMES, height + 1)?;
                    wanted(Kind::Bool, &inner, condition.span)?;
                    Ok(inner)
                }
                None => {
                    let reason = format!("there is no label \"{label}\"");
                    Err(match nearest(label, self.labels.keys().copied()) {
                        Some(known) => {
                            Error::with_help(expr.span, reason, format!("did you mean \"{known}\"?"))
                        }
                        None => Error::at(expr.span, reason),
                    })
                }
            },
            ExprKind::Query(_) | ExprKind::Branching(..) | ExprKind::Filter(_) | ExprKind::Path(_) => {
                Err(Error::with_help(
                    expr.span,
                    "a question can stand in a property only, and not in a label",
                    "give the property a name, and use the name in other properties",
                ))
            }
        }
    }

    fn name(&self, written: &str, span: Span, renames: &Renames, height: usize) -> Result<Expr, Error> {
        // Formulas are put in place before a module is copied, so the renaming reaches into them.
        if let Some(formula) = self.formulas.get(written) {
            return self.walk(formula, renames, height + 1);
        }
        let name = renames.get(written).map_or(written, String::as_str);
        if let Some(formula) = self.formulas.get(name) {
            return self.walk(formula, renames, height + 1);
        }
        if let Some((place, boolean)) = self.variables.get(name) {
            return Ok(Expr::Variable(*place, *boolean));
        }
        match self.constants.get(name) {
            Some(Value::Int(value)) => Ok(Expr::Int(*value)),
            Some(Value::Real(value)) => Ok(Expr::real(*value)),
            Some(Value::Bool(value)) => Ok(Expr::Bool(*value)),
            None if self.declared.contains_key(name) => Err(Error::OpenConstant {
                name: name.to_owned(),
            }),
            None => Err(self.unknown(name, span)),
        }
    }

    pub(super) fn unknown(&self, name: &str, span: Span) -> Error {
        let known = self
            .variables
            .keys()
            .map(String::as_str)
            .chain(self.declared.keys().copied());
        let reason = format!("`{name}` is not declared");
        match nearest(name, known) {
            Some(known) => Error::with_help(span, reason, format!("did you mean `{known}`?")),
            None => Error::with_help(span, reason, "declare it as a constant, a formula or a variable"),
        }
    }
}

/// The known name that `name` may have been meant to be: at most two letters apart, and half of it right.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    known
        .map(|known| (distance(known, name), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 && 2 * distance <= known.len().max(name.len()))
        .map(|(_, known)| known)
}

fn wanted(kind: Kind, found: &Expr, span: Span) -> Result<(), Error> {
    if (found.kind() == Kind::Bool) == (kind == Kind::Bool) {
        return Ok(());
    }
    Err(Error::at(
        span,
        if kind == Kind::Bool {
            "expected a condition, found a number"
        } else {
            "expected a number, found a truth value"
        },
    ))
}

fn numeric(expr: Expr, span: Span) -> Result<Expr, Error> {
    wanted(Kind::Int, &expr, span)?;
    Ok(expr)
}

fn common(a: &Expr, b: &Expr) -> Kind {
    if a.kind() == Kind::Int && b.kind() == Kind::Int {
        Kind::Int
    } else {
        Kind::Real
    }
}

fn binary(operator: Binary, a: Expr, b: Expr, a_span: Span, b_span: Span) -> Result<Expr, Error> {
    let compare = |compare, a: Expr, b: Expr| {
        let kind = common(&a, &b);
        Ok(Expr::compare(compare, kind, a, b))
    };
    match operator {
        Binary::And | Binary::Or | Binary::Implies | Binary::Iff => {
            wanted(Kind::Bool, &a, a_span)?;
            wanted(Kind::Bool, &b, b_span)?;
        }
        Binary::Equal | Binary::NotEqual if a.kind() == Kind::Bool || b.kind() == Kind::Bool => {
            wanted(a.kind(), &b, b_span)?;
            let comparison = if operator == Binary::Equal {
                Compare::Equal
            } else {
                Compare::NotEqual
            };
            return Ok(Expr::compare(comparison, Kind::Bool, a, b));
        }
        _ => {
            wanted(Kind::Int, &a, a_span)?;
            wanted(Kind::Int, &b, b_span)?;
        }
    }
    match operator {
        Binary::And => Ok(Expr::and(vec![a, b])),
        Binary::Or => Ok(Expr::or(vec![a, b])),
        Binary::Implies => Ok(Expr::or(vec![Expr::negation(a), b])),
        Binary::Iff => Ok(Expr::compare(Compare::Equal, Kind::Bool, a, b)),
        Binary::Equal => compare(Compare::Equal, a, b),
        Binary::NotEqual => compare(Compare::NotEqual, a, b),
        Binary::Less => compare(Compare::Less, a, b),
        Binary::LessOrEqual => compare(Compare::LessOrEqual, a, b),
        Binary::Greater => compare(Compare::Less, b, a),
        Binary::GreaterOrEqual => compare(Compare::LessOrEqual, b, a),
        Binary::Add | Binary::Subtract | Binary::Multiply => {
            let kind = common(&a, &b);
            let operator = match operator {
                Binary::Add => Arithmetic::Add,
                Binary::Subtract => Arithmetic::Subtract,
                _ => Arithmetic::Multiply,
            };
            Ok(Expr::arithmetic(operator, kind, a, b))
        }
        Binary::Divide => Ok(Expr::arithmetic(Arithmetic::Divide, Kind::Real, a, b)),
    }
}

fn call(function: Function, arguments: Vec<Expr>, span: Span) -> Result<Expr, Error> {
    let whole = arguments.iter().all(|argument| argument.kind() == Kind::Int);
    let kind = if whole { Kind::Int } else { Kind::Real };
    let operator = match function {
        Function::Min => Arithmetic::Min,
        Function::Max => Arithmetic::Max,
        Function::Pow => Arithmetic::Pow,
        Function::Log => Arithmetic::Log,
        Function::Mod if whole => Arithmetic::Mod,
        Function::Mod => return Err(Error::at(span, "mod is defined for whole numbers only")),
        Function::Floor | Function::Ceil | Function::Round => {
            let rounding = match function {
                Function::Floor => Rounding::Floor,
                Function::Ceil => Rounding::Ceil,
                _ => Rounding::Nearest,
            };
            let argument = arguments.into_iter().next().unwrap_or(Expr::Int(0));
            return Ok(Expr::round(rounding, argument));
        }
    };
    let kind = if operator == Arithmetic::Log {
        Kind::Real
    } else {
        kind
    };
    let mut arguments = arguments.into_iter();
    let first = arguments.next().unwrap_or(Expr::Int(0));
    Ok(arguments.fold(first, |a, b| Expr::arithmetic(operator, kind, a, b)))
}

/// The number of letters to change, add or drop.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = (diagonal + usize::from(x != *y))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = cost;
        }
    }
    row[b.len()]
}
