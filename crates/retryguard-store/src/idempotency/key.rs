//! The header after the IETF draft: one structured-field string (RFC 9651).

use http::{HeaderMap, HeaderName};

/// The header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a key cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedKey {
    /// More than one header line.
    #[error("the header is there more than once; send one key")]
    Repeated,
    /// Not in quotes.
    #[error("the key must be a string in double quotes, as in Idempotency-Key: \"8e03978e-40d5\"")]
    Unquoted,
    /// No closing quote, an unknown escape, or a character that may not be in it.
    #[error(
        "the key may hold visible ASCII characters and spaces; quote and backslash are escaped with a backslash"
    )]
    Characters,
    /// Something follows it that is not a parameter.
    #[error("after the closing quote only parameters may follow, as in \"key\";name=value")]
    Trailing,
    /// Nothing in it.
    #[error("the key is empty")]
    Empty,
    /// Longer than the limit.
    #[error("the key has {size} characters, and the limit is {limit}")]
    TooLong {
        /// Its length.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

/// Reads the key; none where there is no header. `bare`: a value without quotes is taken as it stands, which is
/// what most clients of older services send.
///
/// # Errors
/// Where the header is not one key of at most `limit` characters.
pub fn read_key(headers: &HeaderMap, limit: usize, bare: bool) -> Result<Option<String>, MalformedKey> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(MalformedKey::Repeated);
    }
    let text = value.as_bytes().trim_ascii();
    let key = match text.first() {
        None => return Err(MalformedKey::Empty),
        Some(b'"') => string(text)?,
        Some(_) if bare && text.iter().all(u8::is_ascii_graphic) => {
            String::from_utf8_lossy(text).into_owned()
        }
        Some(_) => return Err(MalformedKey::Unquoted),
    };
    match key.len() {
        0 => Err(MalformedKey::Empty),
        size if size > limit => Err(MalformedKey::TooLong { size, limit }),
        _ => Ok(Some(key)),
    }
}

/// A string and the parameters behind it, which mean nothing to us and are allowed by the standard.
fn string(text: &[u8]) -> Result<String, MalformedKey> {
    let (key, rest) = quoted(text).ok_or(MalformedKey::Characters)?;
    if parameters(rest) {
        Ok(key)
    } else {
        Err(MalformedKey::Trailing)
    }
}

/// The string at the beginning, and what comes behind it.
fn quoted(text: &[u8]) -> Option<(String, &[u8])> {
    let mut key = String::new();
    let mut bytes = text.strip_prefix(b"\"")?;
    loop {
        let (first, rest) = bytes.split_first()?;
        bytes = rest;
        match first {
            b'"' => return Some((key, bytes)),
            b'\\' => {
                let (escaped, rest) = bytes.split_first()?;
                if !matches!(escaped, b'"' | b'\\') {
                    return None;
                }
                key.push(char::from(*escaped));
                bytes = rest;
            }
            0x20..=0x7e => key.push(char::from(*first)),
            _ => return None,
        }
    }
}

/// `;name` or `;name=value`, any number of them.
fn parameters(mut rest: &[u8]) -> bool {
    while let Some(behind) = rest.strip_prefix(b";") {
        let behind = behind.trim_ascii_start();
        let name = behind
            .iter()
            .take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte))
            .count();
        if name == 0 || !(behind[0].is_ascii_lowercase() || behind[0] == b'*') {
            return false;
        }
        rest = &behind[name..];
        if let Some(value) = rest.strip_prefix(b"=") {
            let Some(behind) = bare_item(value) else {
                return false;
            };
            rest = behind;
        }
    }
    rest.is_empty()
}

/// A value of a parameter: a string, or any run of the characters of numbers, tokens, byte sequences, booleans
/// and dates. Not checked further: it is thrown away.
fn bare_item(text: &[u8]) -> Option<&[u8]> {
    if text.first() == Some(&b'"') {
        return quoted(text).map(|(_, rest)| rest);
    }
    let size = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/?=@".contains(byte))
        .count();
    (size > 0).then(|| &text[size..])
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Result<Option<String>, MalformedKey> {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_bytes(text.as_bytes()).unwrap());
        read_key(&headers, 16, false)
    }

    #[test]
    fn a_quoted_string_is_a_key() {
        assert_eq!(of("\"8e03978e-40d5\""), Ok(Some("8e03978e-40d5".to_owned())));
        assert_eq!(of("  \"a b\"  "), Ok(Some("a b".to_owned())));
        assert_eq!(of(r#""a\"b\\c""#), Ok(Some(r#"a"b\c"#.to_owned())));
        assert_eq!(read_key(&HeaderMap::new(), 16, false), Ok(None));
    }

    #[test]
    fn parameters_are_read_over() {
        for text in [
            "\"k\";a",
            "\"k\"; a=1",
            "\"k\";a=\"x;y\";b=?1;c=:aGk=:",
            "\"k\";*a=tok/en",
        ] {
            assert_eq!(of(text), Ok(Some("k".to_owned())), "{text}");
        }
        for text in ["\"k\" x", "\"k\", \"l\"", "\"k\";", "\"k\";A=1", "\"k\";a="] {
            assert_eq!(of(text), Err(MalformedKey::Trailing), "{text}");
        }
    }

    #[test]
    fn what_is_no_string_is_refused_by_its_reason() {
        assert_eq!(of("8e03978e"), Err(MalformedKey::Unquoted));
        assert_eq!(of("\"open"), Err(MalformedKey::Characters));
        assert_eq!(of(r#""a\n""#), Err(MalformedKey::Characters));
        assert_eq!(of("\"ü\""), Err(MalformedKey::Characters));
        assert_eq!(of("\"\""), Err(MalformedKey::Empty));
        assert_eq!(of(""), Err(MalformedKey::Empty));
    }

    #[test]
    fn the_limit_is_for_the_key_itself() {
        assert!(of("\"0123456789abcdef\"").is_ok());
        let too_long = MalformedKey::TooLong { size: 17, limit: 16 };
        assert_eq!(of("\"0123456789abcdefg\""), Err(too_long));
    }

    #[test]
    fn two_lines_are_no_key() {
        let mut headers = HeaderMap::new();
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("\"a\""));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("\"b\""));
        assert_eq!(read_key(&headers, 16, false), Err(MalformedKey::Repeated));
    }

    #[test]
    fn bare_keys_where_they_are_wanted() {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("8e03978e"));
        assert_eq!(read_key(&headers, 16, true), Ok(Some("8e03978e".to_owned())));
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("a b"));
        assert_eq!(read_key(&headers, 16, true), Err(MalformedKey::Unquoted));
    }

    /// As RFC 9651 writes a string.
    fn written(key: &str) -> String {
        format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
    }

    proptest! {
        /// Any bytes that a header may have end with a key within the limit or with a reason.
        #[test]
        fn every_header_is_a_key_or_is_refused(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..3),
            bare in any::<bool>(),
        ) {
            let mut headers = HeaderMap::new();
            for value in values.iter().filter_map(|bytes| HeaderValue::from_bytes(bytes).ok()) {
                headers.append(IDEMPOTENCY_KEY, value);
            }
            if let Ok(Some(key)) = read_key(&headers, 16, bare) {
                prop_assert_eq!(headers.len(), 1);
                prop_assert!((1..=16).contains(&key.len()));
                prop_assert!(key.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
            }
        }

        /// The same near what is right: quotes, escapes and parameters.
        #[test]
        fn every_text_like_a_key_is_a_key_or_is_refused(text in "\"?[a\"\\\\ ]{0,6}\"?(;[ *a]{0,2}=?\"?[1a:?]{0,2}\"?){0,3}") {
            if let Ok(Some(key)) = of(&text) {
                prop_assert!(text.trim_start().starts_with(&written(&key)), "{key:?} of {text:?}");
            }
        }

        #[test]
        fn a_written_key_is_read_back(key in "[ -~]{1,16}", parameters in "(;a[a-z0-9_]{0,3}(=[0-9]{1,3})?){0,2}") {
            let text = written(&key) + &parameters;
            prop_assert_eq!(of(&text), Ok(Some(key)));
        }
    }
}
