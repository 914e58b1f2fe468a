//! The version of a runtime layer *is* its content, in words.
//!
//! An Envoy that reconnects presents the version that it accepted last. So a controller that was killed and comes
//! back reads from its Envoys what it had changed, without a file or a database of its own, and two controllers
//! that want the same say the same. The version is made of clusters and desired states only:
//! `retryguard/1 reviews=off ratings=1/250000000` (step and share in billionths).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use retryguard_core::ratio::Ratio;

use crate::config::actuator::envoy::LONGEST_NAME;
use crate::domain::state::RetryState;

const PREFIX: &str = "retryguard/1";

/// What is wanted of each cluster; one that is not named is as the user configured it.
pub(in crate::adapters::actuator) type ClusterStates = BTreeMap<String, RetryState>;

/// The version of a layer that says these desired states.
#[must_use]
pub(in crate::adapters::actuator) fn write(desired_states: &ClusterStates) -> String {
    let mut text = PREFIX.to_owned();
    for (cluster, desired) in desired_states {
        match desired {
            RetryState::Original => {}
            RetryState::Off => {
                let _ = write!(text, " {}=off", escaped(cluster));
            }
            RetryState::Part { step, share } => {
                let _ = write!(text, " {}={step}/{}", escaped(cluster), share.parts());
            }
        }
    }
    text
}

/// The desired states that a version says. Anything may be presented: what does not read as ours says nothing, and more
/// than `most` clusters are not read.
#[must_use]
pub(in crate::adapters::actuator) fn read(version: &str, most: usize) -> ClusterStates {
    let mut words = version.split(' ');
    if words.next() != Some(PREFIX) {
        return ClusterStates::new();
    }
    words.take(most).filter_map(entry).collect()
}

fn entry(word: &str) -> Option<(String, RetryState)> {
    let (cluster, desired) = word.split_once('=')?;
    let desired = if desired == "off" {
        RetryState::Off
    } else {
        let (step, parts) = desired.split_once('/')?;
        let share = Ratio::from_parts(parts.parse().ok()?);
        if share == Ratio::ZERO || share >= Ratio::ONE {
            return None;
        }
        RetryState::Part {
            step: step.parse().ok()?,
            share,
        }
    };
    let cluster = plain(cluster)?;
    (!cluster.is_empty() && cluster.len() <= LONGEST_NAME).then_some((cluster, desired))
}

fn escaped(cluster: &str) -> String {
    let mut text = String::with_capacity(cluster.len());
    for byte in cluster.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'=' | b'%') {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

fn plain(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut stop = text.as_bytes();
    while let [first, tail @ ..] = stop {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            stop = &tail[2..];
        } else {
            bytes.push(*first);
            stop = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_version_reads_as_a_sentence() {
        let desired_states = ClusterStates::from([
            ("outbound|80||reviews".to_owned(), RetryState::Off),
            (
                "a b=c%".to_owned(),
                RetryState::Part {
                    step: 1,
                    share: Ratio::percent(25),
                },
            ),
            ("untouched".to_owned(), RetryState::Original),
        ]);
        let version = write(&desired_states);
        assert_eq!(
            version,
            "retryguard/1 a%20b%3dc%25=1/250000000 outbound|80||reviews=off"
        );
        let mut read_back = read(&version, 10);
        read_back.insert("untouched".to_owned(), RetryState::Original);
        assert_eq!(read_back, desired_states);
        assert_eq!(read(&version, 1).len(), 1);
    }

    #[test]
    fn foreign_versions_say_nothing() {
        for text in [
            "",
            "7",
            "retryguard/2 a=off",
            "retryguard/1",
            "retryguard/1 a=on b=1/0 =off %=off c=1/2000000000",
        ] {
            assert_eq!(read(text, 10), ClusterStates::new(), "{text}");
        }
        let long = format!("retryguard/1 {}=off", "x".repeat(LONGEST_NAME + 1));
        assert_eq!(read(&long, 10), ClusterStates::new());
        let longest = format!("retryguard/1 {}=off", "x".repeat(LONGEST_NAME));
        assert_eq!(read(&longest, 10).len(), 1);
    }

    proptest! {
        #[test]
        fn every_name_survives(name in "\\PC{1,40}", parts in 1_u64..1_000_000_000, step in 0_u8..=255) {
            let desired = RetryState::Part { step, share: Ratio::from_parts(parts) };
            let desired_states = ClusterStates::from([(name.clone(), desired)]);
            prop_assert_eq!(read(&write(&desired_states), 10), desired_states);
        }

        #[test]
        fn any_text_is_read_without_harm(text in "(retryguard/1)?[ =%/a-f0-9\\PC]{0,80}") {
            let _ = read(&text, 5);
        }
    }
}
