//! What a set of questions needs of a chain.

use crate::elaborate::properties::{Formula, Operator};
use crate::expr::Expr;
use crate::syntax::ast;
use crate::wanted::Wanted;

/// A property and what it means.
pub(crate) type Question<'q> = (&'q ast::Property, Formula);

/// Adds what `formula` needs to `wanted`.
pub(crate) fn collect(formula: &Formula, wanted: &mut Wanted) {
    match formula {
        Formula::Plain(expr) => {
            if !expr.is_constant() && !wanted.conditions.contains(expr) {
                wanted.conditions.push(expr.clone());
            }
        }
        Formula::Value(expr) => {
            if !expr.is_constant() && !wanted.values.contains(expr) {
                wanted.values.push(expr.clone());
            }
        }
        Formula::Initial | Formula::Deadlock => {}
        Formula::Not(a) => collect(a, wanted),
        Formula::And(a, b) | Formula::Or(a, b) | Formula::Iff(a, b) => {
            collect(a, wanted);
            collect(b, wanted);
        }
        Formula::Operation(_, parts) => parts.iter().for_each(|part| collect(part, wanted)),
        Formula::Branching(_, branch) => branch.parts().iter().for_each(|part| collect(part, wanted)),
        Formula::Filter(filter) => {
            collect(&filter.of, wanted);
            collect(&filter.states, wanted);
            wanted.valuations |= filter.kind.names_states();
        }
        Formula::Query(query) => {
            query
                .operator
                .parts()
                .iter()
                .for_each(|part| collect(part, wanted));
            if let Some(place) = query.operator.reward()
                && !wanted.rewards.contains(&place)
            {
                wanted.rewards.push(place);
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
        let stop = match &query.operator {
            Operator::ReachReward(_, Formula::Plain(target)) => target.clone(),
            Operator::Until(Formula::Plain(left), Formula::Plain(right), lower, _)
            | Operator::NotUntil(Formula::Plain(left), Formula::Plain(right), lower, _)
                if *lower == 0.0 =>
            {
                Expr::or(vec![right.clone(), Expr::negation(left.clone())])
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
    formula.any(&|part| matches!(part, Formula::Initial | Formula::Filter(_)))
}
