//! Retry settings of other systems, as RetryGuard policies and back.
//!
//! [`import`] reads the file of another system and writes the policy that behaves like it: whatever that system does
//! not have (a guard, a budget) is switched off, so that the linter and the simulator judge what runs today. What a
//! policy cannot express is listed with its line, never dropped in silence. [`render`] goes the other way and lists
//! what the other system cannot do.
//!
//! ```
//! use retryguard_translate::{Format, import};
//!
//! let file = "AWS_RETRY_MODE=standard\nAWS_MAX_ATTEMPTS=4\n";
//! let imported = import(file, Format::Aws).unwrap();
//! let policy = retryguard_policy::Policy::parse(&imported.policy).unwrap();
//! assert_eq!(policy.service("any").target.call.retries, 3);
//! ```

mod draft;
mod file;
mod import;
mod judged;
mod render;
mod signals;
mod tree;
mod units;
mod words;

use std::fmt;

pub use file::{FileError, PolicyFile, lint_file, read_text, syntax_error};
pub use import::import;
pub use render::{Loss, Rendered, Target, render};
pub use tree::LARGEST_FILE;

/// A file format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Envoy's configuration: routes and clusters, static or as discovery resources, YAML or JSON.
    Envoy,
    /// Istio's VirtualService and DestinationRule.
    Istio,
    /// HTTPRoute and XBackendTrafficPolicy of the Kubernetes Gateway API.
    GatewayApi,
    /// A gRPC service config.
    Grpc,
    /// The retry settings of the AWS SDKs: environment variables or the shared config file.
    Aws,
    /// The `resilience4j` block of a Spring Boot application.
    Resilience4j,
    /// Options of Polly or Microsoft.Extensions.Http.Resilience.
    Polly,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] = [
        Self::Envoy,
        Self::Istio,
        Self::GatewayApi,
        Self::Grpc,
        Self::Aws,
        Self::Resilience4j,
        Self::Polly,
    ];

    /// The word of the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Istio => "istio",
            Self::GatewayApi => "gateway-api",
            Self::Grpc => "grpc",
            Self::Aws => "aws",
            Self::Resilience4j => "resilience4j",
            Self::Polly => "polly",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == word)
    }

    /// The format that a file is written in, judged by its keys; `None` for a policy of ours or something else.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        import::detect(text)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A file as a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The format that was read.
    pub format: Format,
    /// The policy, as text with comments.
    pub policy: String,
    /// For each line of the policy, the line of the file that it comes from; 1 for the file as a whole.
    pub lines: Vec<u32>,
    /// What is not the same, in the order of the file.
    pub notes: Vec<Note>,
    /// A bound on all retries of a client that a policy has no key for.
    pub beside: Beside,
    /// The policy for use together with `beside`: without the budget that stands for it elsewhere.
    pub bounded: String,
    /// Where the settings of each service stand; those of `defaults` under that name.
    places: Vec<(String, draft::Places)>,
}

impl Imported {
    /// The line of the file that a line of the policy comes from.
    #[must_use]
    pub fn source_line(&self, line: u32) -> u32 {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        self.lines.get(index).copied().unwrap_or(1)
    }
}

/// Something that the policy does not express as the file does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line in the file; 1 for the file as a whole.
    pub line: u32,
    /// Whether it is left out, or only not quite the same.
    pub kind: NoteKind,
    /// What, and what it means.
    pub message: String,
}

/// How far a policy is from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// The policy does not have it.
    Lost,
    /// The policy has something close to it.
    Changed,
}

impl NoteKind {
    /// The word of reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Changed => "changed",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.kind.as_str(), self.message)
    }
}

/// Bounds of other systems that a policy has no key for, and that a simulator may have.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Beside {
    /// None.
    #[default]
    None,
    /// Envoy and Istio: concurrent retries, as a share of the active requests and at the least.
    ConcurrentRetries {
        /// The share of the active requests.
        share: f64,
        /// At the least.
        least: u32,
    },
    /// gRPC: a failure takes a token, a success gives a part of one, retries need more than half of them.
    Tokens {
        /// The most tokens, and those at the start.
        most: f64,
        /// What a success gives.
        gain: f64,
    },
    /// The adaptive mode of the AWS SDKs: a send limiter.
    SendLimiter,
}

/// Why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The line, where there is one.
    pub line: Option<u32>,
    /// Why, and what to do.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Refused {}
