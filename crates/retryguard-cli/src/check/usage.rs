//! How a check ends: 0 for answers, 1 for a model, a property or a limit that stands in their way, 2 for what the user has to give
//! differently.

use std::fmt;
use std::process::ExitCode;

/// What was given is wrong, whatever the model would have said.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) anyhow::Error);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Wrong {}

/// Says on standard error why there is no answer.
pub(crate) fn exit(answer: anyhow::Result<()>) -> ExitCode {
    let Err(error) = answer else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    if error.is::<Wrong>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}
