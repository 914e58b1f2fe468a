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
        System::Module(name) => take(name),
        System::Parallel(left, right, synchronise) => {
            let (left, right) = (tree(left, take)?, tree(right, take)?);
            parallel(left, right, synchronise)
        }
    }
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
