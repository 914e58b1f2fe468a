//! What a set of questions needs of a chain.

use crate::build::Wanted;
use crate::elaborate::properties::{Formula, Operator};
use crate::expr::Expr;
use crate::syntax::ast;

/// A property and what it means.
pub(crate) type Question<'q> = (&'q ast::Property, Formula);

/// Adds what `formula` needs to `wanted`.
pub(crate) fn collect(formula: &Formula, wanted: &mut Wanted) {
    match formula {
        Formula::Plain(Expr::Bool(_)) => {}
        Formula::Plain(expr) => {
            if !wanted.conditions.contains(expr) {
                wanted.conditions.push(expr.clone());
            }
        }
        Formula::Initial => {}
        Formula::Not(a) => collect(a, wanted),
        Formula::And(a, b) | Formula::Or(a, b) | Formula::Iff(a, b) => {
            collect(a, wanted);
            collect(b, wanted);
        }
        Formula::Query(query) => {
            if let Some((_, states)) = &query.filter {
                collect(states, wanted);
            }
            let mut reward = |place: &usize| {
                if !wanted.rewards.contains(place) {
                    wanted.rewards.push(*place);
                }
            };
            match &query.operator {
                Operator::Next(inner) | Operator::Globally(inner, ..) | Operator::Steady(inner) => {
                    collect(inner, wanted);
                }
                Operator::Until(left, right, ..) => {
                    collect(left, wanted);
                    collect(right, wanted);
                }
                Operator::ReachReward(place, target) => {
                    reward(place);
                    collect(target, wanted);
                }
                Operator::Cumulative(place, _)
                | Operator::Instant(place, _)
                | Operator::SteadyReward(place) => {
                    reward(place);
                }
            }
        }
    }
}

/// Where nothing asked depends on what follows, if that is the same for all questions: the target of a reward, and where the left side of
/// an until has ended or its right side has begun, from the start or by a time.
pub(crate) fn common_stop(questions: &[Question<'_>]) -> Option<Expr> {
    let mut common: Option<Expr> = None;
    for (_, formula) in questions {
        let Formula::Query(query) = formula else {
            return None;
        };
        // Its states may lie beyond the target.
        if query.filter.is_some() {
            return None;
        }
        let stop = match &query.operator {
            Operator::ReachReward(_, Formula::Plain(target)) => target.clone(),
            Operator::Until(Formula::Plain(left), Formula::Plain(right), lower, _) if *lower == 0.0 => {
                Expr::or(vec![right.clone(), Expr::negation(left.clone())])
            }
            Operator::Globally(Formula::Plain(inner), lower, _) if *lower == 0.0 => {
                Expr::negation(inner.clone())
            }
            _ => return None,
        };
        if common.as_ref().is_some_and(|known| *known != stop) {
            return None;
        }
        common = Some(stop);
    }
    common.filter(|stop| !stop.is_constant())
}

/// Whether equal levels can answer: a reward before a target that is reached for certain, or that it is. They do not know when, nor on
/// which way.
pub(crate) fn levels_know(formula: &Formula) -> bool {
    let Formula::Query(query) = formula else {
        return false;
    };
    match &query.operator {
        Operator::ReachReward(..) => true,
        Operator::Until(Formula::Plain(Expr::Bool(true)), _, _, upper) => upper.is_none(),
        _ => false,
    }
}

/// Whether a question is about states as they are written: a filter counts them, and "init" is one of them. Merging states would change
/// the answer.
pub(crate) fn needs_states(formula: &Formula) -> bool {
    matches!(formula, Formula::Query(query) if query.filter.is_some()) || names_initial(formula)
}

fn names_initial(formula: &Formula) -> bool {
    match formula {
        Formula::Initial => true,
        Formula::Plain(_) => false,
        Formula::Not(a) => names_initial(a),
        Formula::And(a, b) | Formula::Or(a, b) | Formula::Iff(a, b) => names_initial(a) || names_initial(b),
        Formula::Query(query) => match &query.operator {
            Operator::Next(a)
            | Operator::Globally(a, ..)
            | Operator::Steady(a)
            | Operator::ReachReward(_, a) => names_initial(a),
            Operator::Until(a, b, ..) => names_initial(a) || names_initial(b),
            Operator::Cumulative(..) | Operator::Instant(..) | Operator::SteadyReward(_) => false,
        },
    }
}
