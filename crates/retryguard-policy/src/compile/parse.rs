//! From the text of a file to the compiled form.

use crate::{
    diagnostics::{Diagnostics, Mistakes},
    policy::Policy,
    written, yaml,
};

impl Policy {
    /// Reads a policy file, or reports every mistake in it at once.
    pub fn parse(text: &str) -> Result<Self, Diagnostics> {
        let mut mistakes = Mistakes::default();
        let written = read(text, &mut mistakes);
        let policy = super::policy(&written, &mut mistakes);
        mistakes.or(policy)
    }
}

impl Default for Policy {
    /// What an empty file says: the safe defaults.
    fn default() -> Self {
        super::policy(&written::Document::default(), &mut Mistakes::default())
    }
}

/// Text to the written form; what could not be read is left out, and reported in `mistakes`.
pub(crate) fn read(text: &str, mistakes: &mut Mistakes) -> written::Document {
    yaml::read(text, mistakes)
        .map(|root| written::document(&root, mistakes))
        .unwrap_or_default()
}
