//! No text makes the parser or the linter panic.

use proptest::{collection::vec, prelude::*};
use retryguard_policy::{Policy, lint};

use crate::policy_file;

fn takes_or_refuses(text: &str) {
    match Policy::parse(text) {
        Ok(policy) => {
            let digest = Some(policy.digest().to_owned());
            assert_eq!(lint(text).ok().map(|report| report.digest), digest);
            assert_eq!(
                Policy::parse(text).ok().map(|again| again.digest().to_owned()),
                digest
            );
        }
        Err(mistakes) => {
            assert!(!mistakes.as_slice().is_empty());
            assert!(!mistakes.to_string().is_empty());
            assert!(lint(text).is_err());
        }
    }
}

const PIECES: &[&str] = &[
    "defaults",
    "services",
    "maxRetries",
    "budget",
    "breaker",
    "guard",
    "hedge",
    "bulkhead",
    "server",
    "calls",
    "retryOn",
    "deadline",
    ":",
    ": ",
    "\n",
    "\n  ",
    "\n    ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|",
    ">",
    "&a",
    "*a",
    "!!str",
    "---",
    "...",
    "#",
    "%",
    "~",
    "off",
    "on",
    "20%",
    "0.2",
    "100ms",
    "-1",
    "1e999",
    "999999999999999999h",
    "18446744073709551616",
    "\u{feff}",
    "\t",
    "?",
    "\0",
    "é",
    "<<",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        takes_or_refuses(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_of_a_policy(pieces in vec(proptest::sample::select(PIECES), 0..60)) {
        takes_or_refuses(&pieces.concat());
    }

    /// A valid policy with some of its bytes replaced, removed or doubled.
    #[test]
    fn a_damaged_policy(
        file in proptest::sample::select(&["default.yaml", "microservices.yaml", "three-layers.yaml"][..]),
        damage in vec((any::<proptest::sample::Index>(), 0u8..3, any::<u8>()), 1..8),
    ) {
        let mut bytes = policy_file(file).into_bytes();
        for (place, how, byte) in damage {
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, bytes[place]),
            }
        }
        takes_or_refuses(&String::from_utf8_lossy(&bytes));
    }

    /// A valid key with an arbitrary value.
    #[test]
    fn a_key_with_any_value(
        key in proptest::sample::select(&[
            "maxRetries", "initialDelay", "multiplier", "jitter", "deadline", "retryOn", "budget", "replayLimit",
            "calls", "period", "gate", "criticality",
        ][..]),
        value in "[-+.0-9a-z%\\[\\]{}:, ]{0,24}",
    ) {
        takes_or_refuses(&format!("services:\n  a:\n    {key}: {value}\n"));
    }
}
