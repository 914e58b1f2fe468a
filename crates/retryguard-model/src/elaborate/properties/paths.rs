//! Paths resolved: one path operator by itself, perhaps with a bound on the time, or several without.

use super::{Branch, Formula, Linear, Operator, Resolver, simplified};
use crate::error::Error;
use crate::expr::Expr;
use crate::source::Span;
use crate::syntax::ast::{self, Binary, ExprKind, Path};

impl Resolver<'_, '_> {
    pub(super) fn path(&self, expr: &ast::Expr) -> Result<Operator, Error> {
        match &expr.kind {
            _ if !has_path(expr) => {
                let never = Formula::Plain(Expr::Bool(false));
                Ok(Operator::Until(never, self.truth(expr)?, 0.0, None))
            }
            ExprKind::Path(path) if !path.operands().into_iter().any(has_path) => self.one(path),
            ExprKind::Not(inner) => match self.path(inner)? {
                Operator::Until(a, b, lower, upper) => Ok(Operator::NotUntil(a, b, lower, upper)),
                Operator::NotUntil(a, b, lower, upper) => Ok(Operator::Until(a, b, lower, upper)),
                // The next state is another one for certain.
                Operator::Next(a, 0.0, None) => {
                    let not = simplified(Formula::Not(Box::new(a)));
                    Ok(Operator::Next(not, 0.0, None))
                }
                Operator::Linear(path) => Ok(Operator::Linear(negation(path))),
                _ => Err(Error::with_help(
                    expr.span,
                    "the negation of an X with a time bound is not supported",
                    "subtract its probability from 1",
                )),
            },
            _ => Ok(Operator::Linear(self.linear(expr)?)),
        }
    }

    /// One path operator over conditions on states.
    fn one(&self, path: &Path) -> Result<Operator, Error> {
        let not = |formula: Formula| Formula::Not(Box::new(formula));
        let both = |a: Formula, b: Formula| Formula::And(Box::new(a), Box::new(b));
        let always = || Formula::Plain(Expr::Bool(true));
        let (lower, upper) = self.interval(path.bound())?;
        Ok(match path {
            Path::Next(inner, _) => Operator::Next(self.truth(inner)?, lower, upper),
            Path::Finally(inner, _) => Operator::Until(always(), self.truth(inner)?, lower, upper),
            Path::Until(left, right, _) => {
                Operator::Until(self.truth(left)?, self.truth(right)?, lower, upper)
            }
            Path::Globally(inner, _) => {
                let outside = simplified(not(self.truth(inner)?));
                Operator::NotUntil(always(), outside, lower, upper)
            }
            Path::Weak(left, right, _) => {
                let (a, b) = (self.truth(left)?, self.truth(right)?);
                let on = simplified(both(a.clone(), not(b.clone())));
                let off = simplified(both(not(a), not(b)));
                Operator::NotUntil(on, off, lower, upper)
            }
            Path::Release(left, right, _) => {
                let on = simplified(not(self.truth(left)?));
                let off = simplified(not(self.truth(right)?));
                Operator::NotUntil(on, off, lower, upper)
            }
        })
    }

    /// What is earned up to the moment at which a path is fulfilled.
    pub(super) fn path_reward(&self, place: usize, path: &ast::Expr) -> Result<Operator, Error> {
        if !has_path(path) {
            return Err(Error::with_help(
                path.span,
                "a reward needs to be told up to when it is earned",
                "write R=? [ F … ], R=? [ C ], R=? [ C<=t ], R=? [ I=t ] or R=? [ S ]",
            ));
        }
        let untimed = |lower: f64, upper: Option<f64>| {
            if lower == 0.0 && upper.is_none() {
                return Ok(());
            }
            Err(Error::with_help(
                path.span,
                "a reward up to the end of a path takes no bound on the time",
                "the reward within a time is R=? [ C<=t ]",
            ))
        };
        let state = |formula: Formula| Box::new(Linear::State(formula));
        let linear = match self.path(path)? {
            Operator::Until(Formula::Plain(Expr::Bool(true)), target, lower, upper) => {
                untimed(lower, upper)?;
                return Ok(Operator::ReachReward(place, target));
            }
            Operator::Until(a, b, lower, upper) => {
                untimed(lower, upper)?;
                Linear::Until(state(a), state(b))
            }
            Operator::NotUntil(a, b, lower, upper) => {
                untimed(lower, upper)?;
                negation(Linear::Until(state(a), state(b)))
            }
            Operator::Next(a, lower, upper) => {
                untimed(lower, upper)?;
                Linear::Next(state(a))
            }
            Operator::Linear(linear) => linear,
            _ => unreachable!("a path is one operator or several"),
        };
        if !linear.comes_true(true) {
            return Err(Error::with_help(
                path.span,
                "a reward is earned up to the moment at which its path is fulfilled, and this path may be fulfilled \
                 without such a moment",
                "use F, U and X, without G, W, R or the negation of F and U",
            ));
        }
        Ok(Operator::PathReward(place, linear))
    }

    /// Several path operators, reduced to X and U.
    fn linear(&self, expr: &ast::Expr) -> Result<Linear, Error> {
        if !has_path(expr) {
            return Ok(Linear::State(self.truth(expr)?));
        }
        let always = || Linear::State(Formula::Plain(Expr::Bool(true)));
        match &expr.kind {
            ExprKind::Not(a) => Ok(negation(self.linear(a)?)),
            ExprKind::Binary(Binary::And, a, b) => Ok(both(self.linear(a)?, self.linear(b)?)),
            ExprKind::Binary(Binary::Or, a, b) => Ok(either(self.linear(a)?, self.linear(b)?)),
            ExprKind::Binary(Binary::Implies, a, b) => Ok(either(negation(self.linear(a)?), self.linear(b)?)),
            ExprKind::Binary(Binary::Iff, a, b) => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                let neither = both(negation(a.clone()), negation(b.clone()));
                Ok(either(both(a, b), neither))
            }
            ExprKind::IfThenElse(condition, yes, no) => {
                let condition = self.linear(condition)?;
                let otherwise = both(negation(condition.clone()), self.linear(no)?);
                Ok(either(both(condition, self.linear(yes)?), otherwise))
            }
            ExprKind::Path(path) => {
                if path.bound().lower.is_some() || path.bound().upper.is_some() {
                    return Err(Error::with_help(
                        expr.span,
                        format!(
                            "`{}` with a time bound cannot be joined with other path operators",
                            path.word()
                        ),
                        "a path operator with a time bound needs a P of its own",
                    ));
                }
                let until = |a, b| Linear::Until(Box::new(a), Box::new(b));
                Ok(match &**path {
                    Path::Next(a, _) => Linear::Next(Box::new(self.linear(a)?)),
                    Path::Finally(a, _) => until(always(), self.linear(a)?),
                    Path::Globally(a, _) => negation(until(always(), negation(self.linear(a)?))),
                    Path::Until(a, b, _) => until(self.linear(a)?, self.linear(b)?),
                    Path::Weak(a, b, _) => {
                        let (a, b) = (self.linear(a)?, negation(self.linear(b)?));
                        negation(until(both(a.clone(), b.clone()), both(negation(a), b)))
                    }
                    Path::Release(a, b, _) => {
                        negation(until(negation(self.linear(a)?), negation(self.linear(b)?)))
                    }
                })
            }
            _ => Err(Error::with_help(
                expr.span,
                "paths can be joined by &, |, !, =>, <=> and ? only",
                "a number or a comparison is made of P=? [ … ]",
            )),
        }
    }

    pub(super) fn branch(&self, path: &ast::Expr, span: Span) -> Result<Branch, Error> {
        let timed = |lower: f64, upper: Option<f64>| {
            if lower == 0.0 && upper.is_none() {
                return Ok(());
            }
            Err(Error::with_help(
                span,
                "E and A take no bound on the time",
                "ask P>0 [ … ] for E, and P>=1 [ … ] for A",
            ))
        };
        Ok(match self.path(path)? {
            Operator::Next(a, lower, upper) => {
                timed(lower, upper)?;
                Branch::Next(a)
            }
            Operator::Until(a, b, lower, upper) => {
                timed(lower, upper)?;
                Branch::Until(a, b)
            }
            Operator::NotUntil(a, b, lower, upper) => {
                timed(lower, upper)?;
                Branch::Not(Box::new(Branch::Until(a, b)))
            }
            Operator::Linear(path) => Branch::Linear(path),
            _ => unreachable!("a path is one operator or several"),
        })
    }
}

/// Whether a path operator stands in it that is not within a question of its own.
fn has_path(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Path(_) => true,
        ExprKind::Not(a) | ExprKind::Minus(a) => has_path(a),
        ExprKind::Binary(_, a, b) => has_path(a) || has_path(b),
        ExprKind::IfThenElse(a, b, c) => has_path(a) || has_path(b) || has_path(c),
        ExprKind::Call(_, arguments) => arguments.iter().any(has_path),
        _ => false,
    }
}

fn negation(path: Linear) -> Linear {
    match path {
        Linear::Not(inner) => *inner,
        Linear::State(formula) => Linear::State(simplified(Formula::Not(Box::new(formula)))),
        other => Linear::Not(Box::new(other)),
    }
}

fn both(a: Linear, b: Linear) -> Linear {
    Linear::And(Box::new(a), Box::new(b))
}

fn either(a: Linear, b: Linear) -> Linear {
    negation(both(negation(a), negation(b)))
}
