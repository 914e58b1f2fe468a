//! Properties: `P`, `R` and `S`, alone or in a file with constants and labels of its own.

use super::ast::{
    Binary, Expr, ExprKind, Operator, Path, Property, PropertyFile, Query, RewardName, RewardPath, TimeBound,
};
use super::lexer::Token;
use super::tokens::Tokens;
use crate::error::Error;

/// Reads properties: one to a line or separated by semicolons, each perhaps with a name, among constants and
/// labels.
pub(crate) fn parse_properties(text: &str) -> Result<PropertyFile, Error> {
    let mut tokens = Tokens::new(text, true)?;
    let mut file = PropertyFile::default();
    loop {
        if tokens.take_sign(";") {
            continue;
        }
        match tokens.peek() {
            Token::End => return Ok(file),
            Token::Word(word) if matches!(word.as_str(), "const" | "rate" | "prob") => {
                file.constants.push(tokens.constant()?);
            }
            Token::Word(word) if word == "label" => file.labels.push(tokens.label()?),
            _ => {
                let start = tokens.place();
                match tokens.property() {
                    Ok(property) => file.properties.push(property),
                    Err(error) => {
                        let text = tokens.skip_property(start);
                        file.refused.push((file.properties.len(), text, error));
                    }
                }
            }
        }
    }
}

/// The words with which a property or a declaration can begin.
const BEGINNINGS: &[&str] = &[
    "P", "R", "S", "E", "A", "filter", "const", "rate", "prob", "label",
];

impl Tokens<'_> {
    /// Goes on behind a property that could not be read: after the next `;`, or where a line begins like a property and no
    /// bracket that was opened since `start` is open, or after an empty line. Returns the text that was skipped.
    fn skip_property(&mut self, start: usize) -> String {
        let failed = self.place();
        self.rewind(start);
        let first = self.span().start;
        let mut depth = 0i64;
        loop {
            let between = self
                .text
                .get(self.last_span().end.max(first)..self.span().start)
                .unwrap_or_default();
            let lines = between.matches('\n').count();
            // A comment between two lines is not an empty line.
            let empty_line = between.split('\n').skip(1).any(|line| line.trim().is_empty()) && lines > 1;
            let begins = match self.peek() {
                Token::Word(word) => BEGINNINGS.contains(&word.as_str()),
                Token::Quoted(_) => *self.peek_second() == Token::Sign(":"),
                _ => false,
            };
            let ended = *self.peek() == Token::End
                || self.is_sign(";")
                || (self.place() > start && empty_line && self.place() >= failed)
                || (self.place() > start && lines > 0 && depth <= 0 && begins);
            if ended {
                break;
            }
            match self.peek() {
                Token::Sign("(" | "[" | "{" | "|[") => depth += 1,
                Token::Sign(")" | "]" | "}" | "]|") => depth -= 1,
                // A quotation that is not closed hides the brackets behind it.
                Token::Foreign(_) => depth = 0,
                _ => {}
            }
            self.next();
        }
        self.depth = 0;
        self.paths = 0;
        let skipped = self.text.get(first..self.last_span().end).unwrap_or_default();
        skipped.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn property(&mut self) -> Result<Property, Error> {
        let name = match (self.peek().clone(), self.peek_second()) {
            (Token::Quoted(name), Token::Sign(":")) => {
                self.next();
                self.next();
                Some(name)
            }
            _ => None,
        };
        let formula = self.expression()?;
        let text = self
            .text
            .get(formula.span.start..formula.span.end)
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        Ok(Property { name, formula, text })
    }

    /// At `P`, `R` or `S`.
    pub(crate) fn query(&mut self) -> Result<Expr, Error> {
        self.deeper(Self::query_inner)
    }

    fn query_inner(&mut self) -> Result<Expr, Error> {
        let (word, start) = self.next();
        let Token::Word(word) = word else {
            return Err(self.unexpected("P, R or S"));
        };
        // A chain has no choices, so that the best and the worst are the same, as they are for PRISM.
        let choice = word.ends_with("min") || word.ends_with("max");
        let word = &word[..1];
        let reward = if word == "R" && self.take_sign("{") {
            let name = match self.peek().clone() {
                Token::Int(place) => RewardName::Place(place, self.next().1),
                _ => RewardName::Label(self.quoted("the name of a reward in quotation marks")?),
            };
            self.expect_sign("}", "after the reward's name")?;
            Some(name)
        } else {
            None
        };
        let choice = self.take_word("min") || self.take_word("max") || choice;
        let place = self.span();
        let bound = self.query_bound()?;
        if choice && bound.is_some() {
            return Err(Error::with_help(
                place,
                "min and max ask for a value: write `=?` after them",
                "a ctmc has no choices: P>=0.9 [ … ] compares with a bound",
            ));
        }
        self.expect_sign("[", "before what is asked")?;
        let operator = match word {
            "P" => Operator::Probability(self.path()?),
            "R" => Operator::Reward(reward, self.reward_path()?),
            _ => Operator::Steady(self.expression()?),
        };
        if self.is_sign("{") && bound.is_some() {
            return Err(Error::with_help(
                self.span(),
                "a filter `{…}` asks for numbers",
                "write =? instead of the bound, or filter(forall, …, states)",
            ));
        }
        let query = Query { operator, bound };
        let asked = Expr::new(ExprKind::Query(Box::new(query)), start.to(self.last_span()));
        let asked = if self.is_sign("{") {
            let filter = self.older_filter(asked)?;
            let span = start.to(self.last_span());
            Expr::new(ExprKind::Filter(Box::new(filter)), span)
        } else {
            asked
        };
        let end = self.expect_sign("]", "after what is asked")?;
        Ok(Expr {
            span: start.to(end),
            ..asked
        })
    }

    /// At `E` or `A`.
    pub(crate) fn branching(&mut self) -> Result<Expr, Error> {
        self.deeper(|tokens| {
            let (word, start) = tokens.next();
            tokens.expect_sign("[", "before the path")?;
            let path = tokens.path()?;
            let end = tokens.expect_sign("]", "after the path")?;
            let exists = word == Token::Word("E".into());
            Ok(Expr::new(
                ExprKind::Branching(exists, Box::new(path)),
                start.to(end),
            ))
        })
    }

    fn query_bound(&mut self) -> Result<Option<(Binary, Expr)>, Error> {
        let comparison = match self.peek() {
            Token::Sign("=") if *self.peek_second() == Token::Sign("?") => {
                self.next();
                self.next();
                return Ok(None);
            }
            Token::Sign("<") => Binary::Less,
            Token::Sign("<=") => Binary::LessOrEqual,
            Token::Sign(">") => Binary::Greater,
            Token::Sign(">=") => Binary::GreaterOrEqual,
            _ => return Err(self.unexpected("`=?` or a bound such as `>=0.9`")),
        };
        self.next();
        Ok(Some((comparison, self.sum()?)))
    }

    /// What stands in the brackets of `P`, `E` and `A`.
    fn path(&mut self) -> Result<Expr, Error> {
        self.paths += 1;
        let path = self.expression()?;
        self.paths -= 1;
        Ok(path)
    }

    /// `U`, `W` and `R`, which bind less than everything else.
    pub(crate) fn binary_path(&mut self) -> Result<Expr, Error> {
        let left = self.unary_path()?;
        let Some(make) = self.path_between() else {
            return Ok(left);
        };
        self.next();
        let bound = self.time_bound()?;
        let right = self.unary_path()?;
        if self.path_between().is_some() {
            return Err(Error::with_help(
                self.span(),
                "U, W and R cannot be chained",
                "put parentheses around one of the two paths",
            ));
        }
        let span = left.span.to(right.span);
        self.node(ExprKind::Path(Box::new(make(left, right, bound))), span)
    }

    /// The operator between two paths that stands here.
    fn path_between(&self) -> Option<fn(Expr, Expr, TimeBound) -> Path> {
        match self.peek() {
            Token::Word(word) if word == "U" => Some(Path::Until),
            Token::Word(word) if word == "W" => Some(Path::Weak),
            Token::Word(word) if word == "R" => Some(Path::Release),
            _ => None,
        }
    }

    /// `X`, `F` and `G`: what follows up to `U`, `W`, `R` or the end belongs to them.
    fn unary_path(&mut self) -> Result<Expr, Error> {
        let make: fn(Expr, TimeBound) -> Path = match self.peek() {
            Token::Word(word) if word == "X" => Path::Next,
            Token::Word(word) if word == "F" => Path::Finally,
            Token::Word(word) if word == "G" => Path::Globally,
            _ => return self.if_then_else(),
        };
        let start = self.next().1;
        let bound = self.time_bound()?;
        let inner = self.deeper(Self::unary_path)?;
        let span = start.to(inner.span);
        self.node(ExprKind::Path(Box::new(make(inner, bound))), span)
    }

    fn time_bound(&mut self) -> Result<TimeBound, Error> {
        if self.is_sign("<=") || self.is_sign("<") {
            self.next();
            return Ok(TimeBound {
                lower: None,
                upper: Some(self.time()?),
            });
        }
        if self.is_sign(">=") || self.is_sign(">") {
            self.next();
            return Ok(TimeBound {
                lower: Some(self.time()?),
                upper: None,
            });
        }
        if self.take_sign("=") {
            let time = self.time()?;
            return Ok(TimeBound {
                lower: Some(time.clone()),
                upper: Some(time),
            });
        }
        if self.take_sign("[") {
            let lower = self.expression()?;
            self.expect_sign(",", "between the ends of the interval")?;
            let upper = self.expression()?;
            self.expect_sign("]", "after the interval")?;
            return Ok(TimeBound {
                lower: Some(lower),
                upper: Some(upper),
            });
        }
        Ok(TimeBound::default())
    }

    /// A time: numbers, constants and expressions in parentheses, joined by arithmetic. What follows is the formula; none begins with
    /// such an operator, so `U<=T*3600 "down"` has one meaning. A call of a function needs parentheses around it.
    fn time(&mut self) -> Result<Expr, Error> {
        self.time_terms(&[("+", Binary::Add), ("-", Binary::Subtract)], |tokens| {
            tokens.time_terms(&[("*", Binary::Multiply), ("/", Binary::Divide)], Self::time_term)
        })
    }

    fn time_terms(
        &mut self,
        operators: &[(&str, Binary)],
        term: impl Fn(&mut Self) -> Result<Expr, Error>,
    ) -> Result<Expr, Error> {
        let mut left = term(self)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.is_sign(sign)) {
            self.next();
            let right = term(self)?;
            let span = left.span.to(right.span);
            left = self.node(ExprKind::Binary(*operator, Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    fn time_term(&mut self) -> Result<Expr, Error> {
        match self.peek().clone() {
            Token::Sign("(") => {
                self.next();
                let inner = self.expression()?;
                self.expect_sign(")", "to close this parenthesis")?;
                Ok(inner)
            }
            Token::Int(value) => Ok(Expr::new(ExprKind::Int(value), self.next().1)),
            Token::Real(value) => Ok(Expr::new(ExprKind::Real(value), self.next().1)),
            _ => {
                let name = self.name("a time")?;
                Ok(Expr::new(ExprKind::Name(name.text), name.span))
            }
        }
    }

    fn reward_path(&mut self) -> Result<RewardPath, Error> {
        if self.take_word("C") {
            if matches!(self.peek(), Token::Sign("]" | "{")) {
                return Ok(RewardPath::Total);
            }
            self.expect_sign("<=", "after C")?;
            return Ok(RewardPath::Cumulative(self.expression()?));
        }
        if self.take_word("I") {
            self.expect_sign("=", "after I")?;
            return Ok(RewardPath::Instant(self.expression()?));
        }
        if self.is_word("S") && matches!(self.peek_second(), Token::Sign("]" | "{")) {
            self.next();
            return Ok(RewardPath::Steady);
        }
        Ok(RewardPath::Path(self.path()?))
    }
}
