//! Whether this program's reqwest has TLS.

use reqwest::Url;

/// Whether reqwest was built with TLS, by whichever crate of the program asked for it: reqwest then has a type `Certificate`. A
/// feature of ours could not tell, because a program can switch one of reqwest's own on.
const EXISTS: bool = {
    // The glob of a block comes before the names around the block: this is reqwest's type where there is one, and the
    // type below otherwise.
    #[allow(
        unused_imports,
        clippy::wildcard_imports,
        reason = "the type that is needed is not there without TLS"
    )]
    use reqwest::*;
    size_of::<Certificate>() > 0
};

#[allow(dead_code, reason = "hidden by reqwest's where that exists")]
struct Certificate;

/// What to do about it, for error messages.
macro_rules! advice {
    () => {
        "this program's reqwest has no TLS; switch it on in Cargo.toml by the feature `rustls` of retryguard, or by one of \
         reqwest's own, such as `native-tls`"
    };
}
pub(crate) use advice;

/// Why a redirect is not followed.
#[derive(Debug, thiserror::Error)]
#[error("the server redirects to https and {}", advice!())]
pub(crate) struct MissingForRedirect;

/// Whether an error is that of such a redirect.
pub(crate) fn is_missing_for_redirect(error: &reqwest::Error) -> bool {
    let source = std::error::Error::source(error);
    error.is_redirect() && source.is_some_and(<dyn std::error::Error>::is::<MissingForRedirect>)
}

/// Whether a URL needs TLS that is not there.
pub(crate) fn is_missing_for(url: &Url) -> bool {
    is_missing(url, EXISTS)
}

fn is_missing(url: &Url, exists: bool) -> bool {
    !exists && url.scheme() == "https"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_needs_it() {
        let of = |url: &str, exists| is_missing(&url.parse().unwrap(), exists);
        assert!(of("https://payments/charges", false));
        assert!(!of("https://payments/charges", true));
        assert!(!of("http://payments/charges", false));
    }

    #[test]
    fn tls_is_noticed() {
        let switched_on = cfg!(any(feature = "rustls", feature = "rustls-no-provider"));
        let missing = is_missing_for(&"https://payments".parse().unwrap());
        assert!(!(switched_on && missing));
    }
}
