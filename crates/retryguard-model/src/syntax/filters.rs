//! Filters: what is made of the answers of several states. `filter(max, P=? [ … ], states)`, and the older `P=? [ … {states}{max} ]`.

use super::ast::{Expr, ExprKind, Filter, FilterKind};
use super::lexer::Token;
use super::tokens::Tokens;
use crate::error::Error;

impl Tokens<'_> {
    /// At `filter`.
    pub(crate) fn filter(&mut self) -> Result<Expr, Error> {
        self.deeper(Self::filter_inner)
    }

    fn filter_inner(&mut self) -> Result<Expr, Error> {
        let start = self.next().1;
        self.expect_sign("(", "after `filter`")?;
        let (word, span) = self.next();
        let kind = match &word {
            Token::Word(word) => FilterKind::ALL.iter().find(|(name, _)| name == word),
            _ => None,
        };
        let Some((name, kind)) = kind else {
            let known: Vec<&str> = FilterKind::ALL.iter().map(|(name, _)| *name).collect();
            return Err(Error::with_help(
                span,
                format!("{} is not a filter that is supported", word.describe()),
                format!("there are {}", known.join(", ")),
            ));
        };
        self.expect_sign(",", "after the kind of filter")?;
        let mut inner = self.expression()?;
        let states = if self.take_sign(",") {
            self.expression()?
        } else {
            Expr::new(ExprKind::Bool(true), inner.span)
        };
        let end = self.expect_sign(")", "to close the filter")?;
        let ExprKind::Query(query) = &mut inner.kind else {
            return Err(Error::with_help(
                inner.span,
                "a filter needs a question P, R or S of its own",
                "for a condition on the states, as in `a => P>=0.9 [ … ]`, write filter(forall, P>=0.9 [ … ], a)",
            ));
        };
        if query.filter.is_some() {
            return Err(Error::at(inner.span, "a filter within a filter is not supported"));
        }
        if kind.of_truths() != query.bound.is_some() {
            let (reason, help) = if kind.of_truths() {
                (
                    "asks for yes and no",
                    "give the question a bound, as in P>=0.9 [ … ]",
                )
            } else {
                ("asks for numbers", "write =? instead of the bound")
            };
            return Err(Error::with_help(
                inner.span,
                format!("the filter {name} {reason}"),
                help,
            ));
        }
        query.filter = Some(Filter { kind: *kind, states });
        inner.span = start.to(end);
        Ok(inner)
    }

    /// At the `{` after a path: states, then perhaps `{min}`, `{max}` or both.
    pub(crate) fn older_filter(&mut self) -> Result<Filter, Error> {
        self.expect_sign("{", "before the states of a filter")?;
        let states = self.expression()?;
        self.expect_sign("}", "after the states of a filter")?;
        let (mut least, mut most) = (false, false);
        while self.take_sign("{") {
            if self.take_word("min") {
                least = true;
            } else if self.take_word("max") {
                most = true;
            } else {
                return Err(self.unexpected("min or max"));
            }
            self.expect_sign("}", "after min or max")?;
        }
        let kind = match (least, most) {
            (false, false) => FilterKind::State,
            (true, false) => FilterKind::Min,
            (false, true) => FilterKind::Max,
            (true, true) => FilterKind::Range,
        };
        Ok(Filter { kind, states })
    }
}
