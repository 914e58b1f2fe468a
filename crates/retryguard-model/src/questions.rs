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

/// The target of all questions, if all ask how one and the same target is reached, by itself or by a time, and nothing else.
pub(crate) fn common_stop(questions: &[Question<'_>]) -> Option<Expr> {
    let mut common: Option<&Expr> = None;
    for (_, formula) in questions {
        let Formula::Query(query) = formula else {
            return None;
        };
        let target = match &query.operator {
            Operator::ReachReward(_, Formula::Plain(target)) => target,
            Operator::Until(Formula::Plain(Expr::Bool(true)), Formula::Plain(target), lower, _)
                if *lower == 0.0 =>
            {
                target
            }
            _ => return None,
        };
        if common.is_some_and(|known| known != target) {
            return None;
        }
        common = Some(target);
    }
    common.filter(|target| !target.is_constant()).cloned()
}

/// Whether a target is to be reached by a time. Levels know whether it is reached, not when.
pub(crate) fn within_a_time(formula: &Formula) -> bool {
    matches!(formula, Formula::Query(query) if matches!(query.operator, Operator::Until(_, _, _, Some(_))))
}

/// Whether the label "init" is asked about.
pub(crate) fn names_initial(formula: &Formula) -> bool {
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
