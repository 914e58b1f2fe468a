//! What is behind an error.

/// An error and its causes: the outer one alone says "dispatch failure" or "service error". A cause that its wrapper has
/// quoted already is not said again.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        inner = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::chain;

    #[derive(Debug, thiserror::Error)]
    #[error("the outer one quotes: {0}")]
    struct Quotes(#[source] Hides);

    #[derive(Debug, thiserror::Error)]
    #[error("the middle one hides")]
    struct Hides(#[source] std::io::Error);

    #[test]
    fn every_cause_is_told_once() {
        let error = Quotes(Hides(std::io::Error::other("the disk is full")));
        assert_eq!(
            chain(&error),
            "the outer one quotes: the middle one hides: the disk is full"
        );
    }
}
