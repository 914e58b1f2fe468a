//! What can go wrong, by audience: the author of a model, the author of a property, the user of a limit.

use crate::source::{Span, excerpt};

/// Why a model or a property was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a sentence of the language, or means nothing.
    #[error("{reason}")]
    Language {
        /// Where.
        span: Span,
        /// Which text the place is in.
        file: File,
        /// What is wrong.
        reason: String,
        /// What to do next.
        help: Option<String>,
    },
    /// A constant that the model leaves open has no value.
    #[error("the constant `{name}` has no value: give it with --const {name}=…")]
    OpenConstant {
        /// The constant's name.
        name: String,
    },
    /// A value was given for a name that the model does not leave open.
    #[error("--const {name}: {reason}")]
    GivenConstant {
        /// The name as given.
        name: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A state in which something cannot be computed.
    #[error("{reason} in state {state}")]
    State {
        /// Where the offending expression stands.
        span: Span,
        /// What is wrong.
        reason: String,
        /// The state, variable by variable.
        state: String,
    },
    /// A state that nothing leaves.
    #[error(
        "deadlock in state {state}: no command is enabled with a rate above 0; give it a self-loop such as \
         `[] guard -> true;` if the model is meant to stop there"
    )]
    Deadlock {
        /// The state, variable by variable.
        state: String,
    },
    /// A limit on size was met.
    #[error("{}: {help}", beyond(what, *limit))]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The limit in force.
        limit: u64,
        /// How to raise it, or how to need less.
        help: &'static str,
    },
    /// A variable without a range goes on and on.
    #[error(
        "`{variable}` has no range and still changes after {states} states: give it a range, such as \
         {variable} : [0..1000], or raise --max-states"
    )]
    Unranged {
        /// The variable's name.
        variable: String,
        /// States that were built.
        states: u64,
    },
    /// An iterative solver did not settle.
    #[error("no convergence after {iterations} iterations (last change {change:e}): {help}")]
    Convergence {
        /// Iterations made.
        iterations: u64,
        /// The last relative change.
        change: f64,
        /// What may help.
        help: &'static str,
    },
    /// The property cannot be answered on this chain.
    #[error("{reason}")]
    Property {
        /// Why not.
        reason: String,
    },
}

/// Which text a place is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File {
    /// The model.
    Model,
    /// The properties.
    Properties,
}

/// What memory is called in [`Error::Limit`].
pub(crate) const MEMORY: &str = "bytes of memory";

/// The limit in the user's units.
fn beyond(what: &str, limit: u64) -> String {
    if what == MEMORY {
        format!(
            "more than the {} MiB of memory that a chain may take",
            limit >> 20
        )
    } else {
        format!("more than the {limit} {what} that are allowed")
    }
}

/// What corrects an error that depends on the state.
const EXCLUDE: &str =
    "let the guard exclude this state, or change the expression or the range of the variable";

impl Error {
    /// Whether [`Options::max_memory`](crate::Options::max_memory) was met.
    #[must_use]
    pub fn is_memory_limit(&self) -> bool {
        matches!(self, Error::Limit { what, .. } if *what == MEMORY)
    }

    pub(crate) fn at(span: Span, reason: impl Into<String>) -> Error {
        Error::Language {
            span,
            file: File::Model,
            reason: reason.into(),
            help: None,
        }
    }

    pub(crate) fn with_help(span: Span, reason: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Language {
            span,
            file: File::Model,
            reason: reason.into(),
            help: Some(help.into()),
        }
    }

    /// The same error, said of the text of the properties.
    pub(crate) fn in_properties(self) -> Error {
        match self {
            Error::Language {
                span, reason, help, ..
            } => Error::Language {
                span,
                file: File::Properties,
                reason,
                help,
            },
            other => other,
        }
    }

    /// The message with its place: `name:line:column: reason`, the line, and the place underlined.
    pub fn render(&self, name: &str, model: &str, properties: &str) -> String {
        self.render_among(name, model, &[("property", properties)])
    }

    /// As [`Error::render`], where the properties were read with [`crate::Properties::parse_among`].
    pub fn render_among(&self, name: &str, model: &str, properties: &[(&str, &str)]) -> String {
        let (span, text, name, help) = match self {
            Error::Language {
                span,
                file: File::Model,
                help,
                ..
            } => (*span, model, name, help.as_deref()),
            Error::Language {
                span,
                file: File::Properties,
                help,
                ..
            } => {
                let (name, text, span) = among(properties, *span);
                (span, text, name, help.as_deref())
            }
            Error::State { span, .. } => (*span, model, name, Some(EXCLUDE)),
            _ => return format!("{name}: {self}"),
        };
        let (line, column) = span.line_and_column(text);
        let mut out = format!("{name}:{line}:{column}: {self}\n{}", excerpt(text, span));
        if let Some(help) = help {
            out.push_str("\nhelp: ");
            out.push_str(help);
        }
        out
    }
}

/// Stands between texts of properties that are read as one.
pub(crate) const SEPARATOR: &str = "\n;\n";

/// The text that a place in all of them is in, and where it is there.
fn among<'t>(texts: &[(&'t str, &'t str)], span: Span) -> (&'t str, &'t str, Span) {
    let mut start = 0;
    for (place, (name, text)) in texts.iter().enumerate() {
        let next = start + text.len() + SEPARATOR.len();
        if span.start < next || place + 1 == texts.len() {
            let within = Span {
                start: span.start.saturating_sub(start),
                end: span.end.saturating_sub(start),
            };
            return (name, text, within);
        }
        start = next;
    }
    ("property", "", span)
}
