//! What must never be seen in a log, a status or an error.

use std::{fmt, fs, io, path::Path};

use subtle::ConstantTimeEq as _;

/// The longest secret that is read from a file; a longer one is a wrong path.
const LONGEST: u64 = 64 * 1024;

const BEARER: &[u8] = b"Bearer ";

/// A token or an address with a password in it. Neither `Debug` nor `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret that stands in the configuration itself.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Reads a file, without the line end that editors leave.
    ///
    /// # Errors
    /// When it cannot be read, is empty, is longer than a secret can be, or holds what neither a header nor an address can carry.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        use io::Read as _;
        must_be_regular(path)?;
        let mut text = String::new();
        fs::File::open(path)?
            .take(LONGEST + 1)
            .read_to_string(&mut text)?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() || text.len() as u64 > LONGEST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "empty, or too long for a secret",
            ));
        }
        if text.contains(char::is_control) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more than one line, or a control character, which no header can carry",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret itself, for the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the value of an `Authorization` header is this token. The word `Bearer` is written in any case.
    #[must_use]
    pub fn matches_bearer(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked(BEARER.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(BEARER) && self.matches(given)
    }

    /// Whether `other` is the same, in a time that does not tell how much of it is.
    #[must_use]
    pub fn matches(&self, other: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(other).into()
    }
}

/// Refuses what is not a regular file; a device is one that can be read. To open a pipe is to wait for its writer.
pub(crate) fn must_be_regular(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = fs::metadata(path)?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a pipe or a socket; write it to a file",
        ));
    }
    Ok(())
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_whole_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "s3cret\n").unwrap();
        let secret = Secret::from_file(&path).unwrap();
        assert!(secret.matches(b"s3cret"));
        for wrong in [&b""[..], b"s3cre", b"s3cret\n", b"S3cret"] {
            assert!(!secret.matches(wrong));
        }
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    /// The scheme of a credential is case-insensitive (RFC 9110, section 11.1); lower case was refused.
    #[test]
    fn the_scheme_is_written_in_any_case_and_the_token_in_one() {
        let secret = Secret::new("s3cret");
        for right in ["Bearer s3cret", "bearer s3cret", "BEARER s3cret"] {
            assert!(secret.matches_bearer(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer S3CRET",
            "Basic s3cret",
            "Bearers3cret",
            "s3cret",
        ] {
            assert!(!secret.matches_bearer(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn an_empty_or_endless_file_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for text in [String::from("\n"), "x".repeat(64 * 1024 + 1)] {
            fs::write(&path, text).unwrap();
            assert!(Secret::from_file(&path).is_err());
        }
        fs::write(&path, "x".repeat(64 * 1024)).unwrap();
        assert!(Secret::from_file(&path).is_ok());
    }

    /// Such a token was accepted, and then no request could carry it; a pipe was waited for without end.
    #[test]
    fn two_lines_a_control_character_or_a_pipe_are_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for text in ["s3c\nret", "s3c\tret", "s3c\0ret", "s3c\r\nret\n"] {
            fs::write(&path, text).unwrap();
            let error = Secret::from_file(&path).unwrap_err().to_string();
            assert!(
                error.contains("control character") && !error.contains("s3c"),
                "{error}"
            );
        }
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(
            Secret::from_file(&pipe)
                .unwrap_err()
                .to_string()
                .contains("a pipe")
        );
    }
}
