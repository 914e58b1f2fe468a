//! A cursor over tokens: what every part of the parser is made of.

use super::ast::Name;
use super::lexer::{Token, lex};
use crate::error::Error;
use crate::source::Span;

/// Words that cannot be names.
const RESERVED: &[&str] = &[
    "A",
    "bool",
    "clock",
    "const",
    "ctmc",
    "C",
    "double",
    "dtmc",
    "E",
    "endinit",
    "endinvariant",
    "endmodule",
    "endobservables",
    "endrewards",
    "endsystem",
    "false",
    "formula",
    "filter",
    "func",
    "F",
    "global",
    "G",
    "init",
    "invariant",
    "I",
    "int",
    "label",
    "max",
    "mdp",
    "min",
    "module",
    "X",
    "nondeterministic",
    "observable",
    "observables",
    "of",
    "Pmax",
    "Pmin",
    "P",
    "pomdp",
    "popta",
    "probabilistic",
    "prob",
    "pta",
    "rate",
    "rewards",
    "Rmax",
    "Rmin",
    "R",
    "S",
    "stochastic",
    "system",
    "true",
    "U",
    "W",
];

/// How deep expressions may nest. Each level costs the parser a few hundred bytes of stack, and no author writes
/// a hundred.
pub(crate) const MAX_DEPTH: usize = 200;

pub(crate) struct Tokens<'a> {
    pub(crate) text: &'a str,
    tokens: Vec<(Token, Span)>,
    at: usize,
    pub(crate) depth: usize,
    /// Operators of the `system` block so far.
    pub(crate) compositions: usize,
    /// Whether labels and `P`, `R`, `S` may stand in expressions.
    pub(crate) properties: bool,
    /// How many brackets of `P`, `E` and `A` are open: within one, path operators may stand in expressions.
    pub(crate) paths: usize,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a str, properties: bool) -> Result<Self, Error> {
        let tokens = lex(text);
        // A model is read whole or not at all; of properties, those around what is foreign are read.
        if !properties
            && let Some(Token::Foreign(error)) = tokens
                .iter()
                .map(|(token, _)| token)
                .find(|token| matches!(token, Token::Foreign(_)))
        {
            return Err((**error).clone());
        }
        Ok(Tokens {
            text,
            tokens,
            at: 0,
            depth: 0,
            compositions: 0,
            properties,
            paths: 0,
        })
    }

    pub(crate) fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    pub(crate) fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    pub(crate) fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    /// The place of the token just taken.
    pub(crate) fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].1
    }

    pub(crate) fn next(&mut self) -> (Token, Span) {
        let token = self.tokens[self.at].clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    pub(crate) fn place(&self) -> usize {
        self.at
    }

    pub(crate) fn rewind(&mut self, place: usize) {
        self.at = place;
    }

    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    pub(crate) fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.next();
        }
        found
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    pub(crate) fn expect_sign(&mut self, sign: &str, context: &str) -> Result<Span, Error> {
        if self.is_sign(sign) {
            return Ok(self.next().1);
        }
        let mut error = self.unexpected(&format!("`{sign}` {context}"));
        // What is missing at the end of a line is missing there, not where the next line begins.
        let end = self.last_span().end;
        let starts_a_line = self
            .text
            .get(end..self.span().start)
            .is_some_and(|between| between.contains('\n'));
        if let Error::Language { span, .. } = &mut error
            && sign == ";"
            && starts_a_line
        {
            *span = Span { start: end, end };
        }
        Err(error)
    }

    pub(crate) fn expect_word(&mut self, word: &str, context: &str) -> Result<Span, Error> {
        if self.is_word(word) {
            return Ok(self.next().1);
        }
        Err(self.unexpected(&format!("`{word}` {context}")))
    }

    pub(crate) fn name(&mut self, what: &str) -> Result<Name, Error> {
        match self.peek().clone() {
            Token::Word(word) if is_reserved(&word) => Err(Error::at(
                self.span(),
                format!("`{word}` is a reserved word and cannot be {what}"),
            )),
            Token::Word(text) => Ok(Name {
                text,
                span: self.next().1,
            }),
            _ => Err(self.unexpected(what)),
        }
    }

    pub(crate) fn quoted(&mut self, what: &str) -> Result<Name, Error> {
        match self.peek().clone() {
            Token::Quoted(text) => Ok(Name {
                text,
                span: self.next().1,
            }),
            _ => Err(self.unexpected(what)),
        }
    }

    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        if let Token::Foreign(error) = self.peek() {
            return (**error).clone();
        }
        let reason = format!("expected {wanted}, found {}", self.peek().describe());
        match self.habit() {
            Some(help) => Error::with_help(self.span(), reason, help),
            None => Error::at(self.span(), reason),
        }
    }

    /// Help for operators that other languages spell differently.
    fn habit(&self) -> Option<&'static str> {
        let before = self.at.checked_sub(1).map(|place| &self.tokens[place].0);
        match (before, self.peek()) {
            (Some(Token::Sign("=")), Token::Sign("=")) => Some("equality is written `=`"),
            (Some(Token::Sign("&")), Token::Sign("&")) => Some("and is written `&`"),
            (_, Token::Sign("||")) => Some("or is written `|`"),
            (Some(Token::Sign("/")), Token::Sign("*")) => {
                Some("a comment begins with `//` and ends with its line")
            }
            _ => None,
        }
    }

    /// Runs `inner` one level deeper, and refuses to go deeper than any author would.
    pub(crate) fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::at(
                self.span(),
                format!("nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }
}

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}
