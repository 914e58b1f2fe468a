//! How much a request matters.

/// The severity of failing a request, least first. Travels with the request, so that a server under load
/// knows what to drop and a client's throttle keeps its counts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Criticality {
    /// Partial and even total unavailability is expected now and then: prefetching, batch work.
    Sheddable,
    /// Unavailability is tolerable for minutes: batch work with a reader waiting.
    SheddablePlus,
    /// What a person is waiting for. The default: a service is provisioned for all of it.
    #[default]
    Critical,
    /// Must survive to the last: what would cause serious harm if it failed.
    CriticalPlus,
}

impl Criticality {
    /// Every level, least first.
    pub const ALL: [Self; 4] = [
        Self::Sheddable,
        Self::SheddablePlus,
        Self::Critical,
        Self::CriticalPlus,
    ];

    /// The position in [`Criticality::ALL`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word used in policies, tags and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::SheddablePlus => "sheddable-plus",
            Self::Critical => "critical",
            Self::CriticalPlus => "critical-plus",
        }
    }

    /// The level that a word names; case and `_` for `-` do not matter.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| {
            level.as_str().len() == word.len()
                && level
                    .as_str()
                    .bytes()
                    .zip(word.bytes())
                    .all(|(want, got)| want == got.to_ascii_lowercase() || (want == b'-' && got == b'_'))
        })
    }
}

impl std::fmt::Display for Criticality {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_found_by_its_word() {
        for level in Criticality::ALL {
            assert_eq!(Criticality::from_word(level.as_str()), Some(level));
            assert_eq!(
                Criticality::from_word(&level.as_str().to_uppercase().replace('-', "_")),
                Some(level)
            );
        }
        assert_eq!(Criticality::from_word("criticalplus"), None);
    }
}
