//! Text to tokens.

use crate::error::Error;
use crate::source::Span;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    Int(i64),
    Real(f64),
    Quoted(String),
    /// An operator or a bracket.
    Sign(&'static str),
    /// What is not part of the language. It is refused where it is met, so that it costs only the property that it is in.
    Foreign(Box<Error>),
    End,
}

impl Token {
    /// How an error calls it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Int(number) => format!("`{number}`"),
            Token::Real(number) => format!("`{number}`"),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Foreign(error) => error.to_string(),
            Token::End => "the end of the text".to_owned(),
        }
    }
}

/// Longest first, so that `<=>` is not read as `<=` and `>`.
const SIGNS: &[&str] = &[
    "|||", "<=>", "|[", "]|", "||", "->", "..", "<-", "<=", ">=", "!=", "=>", "(", ")", "[", "]", "{", "}",
    "<", ">", "=", "!", "&", "|", "+", "-", "*", "/", "?", ":", ";", ",", "'", "^",
];

/// Splits `text` into tokens, the last of which is [`Token::End`].
pub(crate) fn lex(text: &str) -> Vec<(Token, Span)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        // Editors on some systems leave a byte-order mark.
        if next.is_whitespace() || next == '\u{feff}' {
            at += next.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if next.is_ascii_alphabetic() || next == '_' {
            let length = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            push(
                &mut tokens,
                Token::Word(rest[..length].to_owned()),
                &mut at,
                length,
            );
        } else if next.is_ascii_digit()
            || (next == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let (token, length) = number(rest, at);
            push(&mut tokens, token, &mut at, length);
        } else if next == '"' {
            let Some(length) = rest[1..]
                .find(['"', '\n'])
                .filter(|n| rest[1 + n..].starts_with('"'))
            else {
                let span = Span {
                    start: at,
                    end: at + 1,
                };
                let error = Error::at(span, "this quotation is not closed");
                let length = rest.find('\n').unwrap_or(rest.len());
                push(&mut tokens, foreign(error), &mut at, length);
                continue;
            };
            push(
                &mut tokens,
                Token::Quoted(rest[1..=length].to_owned()),
                &mut at,
                length + 2,
            );
        } else if rest.starts_with("/*") {
            let span = Span {
                start: at,
                end: at + 2,
            };
            let error = Error::with_help(
                span,
                "`/*` begins no comment in this language",
                "begin each of its lines with `//`",
            );
            let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
            push(&mut tokens, foreign(error), &mut at, length);
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            push(&mut tokens, Token::Sign(sign), &mut at, sign.len());
        } else {
            let span = Span {
                start: at,
                end: at + next.len_utf8(),
            };
            let reason = format!("`{next}` is not part of the language");
            let error = match next {
                '%' => Error::with_help(span, reason, "write mod(a, b) for what is left of a division"),
                _ => Error::at(span, reason),
            };
            push(&mut tokens, foreign(error), &mut at, next.len_utf8());
        }
    }
    tokens.push((Token::End, Span { start: at, end: at }));
    tokens
}

fn foreign(error: Error) -> Token {
    Token::Foreign(Box::new(error))
}

fn push(tokens: &mut Vec<(Token, Span)>, token: Token, at: &mut usize, length: usize) {
    tokens.push((
        token,
        Span {
            start: *at,
            end: *at + length,
        },
    ));
    *at += length;
}

/// A number at the start of `rest`. `0..5` is a range, so a dot belongs to the number only if no dot follows.
fn number(rest: &str, at: usize) -> (Token, usize) {
    let bytes = rest.as_bytes();
    let digits = |mut from: usize| {
        while bytes.get(from).is_some_and(u8::is_ascii_digit) {
            from += 1;
        }
        from
    };
    let mut end = digits(0);
    let mut real = false;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1) != Some(&b'.') {
        real = true;
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            real = true;
            end = exponent;
        }
    }
    let span = Span {
        start: at,
        end: at + end,
    };
    let text = &rest[..end];
    let token = if real {
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Token::Real(value),
            Ok(_) => foreign(Error::at(span, format!("`{text}` is too large for a double"))),
            Err(_) => foreign(Error::at(span, format!("`{text}` is not a number"))),
        }
    } else {
        match text.parse() {
            Ok(value) => Token::Int(value),
            Err(_) => foreign(Error::with_help(
                span,
                format!("`{text}` is too large for an integer"),
                "write it as a double, with a decimal point",
            )),
        }
    };
    (token, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Token> {
        lex(text).into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn a_range_is_not_a_decimal_number() {
        assert_eq!(
            kinds("[0..5] 1.5e-3 .5 2."),
            [
                Token::Sign("["),
                Token::Int(0),
                Token::Sign(".."),
                Token::Int(5),
                Token::Sign("]"),
                Token::Real(1.5e-3),
                Token::Real(0.5),
                Token::Real(2.0),
                Token::End
            ]
        );
    }

    #[test]
    fn comments_and_marks_are_layout() {
        assert_eq!(
            kinds("\u{feff}a // b\n'"),
            [Token::Word("a".into()), Token::Sign("'"), Token::End]
        );
    }

    #[test]
    fn what_is_foreign_is_named_with_its_place() {
        let [_, Token::Foreign(error), Token::End] = &kinds("a\n  §")[..] else {
            panic!("three tokens");
        };
        assert!(
            error
                .render("m", "a\n  §", "")
                .starts_with("m:2:3: `§` is not part of the language")
        );
        assert!(matches!(
            kinds("\"open\nb")[..],
            [Token::Foreign(_), Token::Word(_), Token::End]
        ));
        assert!(matches!(
            kinds("99999999999999999999")[..],
            [Token::Foreign(_), Token::End]
        ));
    }
}
