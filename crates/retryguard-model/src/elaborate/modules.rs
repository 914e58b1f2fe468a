//! Modules with their copies made, and the variables of the state.

use std::collections::HashMap;

use super::Renames;
use super::scope::Scope;
use super::value::Value;
use crate::error::Error;
use crate::expr::{Expr, Kind};
use crate::program::{Command, Update, Variable};
use crate::syntax::ast::{self, ModuleBody, Range};

/// A module as written, and the renaming that makes it this copy.
pub(super) struct Expanded<'a> {
    pub(super) name: &'a ast::Name,
    pub(super) variables: &'a [ast::Variable],
    pub(super) commands: &'a [ast::Command],
    pub(super) renames: Renames,
}

pub(super) fn expand(model: &ast::Model) -> Result<Vec<Expanded<'_>>, Error> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut expanded: Vec<Expanded<'_>> = Vec::new();
    for module in &model.modules {
        let made = match &module.body {
            ModuleBody::Written { variables, commands } => Expanded {
                name: &module.name,
                variables,
                commands,
                renames: Renames::new(),
            },
            ModuleBody::Renamed { base, renames } => {
                let Some(original) = places.get(base.text.as_str()).map(|place| &expanded[*place]) else {
                    return Err(Error::at(
                        base.span,
                        format!("the module `{}` is not defined before this copy of it", base.text),
                    ));
                };
                let mut map = Renames::new();
                for (from, to) in renames {
                    if map.insert(from.text.clone(), to.text.clone()).is_some() {
                        return Err(Error::at(from.span, format!("`{}` is renamed twice", from.text)));
                    }
                }
                // A copy of a copy: the first renaming, then the second.
                let mut both: Renames = original
                    .renames
                    .iter()
                    .map(|(from, to)| (from.clone(), map.get(to).unwrap_or(to).clone()))
                    .collect();
                for (from, to) in map {
                    both.entry(from).or_insert(to);
                }
                Expanded {
                    name: &module.name,
                    variables: original.variables,
                    commands: original.commands,
                    renames: both,
                }
            }
        };
        if places.insert(&module.name.text, expanded.len()).is_some() {
            return Err(Error::at(
                module.name.span,
                format!("a second module `{}`", module.name.text),
            ));
        }
        expanded.push(made);
    }
    Ok(expanded)
}

/// Declares every variable in `scope`, globals first.
pub(super) fn variables(
    scope: &mut Scope<'_>,
    model: &ast::Model,
    modules: &[Expanded<'_>],
) -> Result<Vec<Variable>, Error> {
    let mut found = Vec::new();
    let written = model
        .globals
        .iter()
        .map(|variable| (variable, None, Renames::new()))
        .chain(modules.iter().enumerate().flat_map(|(place, module)| {
            module
                .variables
                .iter()
                .map(move |variable| (variable, Some(place), module.renames.clone()))
        }));
    for (variable, module, renames) in written {
        let resolved = declare(scope, variable, module, &renames, found.len())?;
        found.push(resolved);
    }
    if model.init.is_some() {
        let explicit = model
            .globals
            .iter()
            .chain(modules.iter().flat_map(|m| m.variables))
            .find_map(|v| v.init.as_ref());
        if let Some(init) = explicit {
            return Err(Error::at(
                init.span,
                "an `init` block and an initial value of a variable exclude each other",
            ));
        }
    }
    Ok(found)
}

fn declare(
    scope: &mut Scope<'_>,
    variable: &ast::Variable,
    module: Option<usize>,
    renames: &Renames,
    place: usize,
) -> Result<Variable, Error> {
    let name = match renames.get(&variable.name.text) {
        Some(new) => new.clone(),
        None if !renames.is_empty() => {
            return Err(Error::at(
                variable.name.span,
                format!(
                    "a copy of this module must rename its variable `{}`",
                    variable.name.text
                ),
            ));
        }
        None => variable.name.text.clone(),
    };
    let whole = |scope: &Scope<'_>, expr: &ast::Expr| {
        let resolved = scope.resolve(expr, renames)?;
        match resolved {
            Expr::Int(value) => Ok(value),
            _ => Err(Error::at(
                expr.span,
                "expected a whole number that does not depend on the state",
            )),
        }
    };
    let boolean = variable.range == Range::Bool;
    let (low, high) = match &variable.range {
        Range::Bool => (0, 1),
        Range::Int(low, high) => (whole(scope, low)?, whole(scope, high)?),
        // The values of PRISM's own integers.
        Range::AnyInt => (i64::from(-i32::MAX), i64::from(i32::MAX)),
    };
    if low > high || high.checked_sub(low).is_none() {
        return Err(Error::at(
            variable.name.span,
            format!("the range [{low}..{high}] of `{name}` is empty"),
        ));
    }
    let init = match &variable.init {
        None if variable.range == Range::AnyInt => 0,
        None => low,
        Some(init) if boolean => match scope.value(init)? {
            Value::Bool(value) => i64::from(value),
            _ => return Err(Error::at(init.span, "expected true or false")),
        },
        Some(init) => whole(scope, init)?,
    };
    if init < low || init > high {
        return Err(Error::at(
            variable.name.span,
            format!("the initial value {init} of `{name}` is outside its range [{low}..{high}]"),
        ));
    }
    scope.declare_variable(&name, variable.name.span, place, boolean)?;
    Ok(Variable {
        name,
        low,
        high,
        init,
        boolean,
        module,
        mirrored: false,
    })
}

/// The commands of one module, each with its action.
pub(super) fn commands(
    scope: &Scope<'_>,
    module: &Expanded<'_>,
    place: usize,
    variables: &[Variable],
) -> Result<Vec<(Option<String>, Command)>, Error> {
    let range = |variable: usize| (variables[variable].low, variables[variable].high);
    let mut found = Vec::new();
    for command in module.commands {
        let action = command.action.as_ref().map(|name| {
            module
                .renames
                .get(&name.text)
                .cloned()
                .unwrap_or_else(|| name.text.clone())
        });
        let guard = scope.condition(&command.guard, &module.renames)?.within(&range);
        let mut updates = Vec::new();
        for written in &command.updates {
            updates.push(update(scope, written, module, place, variables)?);
        }
        found.push((
            action,
            Command {
                guard,
                updates,
                span: command.span,
            },
        ));
    }
    Ok(found)
}

fn update(
    scope: &Scope<'_>,
    written: &ast::Update,
    module: &Expanded<'_>,
    place: usize,
    variables: &[Variable],
) -> Result<Update, Error> {
    let rate = match &written.rate {
        None => Expr::real(1.0),
        Some(rate) => {
            let resolved = scope.resolve(rate, &module.renames)?;
            if resolved.kind() == Kind::Bool {
                return Err(Error::at(rate.span, "expected a rate, found a truth value"));
            }
            resolved
        }
    };
    let mut assignments: Vec<(usize, Expr)> = Vec::new();
    for (name, value) in &written.assignments {
        let new = module.renames.get(&name.text).unwrap_or(&name.text);
        let Some((variable, boolean)) = scope.variables.get(new).copied() else {
            return Err(scope.unknown(new, name.span));
        };
        if variables[variable].module.is_some_and(|owner| owner != place) {
            return Err(Error::at(
                name.span,
                format!(
                    "`{new}` belongs to another module: only its own module may assign it, or make it global"
                ),
            ));
        }
        if assignments.iter().any(|(known, _)| *known == variable) {
            return Err(Error::at(
                name.span,
                format!("`{new}` is assigned twice in one update"),
            ));
        }
        let resolved = scope.resolve(value, &module.renames)?;
        match (resolved.kind(), boolean) {
            (Kind::Int, false) | (Kind::Bool, true) => {}
            (Kind::Real, false) => {
                return Err(Error::with_help(
                    value.span,
                    format!("a double cannot be assigned to the whole-number variable `{new}`"),
                    "use floor, ceil or round",
                ));
            }
            _ => {
                return Err(Error::at(
                    value.span,
                    format!("this value is not of the type of `{new}`"),
                ));
            }
        }
        assignments.push((variable, resolved));
    }
    Ok(Update {
        rate,
        assignments,
        span: written.span,
    })
}
