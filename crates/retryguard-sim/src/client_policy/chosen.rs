//! Policies by name or by file, as a command line gives them.

use std::{collections::BTreeSet, fmt, path::Path};

use retryguard_policy::reading::nearest;
use retryguard_translate::{FileError, PolicyFile};

use super::{ClientPolicy, NAMES, named};

/// Why there is no policy of this name.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChoiceError {
    /// Neither a known name nor the path of a file.
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that are known.
        known: Vec<String>,
    },
    /// The file has no policy.
    File(FileError),
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } => {
                let near = nearest(name, known.iter().map(String::as_str))
                    .map_or_else(String::new, |near| format!("did you mean {near}? "));
                write!(
                    f,
                    "there is no policy {name}; {near}give one of {}, or the path of a policy file",
                    known.join(", ")
                )
            }
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChoiceError {}

/// The policies that are named: those of `own` first, then known names, then files. `imported` is called with what is to be said of
/// a file of another system.
///
/// # Errors
/// Where a name is unknown or a file has no policy.
pub fn chosen(
    wanted: &[String],
    own: &[ClientPolicy],
    imported: &mut dyn FnMut(String),
) -> Result<Vec<ClientPolicy>, ChoiceError> {
    wanted.iter().map(|name| choose(name, own, imported)).collect()
}

fn choose(
    name: &str,
    own: &[ClientPolicy],
    imported: &mut dyn FnMut(String),
) -> Result<ClientPolicy, ChoiceError> {
    if let Some(own) = own.iter().find(|it| it.name == name) {
        return Ok(own.clone());
    }
    if let Some(known) = named(name) {
        return Ok(known);
    }
    let path = Path::new(name);
    if !path.exists() {
        let known = own.iter().map(|it| it.name.as_str());
        let known = known.chain(NAMES.iter().map(|(name, _)| *name));
        // A scenario may name what is known anyway.
        let mut seen = BTreeSet::new();
        let known = known.filter(|name| seen.insert(*name)).map(str::to_owned);
        return Err(ChoiceError::Unknown {
            name: name.to_owned(),
            known: known.collect(),
        });
    }
    let file = PolicyFile::read(path).map_err(ChoiceError::File)?;
    let policy = file.policy(name).map_err(ChoiceError::File)?;
    let stem = path
        .file_stem()
        .map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let of_policy = || ClientPolicy::of_policy(stem.clone(), policy);
    Ok(match file.imported {
        None => ClientPolicy::of_text(stem.clone(), &file.text).unwrap_or_else(|_| of_policy()),
        Some(import) => {
            imported(import.summary(name));
            ClientPolicy::of_imported(stem.clone(), &import).unwrap_or_else(|_| of_policy())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_name() {
        let none = named("none").unwrap();
        let own = [ClientPolicy {
            name: "mine".to_owned(),
            ..none
        }];
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&it| it.to_owned()).collect();
            let found = chosen(&wanted, &own, &mut |_| {})?;
            Ok::<_, ChoiceError>(found.into_iter().map(|it| it.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["mine", "istio"]).unwrap(), ["mine", "istio"]);
        let told = names(&["istoi"]).unwrap_err().to_string();
        assert!(
            told.starts_with("there is no policy istoi; did you mean istio? give one of mine, none"),
            "{told}"
        );
    }
}
