//! Which commands move together.

use std::collections::BTreeSet;

use super::modules::{Expanded, commands};
use super::scope::Scope;
use crate::error::Error;
use crate::program::{Command, Group, Variable};
use crate::syntax::ast::{self, Synchronise, System};

/// How many groups a composition may have: `|||` over many modules multiplies them.
const MAX_GROUPS: usize = 100_000;

pub(super) fn compose(
    scope: &Scope<'_>,
    model: &ast::Model,
    modules: &[Expanded<'_>],
    variables: &[Variable],
) -> Result<Vec<Group>, Error> {
    let mut leaves = Vec::new();
    for (place, module) in modules.iter().enumerate() {
        leaves.push(Some(leaf(commands(scope, module, place, variables)?)));
    }
    let Some(system) = &model.system else {
        let mut whole = Composed::default();
        for leaf in leaves.into_iter().flatten() {
            whole = parallel(whole, leaf, &Synchronise::Shared)?;
        }
        return Ok(whole.groups);
    };
    let mut take = |name: &ast::Name| {
        let place = modules
            .iter()
            .position(|module| module.name.text == name.text)
            .ok_or_else(|| Error::at(name.span, format!("there is no module `{}`", name.text)))?;
        leaves[place].take().ok_or_else(|| {
            Error::at(
                name.span,
                format!("the module `{}` stands twice in the composition", name.text),
            )
        })
    };
    let whole = tree(system, &mut take)?;
    if let Some(place) = leaves.iter().position(Option::is_some) {
        let name = modules[place].name;
        return Err(Error::at(
            name.span,
            format!("the module `{}` is missing from `system`", name.text),
        ));
    }
    Ok(whole.groups)
}

/// Every action that a command has, or that `system` gives it.
pub(super) fn actions(model: &ast::Model, modules: &[Expanded<'_>]) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = modules
        .iter()
        .flat_map(|module| {
            let named = module
                .commands
                .iter()
                .filter_map(|command| command.action.as_ref());
            named.map(|name| module.renames.get(&name.text).unwrap_or(&name.text).clone())
        })
        .collect();
    if let Some(system) = &model.system {
        given(system, &mut found);
    }
    found
}

fn given(system: &System, found: &mut BTreeSet<String>) {
    match system {
        System::Module(_) | System::Reference(_) => {}
        System::Parallel(left, right, _) => {
            given(left, found);
            given(right, found);
        }
        System::Hidden(inner, _) => given(inner, found),
        System::Renamed(inner, renames) => {
            found.extend(renames.iter().map(|(_, to)| to.text.clone()));
            given(inner, found);
        }
    }
}

#[derive(Default)]
struct Composed {
    groups: Vec<Group>,
    alphabet: BTreeSet<String>,
}

fn leaf(commands: Vec<(Option<String>, Command)>) -> Composed {
    let mut composed = Composed::default();
    for (action, command) in commands {
        let known = composed.groups.iter_mut().find(|group| group.action == action);
        match known {
            Some(group) => group.parts[0].push(command),
            None => composed.groups.push(Group {
                action: action.clone(),
                parts: vec![vec![command]],
            }),
        }
        composed.alphabet.extend(action);
    }
    composed
}

fn tree(
    system: &System,
    take: &mut impl FnMut(&ast::Name) -> Result<Composed, Error>,
) -> Result<Composed, Error> {
    match system {
        System::Module(name) | System::Reference(name) => take(name),
        System::Parallel(left, right, synchronise) => {
            let (left, right) = (tree(left, take)?, tree(right, take)?);
            parallel(left, right, synchronise)
        }
        System::Hidden(inner, names) => {
            let hidden = |action: &String| names.iter().any(|name| name.text == *action);
            Ok(relabel(tree(inner, take)?, |action| {
                (!hidden(&action)).then_some(action)
            }))
        }
        System::Renamed(inner, renames) => {
            for (place, (from, _)) in renames.iter().enumerate() {
                if renames[..place].iter().any(|(known, _)| known.text == from.text) {
                    return Err(Error::at(from.span, format!("`{}` is renamed twice", from.text)));
                }
            }
            Ok(relabel(tree(inner, take)?, |action| {
                let new = renames.iter().find(|(from, _)| from.text == action);
                Some(new.map_or(action, |(_, to)| to.text.clone()))
            }))
        }
    }
}

/// The same movements under other actions, or under none.
fn relabel(mut composed: Composed, new: impl Fn(String) -> Option<String>) -> Composed {
    for group in &mut composed.groups {
        group.action = group.action.take().and_then(&new);
    }
    composed.alphabet = composed.alphabet.into_iter().filter_map(new).collect();
    composed
}

fn parallel(left: Composed, right: Composed, synchronise: &Synchronise) -> Result<Composed, Error> {
    let together: BTreeSet<String> = match synchronise {
        Synchronise::Shared => left.alphabet.intersection(&right.alphabet).cloned().collect(),
        Synchronise::Nothing => BTreeSet::new(),
        Synchronise::Named(names) => names.iter().map(|name| name.text.clone()).collect(),
    };
    let shared = |group: &&Group| {
        group
            .action
            .as_ref()
            .is_some_and(|action| together.contains(action))
    };
    let mut groups: Vec<Group> = Vec::new();
    groups.extend(left.groups.iter().filter(|group| !shared(group)).cloned());
    groups.extend(right.groups.iter().filter(|group| !shared(group)).cloned());
    for a in left.groups.iter().filter(shared) {
        for b in right.groups.iter().filter(|b| b.action == a.action) {
            let mut joint = a.clone();
            joint.parts.extend(b.parts.iter().cloned());
            groups.push(joint);
        }
        if groups.len() > MAX_GROUPS {
            return Err(Error::Limit {
                what: "combinations of synchronised modules",
                limit: MAX_GROUPS as u64,
                help: "synchronise fewer modules with |||",
            });
        }
    }
    Ok(Composed {
        groups,
        alphabet: left.alphabet.union(&right.alphabet).cloned().collect(),
    })
}
