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
            Token::Word(word) => FilterKind::ALL
                .iter()
                .find(|(name, _)| name == word)
                .map(|(_, kind)| *kind),
            Token::Sign("+") => Some(FilterKind::Sum),
            Token::Sign("&") => Some(FilterKind::ForAll),
            Token::Sign("|") => Some(FilterKind::Exists),
            _ => None,
        };
        let Some(kind) = kind else {
            let known: Vec<&str> = FilterKind::ALL.iter().map(|(name, _)| *name).collect();
            return Err(Error::with_help(
                span,
                format!("{} is not a filter", word.describe()),
                format!("there are {}", known.join(", ")),
            ));
        };
        self.expect_sign(",", "after the kind of filter")?;
        let of = self.expression()?;
        let states = if self.take_sign(",") {
            self.expression()?
        } else {
            Expr::new(ExprKind::Bool(true), of.span)
        };
        let end = self.expect_sign(")", "to close the filter")?;
        let filter = Filter { kind, of, states };
        self.node(ExprKind::Filter(Box::new(filter)), start.to(end))
    }

    /// At the `{` after a path: states, then perhaps `{min}`, `{max}` or both.
    pub(crate) fn older_filter(&mut self, of: Expr) -> Result<Filter, Error> {
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
        Ok(Filter { kind, of, states })
    }
}
