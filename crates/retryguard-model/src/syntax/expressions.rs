//! Expressions, with PRISM's precedence: from `?:`, which binds least, to unary minus. A `!` binds less than a
//! comparison, so `!x=1` is `!(x=1)`.

use super::ast::{Binary, Expr, ExprKind, Function};
use super::lexer::Token;
use super::tokens::{Tokens, is_reserved};
use crate::error::Error;

/// The height that an expression may have. A sum of as many terms has it.
const MAX_HEIGHT: usize = 600;

impl Tokens<'_> {
    pub(crate) fn expression(&mut self) -> Result<Expr, Error> {
        match self.paths {
            0 => self.deeper(Self::if_then_else),
            _ => self.deeper(Self::binary_path),
        }
    }

    pub(super) fn node(&self, kind: ExprKind, span: crate::source::Span) -> Result<Expr, Error> {
        let node = Expr::new(kind, span);
        if node.height > MAX_HEIGHT {
            return Err(Error::with_help(
                span,
                format!("an expression of more than {MAX_HEIGHT} levels"),
                "split it with formulas of fewer terms",
            ));
        }
        Ok(node)
    }

    pub(super) fn if_then_else(&mut self) -> Result<Expr, Error> {
        let condition = self.binary(0)?;
        if !self.take_sign("?") {
            return Ok(condition);
        }
        let yes = self.expression()?;
        self.expect_sign(":", "between the two sides of `?`")?;
        let no = self.expression()?;
        let span = condition.span.to(no.span);
        self.node(
            ExprKind::IfThenElse(Box::new(condition), Box::new(yes), Box::new(no)),
            span,
        )
    }

    /// The binary operators of precedence `level` and above.
    fn binary(&mut self, level: usize) -> Result<Expr, Error> {
        if level == NOT_LEVEL && self.is_sign("!") {
            return self.negation();
        }
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let Some((_, operator)) = operators.iter().find(|(sign, _)| self.is_sign(sign)) else {
                return Ok(left);
            };
            self.next();
            let right = self.binary(level + 1)?;
            let span = left.span.to(right.span);
            left = self.node(ExprKind::Binary(*operator, Box::new(left), Box::new(right)), span)?;
        }
    }

    fn negation(&mut self) -> Result<Expr, Error> {
        let start = self.span();
        self.next();
        let inner = self.deeper(|tokens| tokens.binary(NOT_LEVEL))?;
        let span = start.to(inner.span);
        self.node(ExprKind::Not(Box::new(inner)), span)
    }

    /// A sum, without comparisons: what may stand as the bound of `P` or `R`.
    pub(crate) fn sum(&mut self) -> Result<Expr, Error> {
        self.deeper(|tokens| tokens.binary(SUM_LEVEL))
    }

    fn unary(&mut self) -> Result<Expr, Error> {
        if self.is_sign("-") {
            let start = self.next().1;
            let inner = self.deeper(Self::unary)?;
            let span = start.to(inner.span);
            return self.node(ExprKind::Minus(Box::new(inner)), span);
        }
        // A `!` inside an operand (`a=!b`) is not in PRISM's grammar, but its meaning is plain.
        if self.is_sign("!") {
            return self.negation();
        }
        let operand = self.operand()?;
        if self.is_sign("^") {
            return Err(Error::with_help(
                self.span(),
                "`^` is not an operator of the language",
                "write pow(base, exponent)",
            ));
        }
        Ok(operand)
    }

    fn operand(&mut self) -> Result<Expr, Error> {
        let span = self.span();
        match self.peek().clone() {
            Token::Int(value) => {
                self.next();
                self.node(ExprKind::Int(value), span)
            }
            Token::Real(value) => {
                self.next();
                self.node(ExprKind::Real(value), span)
            }
            Token::Sign("(") => {
                self.next();
                let mut inner = self.expression()?;
                inner.span = span.to(self.expect_sign(")", "to close this parenthesis")?);
                Ok(inner)
            }
            Token::Quoted(label) => {
                self.next();
                self.node(ExprKind::Label(label), span)
            }
            Token::Word(word) => self.word(&word),
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn word(&mut self, word: &str) -> Result<Expr, Error> {
        let span = self.span();
        match word {
            "true" | "false" => {
                self.next();
                return self.node(ExprKind::Bool(word == "true"), span);
            }
            "func" => {
                self.next();
                self.expect_sign("(", "after `func`")?;
                let (name, _) = self.next();
                let Token::Word(name) = name else {
                    return Err(Error::at(self.last_span(), "expected the name of a function"));
                };
                let function = function(&name).ok_or_else(|| unknown_function(self.last_span(), &name))?;
                self.expect_sign(",", "after the function's name")?;
                return self.call(function, span);
            }
            "P" | "R" | "S" | "Pmin" | "Pmax" | "Rmin" | "Rmax" if self.properties => return self.query(),
            "E" | "A" if self.properties => return self.branching(),
            "F" | "G" | "X" if self.paths > 0 => {
                return Err(Error::with_help(
                    span,
                    format!("a path that begins with `{word}` needs parentheses here"),
                    "write (F a) & (G b), or F (a & b)",
                ));
            }
            "F" | "G" | "X" | "U" | "W" if self.properties => {
                return Err(Error::with_help(
                    span,
                    format!("`{word}` stands outside the brackets of P, E and A"),
                    "a condition on the paths from a state is written P>=0.9 [ F … ]",
                ));
            }
            "filter" if self.properties => return self.filter(),
            "multi" if self.properties => {
                return Err(Error::at(
                    span,
                    "`multi` is not supported: it asks for choices, and a ctmc has none",
                ));
            }
            _ => {}
        }
        if *self.peek_second() == Token::Sign("(") {
            if let Some(function) = function(word) {
                self.next();
                self.next();
                return self.call(function, span);
            }
            if !is_reserved(word) {
                return Err(unknown_function(span, word));
            }
        }
        let name = self.name("an expression")?;
        self.node(ExprKind::Name(name.text), name.span)
    }

    fn call(&mut self, function: Function, start: crate::source::Span) -> Result<Expr, Error> {
        let mut arguments = vec![self.expression()?];
        while self.take_sign(",") {
            arguments.push(self.expression()?);
        }
        let span = start.to(self.expect_sign(")", "to close the call")?);
        let wanted = match function {
            Function::Min | Function::Max => arguments.len(),
            Function::Floor | Function::Ceil | Function::Round => 1,
            Function::Pow | Function::Mod | Function::Log => 2,
        };
        if arguments.len() != wanted {
            let help = match function {
                Function::Pow => "write pow(base, exponent)",
                Function::Log => "write log(x, base)",
                Function::Mod => "write mod(a, b)",
                _ => "write floor(x), ceil(x) or round(x)",
            };
            let reason = format!("{} arguments where {wanted} are wanted", arguments.len());
            return Err(Error::with_help(span, reason, help));
        }
        self.node(ExprKind::Call(function, arguments), span)
    }
}

type Level = &'static [(&'static str, Binary)];

/// From what binds least to what binds most. Implication is read left to right, as PRISM does.
const LEVELS: &[Level] = &[
    &[("=>", Binary::Implies)],
    &[("<=>", Binary::Iff)],
    &[("|", Binary::Or)],
    &[("&", Binary::And)],
    &[("=", Binary::Equal), ("!=", Binary::NotEqual)],
    &[
        ("<", Binary::Less),
        ("<=", Binary::LessOrEqual),
        (">", Binary::Greater),
        (">=", Binary::GreaterOrEqual),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide)],
];

/// A `!` stands where an operand of `&` stands.
const NOT_LEVEL: usize = 4;
const SUM_LEVEL: usize = 6;

fn function(word: &str) -> Option<Function> {
    Some(match word {
        "min" => Function::Min,
        "max" => Function::Max,
        "floor" => Function::Floor,
        "ceil" => Function::Ceil,
        "round" => Function::Round,
        "pow" => Function::Pow,
        "mod" => Function::Mod,
        "log" => Function::Log,
        _ => return None,
    })
}

fn unknown_function(span: crate::source::Span, word: &str) -> Error {
    Error::with_help(
        span,
        format!("`{word}` is not a function of the language"),
        "there are min, max, floor, ceil, round, pow, mod and log",
    )
}
