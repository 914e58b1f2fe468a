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
            Token::Word(word) if word == "const" => file.constants.push(tokens.constant()?),
            Token::Word(word) if word == "label" => file.labels.push(tokens.label()?),
            _ => file.properties.push(tokens.property()?),
        }
    }
}

impl Tokens<'_> {
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
        let reward = if word == Token::Word("R".into()) && self.take_sign("{") {
            let name = match self.peek().clone() {
                Token::Int(place) => RewardName::Place(place, self.next().1),
                _ => RewardName::Label(self.quoted("the name of a reward in quotation marks")?),
            };
            self.expect_sign("}", "after the reward's name")?;
            Some(name)
        } else {
            None
        };
        let bound = self.query_bound()?;
        self.expect_sign("[", "before what is asked")?;
        let operator = match word {
            Token::Word(word) if word == "P" => Operator::Probability(self.path()?),
            Token::Word(word) if word == "R" => Operator::Reward(reward, self.reward_path()?),
            _ => Operator::Steady(self.expression()?),
        };
        let filter = match self.is_sign("{") {
            true if bound.is_some() => {
                return Err(Error::with_help(
                    self.span(),
                    "a filter `{…}` asks for numbers",
                    "write =? instead of the bound, or filter(forall, …, states)",
                ));
            }
            true => Some(self.older_filter()?),
            false => None,
        };
        let end = self.expect_sign("]", "after what is asked")?;
        Ok(Expr::new(
            ExprKind::Query(Box::new(Query {
                operator,
                bound,
                filter,
            })),
            start.to(end),
        ))
    }

    fn query_bound(&mut self) -> Result<Option<(Binary, Expr)>, Error> {
        if self.is_word("min") || self.is_word("max") {
            return Err(Error::with_help(
                self.span(),
                "min and max ask for the best choice of a decision process",
                "a ctmc has no choices: ask =?",
            ));
        }
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

    fn path(&mut self) -> Result<Path, Error> {
        if self.take_word("X") {
            return Ok(Path::Next(self.expression()?));
        }
        if self.take_word("F") {
            let bound = self.time_bound()?;
            let target = self.expression()?;
            let always = Expr::new(ExprKind::Bool(true), target.span);
            return Ok(Path::Until(always, target, bound));
        }
        if self.take_word("G") {
            let bound = self.time_bound()?;
            return Ok(Path::Globally(self.expression()?, bound));
        }
        let left = self.expression()?;
        if self.is_word("W") || self.is_word("R") {
            return Err(Error::at(
                self.span(),
                format!("the operator {} is not supported", self.peek().describe()),
            ));
        }
        self.expect_word("U", "after the left side of a path (or start it with F, G or X)")?;
        let bound = self.time_bound()?;
        Ok(Path::Until(left, self.expression()?, bound))
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
        if self.take_word("F") {
            return Ok(RewardPath::Reach(self.expression()?));
        }
        if self.take_word("C") {
            if self.is_sign("]") {
                return Err(Error::with_help(
                    self.span(),
                    "the total reward `C` without a bound is not supported",
                    "write C<=t, or F and where the earning ends",
                ));
            }
            self.expect_sign("<=", "after C")?;
            return Ok(RewardPath::Cumulative(self.expression()?));
        }
        if self.take_word("I") {
            self.expect_sign("=", "after I")?;
            return Ok(RewardPath::Instant(self.expression()?));
        }
        if self.take_word("S") {
            return Ok(RewardPath::Steady);
        }
        Err(self.unexpected("F, C<=t, I=t or S"))
    }
}
