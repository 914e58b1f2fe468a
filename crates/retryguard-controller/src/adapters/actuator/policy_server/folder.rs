//! The folder: policies and decisions, read again and again, and never forgotten for a mistake.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use retryguard_core::Ratio;
use retryguard_policy::{Diagnostics, LARGEST_FILE, Policy};
use serde_json::{Value, json};

use crate::adapters::actuator::policy_server::LAPSE;
use crate::adapters::actuator::policy_server::merge::merged;
use crate::clock::unix_time;
use crate::domain::state::RetryState;
use crate::domain::target::TargetName;

/// The most policies of one folder.
pub(super) const MOST_POLICIES: usize = 1_000;

/// Where decisions are kept, beside the policies, so that a controller that was killed finds them again.
const DECISIONS: &str = ".retryguard-decisions.json";

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) service: String,
    pub(super) desired: RetryState,
}

pub(super) type Decisions = BTreeMap<TargetName, Decision>;

/// A policy as it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Served {
    /// Counts what was served under this name since the start.
    pub(super) version: u64,
    pub(super) text: String,
    /// The user's own text, where decisions are merged into the other.
    pub(super) original: Option<String>,
    pub(super) etag: String,
    pub(super) digest: String,
    pub(super) period: Duration,
    /// Why the file as it is now is not what is served.
    pub(super) refused: Option<String>,
}

/// Every policy, by the file's name without its ending.
pub(super) type Policies = BTreeMap<String, Arc<Served>>;

/// What a look at the folder found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Folder {
    /// What is served.
    pub(super) policies: Policies,
    /// Files that are not served at all, and why.
    pub(super) refused: BTreeMap<String, String>,
}

/// Reads the folder anew. What cannot be read or is wrong keeps its last good version, and says so.
pub(super) fn read(folder: &Path, decisions: &Decisions, last: &Policies) -> io::Result<Folder> {
    let mut now = Folder::default();
    let root = folder.canonicalize()?;
    for file in fs::read_dir(folder)?.take(10 * MOST_POLICIES) {
        let path = file?.path();
        let yaml = path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml");
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| yaml) else {
            continue;
        };
        if now.policies.len() == MOST_POLICIES {
            return Err(io::Error::other(format!(
                "more than {MOST_POLICIES} policies in one folder"
            )));
        }
        let before = last.get(name);
        match served(&root, &path, decisions, before) {
            Ok(served) => {
                now.policies.insert(name.to_owned(), served);
            }
            Err(reason) => match before {
                Some(before) => {
                    let kept = Served {
                        refused: Some(reason),
                        ..(**before).clone()
                    };
                    now.policies.insert(name.to_owned(), Arc::new(kept));
                }
                None => {
                    now.refused.insert(name.to_owned(), reason);
                }
            },
        }
    }
    Ok(now)
}

/// The text of a policy file. A link may lead to another file of the folder, as those of a mounted ConfigMap do, and
/// not out of it: a writer of the folder must not be able to read other files through this server.
fn text_of(root: &Path, path: &Path) -> io::Result<String> {
    let real = path.canonicalize()?;
    if !real.starts_with(root) {
        return Err(io::Error::other(
            "a link that leads out of the folder of policies",
        ));
    }
    // A pipe would be waited for.
    if !fs::metadata(&real)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    fs::File::open(&real)?
        .take(LARGEST_FILE as u64 + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Where the mistakes are, without quoting the file: this goes to logs and to clients.
fn mistakes(wrong: &Diagnostics) -> String {
    let all = wrong.as_slice();
    let first = all.first().map_or_else(String::new, |first| {
        format!(
            ", the first at line {}, column {}",
            first.at.line, first.at.column
        )
    });
    let number = all.len();
    let mistakes = if number == 1 { "mistake" } else { "mistakes" };
    format!("{number} {mistakes}{first}; `retryguard lint FILE` shows them")
}

fn served(
    root: &Path,
    path: &Path,
    decisions: &Decisions,
    before: Option<&Arc<Served>>,
) -> Result<Arc<Served>, String> {
    let text = text_of(root, path).map_err(|error| error.to_string())?;
    let policy = Policy::parse(&text).map_err(|wrong| mistakes(&wrong))?;
    let desired_states = decisions
        .values()
        .map(|decision| (decision.service.as_str(), decision.desired));
    let own = text;
    let text = merged(&own, &policy, desired_states).map_err(|wrong| mistakes(&wrong))?;
    let original = (text != own).then_some(own);
    let policy = Policy::parse(&text).map_err(|wrong| mistakes(&wrong))?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let etag = format!("\"{:016x}\"", hasher.finish());
    let known = |before: &&Arc<Served>| {
        before.etag == etag && before.original == original && before.refused.is_none()
    };
    if let Some(before) = before.filter(known) {
        return Ok(Arc::clone(before));
    }
    let same = before.is_some_and(|before| before.etag == etag);
    let version = before.map_or(0, |before| before.version) + u64::from(!same);
    Ok(Arc::new(Served {
        version,
        etag,
        digest: policy.digest().to_owned(),
        period: policy.remote_period(),
        text,
        original,
        refused: None,
    }))
}

/// The decisions that stand beside the policies; none where there is no such file.
pub(super) fn decisions(folder: &Path) -> io::Result<Decisions> {
    let path = folder.join(DECISIONS);
    // What we write is a file. A pipe would be waited for, and a link could lead out of the folder.
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Decisions::new()),
        Err(error) => return Err(error),
        Ok(about) if !about.is_file() => {
            return Err(io::Error::other(format!(
                "{} is not a regular file; remove it",
                path.display()
            )));
        }
        Ok(_) => {}
    }
    let mut text = String::new();
    fs::File::open(&path)?
        .take(LARGEST_FILE as u64 + 1)
        .read_to_string(&mut text)?;
    parse(&text).ok_or_else(|| io::Error::other(format!("{} is not what we write", path.display())))
}

/// Whether they were not written for as long as they hold without being confirmed. A clock that went back makes them
/// young, not old.
pub(super) fn lapsed(folder: &Path) -> bool {
    let written = fs::metadata(folder.join(DECISIONS)).and_then(|about| about.modified());
    let written = written
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    written.is_some_and(|written| unix_time().saturating_sub(written) >= LAPSE)
}

fn parse(text: &str) -> Option<Decisions> {
    let root: Value = serde_json::from_str(text).ok()?;
    root.as_object()?
        .iter()
        .map(|(target, value)| {
            let share = value["shareParts"].as_u64().map(Ratio::from_parts);
            let desired = match value["wish"].as_str()? {
                "off" => RetryState::Off,
                "part" => RetryState::Part {
                    step: u8::try_from(value["step"].as_u64()?).ok()?,
                    share: share.filter(|share| *share <= Ratio::ONE)?,
                },
                _ => return None,
            };
            let service = value["service"].as_str()?.to_owned();
            Some((TargetName::new(target), Decision { service, desired }))
        })
        .collect()
}

/// Writes them beside the policies, whole or not at all.
pub(super) fn keep(folder: &Path, decisions: &Decisions) -> io::Result<()> {
    let path = folder.join(DECISIONS);
    if decisions.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let all: serde_json::Map<String, Value> = decisions
        .iter()
        .filter_map(|(target, decision)| {
            let service = &decision.service;
            let value = match decision.desired {
                RetryState::Original => return None,
                RetryState::Off => json!({"service": service, "wish": "off"}),
                RetryState::Part { step, share } => {
                    json!({"service": service, "wish": "part", "step": step, "shareParts": share.parts()})
                }
            };
            Some((target.as_str().to_owned(), value))
        })
        .collect();
    let draft: PathBuf = folder.join(format!("{DECISIONS}.new"));
    // What stands there may be a link that leads out of the folder, or a pipe: it is replaced, never written to.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::File::options().write(true).create_new(true).open(&draft)?;
    file.write_all(Value::Object(all).to_string().as_bytes())?;
    fs::rename(&draft, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands beside the policies of running systems since the first version.
    #[test]
    fn the_decisions_of_an_older_controller_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"orders":{"service":"payments","wish":"off"},"reviews":{"service":"reviews","shareParts":500000000,"step":2,"wish":"part"}}"#;
        fs::write(folder.path().join(DECISIONS), text).unwrap();
        let read = decisions(folder.path()).unwrap();
        let half = RetryState::Part {
            step: 2,
            share: Ratio::percent(50),
        };
        assert_eq!(read[&TargetName::new("orders")].desired, RetryState::Off);
        assert_eq!(read[&TargetName::new("orders")].service, "payments");
        assert_eq!(read[&TargetName::new("reviews")].desired, half);
        keep(folder.path(), &read).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join(DECISIONS)).unwrap(), text);
    }

    /// Decisions were written through a link, into any file that this process may write.
    #[test]
    fn decisions_are_not_written_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let desired = RetryState::Off;
        let service = "orders".to_owned();
        let all = Decisions::from([(TargetName::new("orders"), Decision { service, desired })]);
        let link = |name: String| std::os::unix::fs::symlink(&victim, folder.path().join(name)).unwrap();
        link(format!("{DECISIONS}.new"));
        link(DECISIONS.to_owned());
        let refused = decisions(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("not a regular file"), "{refused}");
        keep(folder.path(), &all).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(decisions(folder.path()).unwrap(), all);
        let pipe = folder.path().join(DECISIONS);
        fs::remove_file(&pipe).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(decisions(folder.path()).is_err());
    }
}
