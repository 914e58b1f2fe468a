//! Addresses of servers that we ask.

use retryguard_policy::{
    Position,
    reading::{Mistakes, shortened},
};

/// An address that can be asked over HTTP. One with a name or a password in it is refused: it would end up in
/// logs and errors.
pub(crate) fn checked(text: &str, at: Position, mistakes: &mut Mistakes) -> Option<String> {
    let url = reqwest::Url::parse(text).ok();
    let good = url.as_ref().is_some_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    if !good {
        // Not the text itself: it may hold a password.
        let shown = if text.contains('@') {
            "…".to_owned()
        } else {
            shortened(text)
        };
        mistakes.add(
            at,
            format!("`{shown}` is not an address"),
            "write http://host:port or https://host:port without a name; a token goes into `tokenFile`",
        );
        return None;
    }
    Some(text.to_owned())
}
