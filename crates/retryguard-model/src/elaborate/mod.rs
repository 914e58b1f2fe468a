//! From tree to program: constants given their values, formulas put in place, copies of modules made, types checked.

mod composition;
mod constants;
mod modules;
pub(crate) mod properties;
mod scope;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::expr::{Expr, Kind};
use crate::program::{Program, RewardItem, Rewards};
use crate::syntax::ast;

pub(crate) use scope::Scope;
pub use value::Value;

/// Resolves `model` with the given values of its open constants.
///
/// The constants and labels of a property file live in the same scope, as they do in PRISM.
pub(crate) fn elaborate<'a>(
    model: &'a ast::Model,
    file: &'a ast::PropertyFile,
    given: &BTreeMap<String, Value>,
) -> Result<(Program, Scope<'a>), Error> {
    let mut scope = Scope::new(model)?;
    for (name, value) in &file.labels {
        scope.labels.entry(&name.text).or_insert(value);
    }
    constants::evaluate(&mut scope, model, file, given)?;
    let modules = modules::expand(model)?;
    let variables = modules::variables(&mut scope, model, &modules)?;
    let groups = composition::compose(&scope, model, &modules, &variables)?;
    let mut labels = Vec::new();
    for (name, value) in &model.labels {
        if labels.iter().any(|(known, _)| *known == name.text) {
            return Err(Error::at(name.span, format!("a second label \"{}\"", name.text)));
        }
        labels.push((name.text.clone(), scope.condition(value, &NO_RENAMES)?));
    }
    for (name, value) in &file.labels {
        let condition = scope
            .condition(value, &NO_RENAMES)
            .map_err(Error::in_properties)?;
        labels.push((name.text.clone(), condition));
    }
    let actions = composition::actions(model, &modules);
    let rewards = model
        .rewards
        .iter()
        .map(|structure| rewards(&scope, structure, &actions))
        .collect::<Result<_, _>>()?;
    let init = match &model.init {
        Some(init) => Some((scope.condition(init, &NO_RENAMES)?, init.span)),
        None => None,
    };
    let program = Program {
        variables,
        groups,
        labels,
        rewards,
        init,
    };
    Ok((program, scope))
}

/// Old name → new name, in the copy of a module.
pub(crate) type Renames = BTreeMap<String, String>;

static NO_RENAMES: Renames = Renames::new();

fn rewards(
    scope: &Scope<'_>,
    structure: &ast::RewardStructure,
    actions: &BTreeSet<String>,
) -> Result<Rewards, Error> {
    let mut states = Vec::new();
    let mut transitions = Vec::new();
    for item in &structure.items {
        let resolved = RewardItem {
            guard: scope.condition(&item.guard, &NO_RENAMES)?,
            value: number(scope, &item.value)?,
            span: item.value.span,
        };
        match &item.action {
            None => states.push(resolved),
            Some(None) => transitions.push((None, resolved)),
            // A reward for what never happens is a misspelt one, and would be silently nothing.
            Some(Some(action)) if !actions.contains(&action.text) => {
                let reason = format!("no command has the action `{}`", action.text);
                let known = scope::nearest(&action.text, actions.iter().map(String::as_str));
                return Err(match known {
                    Some(known) => Error::with_help(action.span, reason, format!("did you mean `{known}`?")),
                    None => Error::at(action.span, reason),
                });
            }
            Some(Some(action)) => transitions.push((Some(action.text.clone()), resolved)),
        }
    }
    Ok(Rewards {
        name: structure.name.as_ref().map(|name| name.text.clone()),
        states,
        transitions,
    })
}

fn number(scope: &Scope<'_>, expr: &ast::Expr) -> Result<Expr, Error> {
    let resolved = scope.resolve(expr, &NO_RENAMES)?;
    if resolved.kind() == Kind::Bool {
        return Err(Error::at(expr.span, "expected a number, found a truth value"));
    }
    Ok(resolved)
}
