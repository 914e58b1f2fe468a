//! Copies of a module that can be exchanged without a change of behaviour.
//!
//! If swapping the variables of two modules maps the set of commands, rewards and conditions onto itself, then a state and
//! the one with the two exchanged have the same future. Sorting the copies by their values keeps one state of each orbit:
//! ten clients of five states each become the multisets of five kinds, a thousand instead of ten million.

use super::signature::{Assignments, Joint, JointCommand};
use crate::expr::{Arithmetic, Compare, Expr};
use crate::program::Program;

#[derive(Clone, Debug)]
pub(super) struct Orbit {
    /// The variables of each copy, in the same order.
    copies: Vec<Vec<usize>>,
}

impl Orbit {
    pub(super) fn copies(&self) -> usize {
        self.copies.len()
    }

    /// Sorts the copies by the values of their variables. Insertion sort: a step moves one copy at most.
    pub(super) fn apply(&self, state: &mut [i64]) {
        for i in 1..self.copies.len() {
            let mut j = i;
            while j > 0 && self.less(state, j, j - 1) {
                for (a, b) in self.copies[j].iter().zip(&self.copies[j - 1]) {
                    state.swap(*a, *b);
                }
                j -= 1;
            }
        }
    }

    fn less(&self, state: &[i64], a: usize, b: usize) -> bool {
        let values = |copy: usize| self.copies[copy].iter().map(|v| state[*v]);
        values(a).lt(values(b))
    }
}

pub(super) fn find(program: &Program, joint: &Joint, skip: Option<usize>) -> Vec<Orbit> {
    let modules = module_variables(program);
    let shape = |module: usize| -> Vec<(i64, i64, i64, bool)> {
        modules[module]
            .iter()
            .map(|v| {
                let variable = &program.variables[*v];
                (variable.low, variable.high, variable.init, variable.boolean)
            })
            .collect()
    };
    let usable = |module: usize| {
        !modules[module].is_empty() && skip.is_none_or(|variable| !modules[module].contains(&variable))
    };
    if program.init.is_some() {
        return Vec::new();
    }
    let mut taken = vec![false; modules.len()];
    let mut orbits = Vec::new();
    let mut canonical: Option<Vec<Canonical>> = None;
    for first in 0..modules.len() {
        if taken[first] || !usable(first) {
            continue;
        }
        let mut copies = vec![modules[first].clone()];
        for second in first + 1..modules.len() {
            if taken[second] || !usable(second) || shape(first) != shape(second) {
                continue;
            }
            let own = canonical.get_or_insert_with(|| canonical_program(joint, &|v| v));
            let swap = |v: usize| {
                let find = |from: &[usize], to: &[usize]| from.iter().position(|x| *x == v).map(|p| to[p]);
                find(&modules[first], &modules[second])
                    .or_else(|| find(&modules[second], &modules[first]))
                    .unwrap_or(v)
            };
            if *own == canonical_program(joint, &swap) {
                copies.push(modules[second].clone());
                taken[second] = true;
            }
        }
        if copies.len() > 1 {
            orbits.push(Orbit { copies });
        }
    }
    orbits
}

fn module_variables(program: &Program) -> Vec<Vec<usize>> {
    let mut modules: Vec<Vec<usize>> = Vec::new();
    for (place, variable) in program.variables.iter().enumerate() {
        if let Some(module) = variable.module {
            if modules.len() <= module {
                modules.resize(module + 1, Vec::new());
            }
            modules[module].push(place);
        }
    }
    modules
}

/// A command or an observation with the order taken out that does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Canonical {
    guard: Vec<Expr>,
    alternatives: Vec<(Vec<Expr>, Assignments)>,
    rewards: Vec<Expr>,
}

fn canonical_program(joint: &Joint, rename: &impl Fn(usize) -> usize) -> Vec<Canonical> {
    let mut all: Vec<Canonical> = joint
        .commands
        .iter()
        .map(|command| canonical_command(command, rename))
        .collect();
    all.sort();
    // Rewards of states may change places within their sum; conditions must each map onto itself.
    let mut observed: Vec<(usize, Vec<Expr>)> = joint
        .observed
        .iter()
        .zip(&joint.sums)
        .map(|(parts, sum)| (*sum, parts.iter().map(|part| canonical(part, rename)).collect()))
        .collect();
    observed.sort();
    all.extend(observed.into_iter().map(|(_, rewards)| Canonical {
        guard: Vec::new(),
        alternatives: Vec::new(),
        rewards,
    }));
    all
}

fn canonical_command(command: &JointCommand, rename: &impl Fn(usize) -> usize) -> Canonical {
    let sorted = |parts: &[Expr]| {
        let mut parts: Vec<Expr> = parts.iter().map(|part| canonical(part, rename)).collect();
        parts.sort();
        parts
    };
    let mut alternatives: Vec<_> = command
        .alternatives
        .iter()
        .map(|alternative| {
            let mut assignments: Vec<(usize, Expr)> = alternative
                .assignments
                .iter()
                .map(|(v, expr)| (rename(*v), canonical(expr, rename)))
                .collect();
            assignments.sort();
            (sorted(&alternative.rate), assignments)
        })
        .collect();
    alternatives.sort();
    Canonical {
        guard: sorted(&command.guard),
        alternatives,
        rewards: command
            .rewards
            .iter()
            .map(|part| canonical(part, rename))
            .collect(),
    }
}

/// The expression with its variables renamed and the operands of commutative operators sorted.
fn canonical(expr: &Expr, rename: &impl Fn(usize) -> usize) -> Expr {
    let inner = |e: &Expr| Box::new(canonical(e, rename));
    match expr {
        Expr::Int(_) | Expr::Real(_) | Expr::Bool(_) => expr.clone(),
        Expr::Variable(v, boolean) => Expr::Variable(rename(*v), *boolean),
        Expr::Not(a) => Expr::Not(inner(a)),
        Expr::And(parts) | Expr::Or(parts) => {
            let mut parts: Vec<Expr> = parts.iter().map(|part| canonical(part, rename)).collect();
            parts.sort();
            if matches!(expr, Expr::And(_)) {
                Expr::And(parts)
            } else {
                Expr::Or(parts)
            }
        }
        Expr::Compare(compare @ (Compare::Equal | Compare::NotEqual), kind, a, b) => {
            let (a, b) = (inner(a), inner(b));
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            Expr::Compare(*compare, *kind, a, b)
        }
        Expr::Compare(compare, kind, a, b) => Expr::Compare(*compare, *kind, inner(a), inner(b)),
        Expr::Arithmetic(
            operator @ (Arithmetic::Add | Arithmetic::Multiply | Arithmetic::Min | Arithmetic::Max),
            kind,
            ..,
        ) => {
            let mut operands = Vec::new();
            flatten(expr, *operator, *kind, rename, &mut operands);
            operands.sort();
            let mut operands = operands.into_iter();
            let first = operands.next().unwrap_or(Expr::Int(0));
            operands.fold(first, |a, b| {
                Expr::Arithmetic(*operator, *kind, Box::new(a), Box::new(b))
            })
        }
        Expr::Arithmetic(operator, kind, a, b) => Expr::Arithmetic(*operator, *kind, inner(a), inner(b)),
        Expr::Round(rounding, a) => Expr::Round(*rounding, inner(a)),
        Expr::IfThenElse(a, b, c) => Expr::IfThenElse(inner(a), inner(b), inner(c)),
    }
}

fn flatten(
    expr: &Expr,
    operator: Arithmetic,
    kind: crate::expr::Kind,
    rename: &impl Fn(usize) -> usize,
    operands: &mut Vec<Expr>,
) {
    match expr {
        Expr::Arithmetic(o, k, a, b) if *o == operator && *k == kind => {
            flatten(a, operator, kind, rename, operands);
            flatten(b, operator, kind, rename, operands);
        }
        other => operands.push(canonical(other, rename)),
    }
}
