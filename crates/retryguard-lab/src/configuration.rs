//! The configurations under test: A to F as they are described, and G, ours.

use std::{fmt, str::FromStr};

/// One of the seven, each a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Configuration {
    /// Nothing.
    A,
    /// Immediate retries.
    B,
    /// B and timeouts.
    C,
    /// C and breakers.
    D,
    /// D, bulkheads and shedding.
    E,
    /// E, keys and the outbox.
    F,
    /// F, budget, throttle and guard: RetryGuard.
    G,
}

impl Configuration {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F, Self::G];

    /// The letter.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
            Self::G => "G",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::A => "no resilience",
            Self::B => "immediate retries",
            Self::C => "retries and timeouts",
            Self::D => "C and circuit breakers",
            Self::E => "D, bulkheads and shedding",
            Self::F => "E, keys and outbox",
            Self::G => "RetryGuard",
        }
    }

    /// The text of its policy file, `policies/*.yaml`.
    #[must_use]
    pub const fn policy(self) -> &'static str {
        match self {
            Self::A => include_str!("../policies/a.yaml"),
            Self::B => include_str!("../policies/b.yaml"),
            Self::C => include_str!("../policies/c.yaml"),
            Self::D => include_str!("../policies/d.yaml"),
            Self::E => include_str!("../policies/e.yaml"),
            Self::F => include_str!("../policies/f.yaml"),
            Self::G => include_str!("../policies/g.yaml"),
        }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

impl Configuration {
    /// Letters and ranges of letters, such as `G`, `A,B,G` or `A..F`, in their order and each once.
    ///
    /// # Errors
    /// Where a letter is unknown, or no configuration is named.
    pub fn list(text: &str) -> anyhow::Result<Vec<Self>> {
        let mut chosen = Vec::new();
        for part in text.split(',') {
            if let Some((first, last)) = part.split_once("..") {
                let (first, last): (Self, Self) = (first.parse()?, last.parse()?);
                chosen.extend(Self::ALL.into_iter().filter(|it| (first..=last).contains(it)));
            } else {
                chosen.push(part.parse()?);
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        if chosen.is_empty() {
            anyhow::bail!(
                "`{text}` names no configuration: write letters from A to G, such as A,B,G or A..F"
            );
        }
        Ok(chosen)
    }
}

impl FromStr for Configuration {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|known| known.letter().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                anyhow::anyhow!("`{text}` is not a configuration: choose one of A, B, C, D, E, F and G")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeScale;
    use retryguard_policy::Policy;

    /// Every file of the folder is embedded, here or in the sweep.
    #[test]
    fn every_policy_file_is_used() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut embedded: Vec<String> = Configuration::ALL
            .iter()
            .map(|configuration| format!("{}.yaml", configuration.letter().to_lowercase()))
            .collect();
        let rules = crate::experiment::Rule::ALL.map(|rule| format!("sweep-{}.yaml", rule.as_str()));
        embedded.extend(rules);
        embedded.sort();
        assert_eq!(names, embedded);
    }

    /// Shortened and lengthened durations stay within the bounds that a policy has for them.
    #[test]
    fn every_policy_is_one_at_every_scale() {
        for configuration in Configuration::ALL {
            for factor in [crate::scale::LEAST, 0.1, 0.5, 1.0, crate::scale::MOST] {
                let text = TimeScale::new(factor).unwrap().policy(configuration.policy());
                Policy::parse(&text)
                    .unwrap_or_else(|mistakes| panic!("{configuration} at {factor}: {mistakes}"));
            }
        }
    }

    #[test]
    fn a_letter_is_read_in_either_case() {
        assert_eq!("g".parse::<Configuration>().unwrap(), Configuration::G);
        assert!(
            "H".parse::<Configuration>()
                .unwrap_err()
                .to_string()
                .contains("A, B")
        );
    }
}
