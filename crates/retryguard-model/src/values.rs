//! Answers state by state.

use crate::elaborate::properties::Operation;
use crate::expr::{Arithmetic, Compare, Rounding};

/// What a formula comes to in every state.
pub(crate) enum Values {
    Truths(Vec<bool>),
    Numbers(Vec<f64>),
}

impl Values {
    fn numbers(self) -> Vec<f64> {
        match self {
            Values::Numbers(numbers) => numbers,
            Values::Truths(_) => unreachable!("the resolver refuses a condition where a number is wanted"),
        }
    }
}

/// An operation in every state.
pub(crate) fn computed(operation: Operation, parts: Vec<Values>) -> Values {
    let mut parts = parts.into_iter();
    let first = parts.next().expect("every operation has an operand");
    match operation {
        Operation::IfThenElse => {
            let (Values::Truths(condition), Some(yes), Some(no)) = (first, parts.next(), parts.next()) else {
                unreachable!("a choice has a condition and two sides")
            };
            fn choose<T: Copy>(condition: &[bool], yes: &[T], no: &[T]) -> Vec<T> {
                let places = condition.iter().enumerate();
                places.map(|(s, c)| if *c { yes[s] } else { no[s] }).collect()
            }
            match (yes, no) {
                (Values::Numbers(yes), no) => Values::Numbers(choose(&condition, &yes, &no.numbers())),
                (Values::Truths(yes), Values::Truths(no)) => Values::Truths(choose(&condition, &yes, &no)),
                _ => unreachable!("the two sides are of one type"),
            }
        }
        Operation::Round(rounding) => {
            let round = |value: &f64| match rounding {
                Rounding::Floor => value.floor(),
                Rounding::Ceil => value.ceil(),
                Rounding::Nearest => (value + 0.5).floor(),
            };
            Values::Numbers(first.numbers().iter().map(round).collect())
        }
        Operation::Compare(compare) => {
            let (a, b) = (
                first.numbers(),
                parts.next().map_or_else(Vec::new, Values::numbers),
            );
            let holds = |a: f64, b: f64| match compare {
                Compare::Equal => a == b,
                Compare::NotEqual => a != b,
                Compare::Less => a < b,
                Compare::LessOrEqual => a <= b,
            };
            Values::Truths(a.iter().zip(&b).map(|(a, b)| holds(*a, *b)).collect())
        }
        Operation::Arithmetic(arithmetic) => {
            let compute = |a: f64, b: f64| match arithmetic {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                // What has no value leaves the least and the largest of it and others without one.
                Arithmetic::Min | Arithmetic::Max if a.is_nan() || b.is_nan() => f64::NAN,
                Arithmetic::Min => a.min(b),
                Arithmetic::Max => a.max(b),
                Arithmetic::Pow => a.powf(b),
                Arithmetic::Mod => a.rem_euclid(b),
                Arithmetic::Log => a.ln() / b.ln(),
            };
            let folded = parts.fold(first.numbers(), |a, b| {
                a.iter().zip(&b.numbers()).map(|(a, b)| compute(*a, *b)).collect()
            });
            Values::Numbers(folded)
        }
    }
}
