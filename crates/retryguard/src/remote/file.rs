//! A policy in a file.

use std::{io::Read, path::Path, path::PathBuf, sync::Weak, time::Duration};

use retryguard_core::Chance;

use super::live::{Inner, RemoteError};
use crate::clock::{self, Random};

/// The largest policy that is read.
pub(super) const LARGEST: usize = 1 << 20;

/// How often the file is looked at, before jitter. Looking beats being told here: a mounted ConfigMap changes
/// by the swap of a symbolic link two folders up, which watchers of the file itself do not see.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn read(path: &Path) -> Result<String, RemoteError> {
    let failed = |error| RemoteError::File {
        path: path.to_owned(),
        error,
    };
    // Opening a named pipe would wait for a writer, and block a thread of the runtime.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )));
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(LARGEST as u64 + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() > LARGEST {
        return Err(RemoteError::TooLarge { limit: LARGEST });
    }
    Ok(text)
}

/// Looks at the file for as long as there is a receiver.
pub(super) async fn follow(path: PathBuf, mut known: String, live: Weak<Inner>) {
    let mut complained = false;
    loop {
        clock::sleep(LOOK + Random.up_to(LOOK / 2)).await;
        let Some(live) = live.upgrade() else { return };
        match read(&path) {
            Ok(text) if text == known => complained = false,
            Ok(text) => {
                live.offer(&text);
                known = text;
                complained = false;
            }
            // A file that is away for a moment is being replaced; one that stays away is reported once.
            Err(error) if !complained => {
                live.refuse(&error);
                complained = true;
            }
            Err(_) => {}
        }
    }
}
