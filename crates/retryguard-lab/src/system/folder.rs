//! The folder in which a system keeps its databases.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;

/// The user's folder, which stays, or a temporary one, which is removed when this is dropped.
pub(super) struct Folder {
    path: PathBuf,
    temporary: bool,
}

/// How often, and with what pause, the removal is tried.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Folder {
    /// The folder that the user named, or a temporary one.
    pub(super) fn new(named: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = named {
            std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make the folder {}", path.display()))?;
            return Ok(Self {
                path: path.to_owned(),
                temporary: false,
            });
        }
        let folder = tempfile::Builder::new()
            .prefix("retryguard-lab-")
            .tempdir()
            .context("cannot make a temporary folder for the databases")?;
        Ok(Self {
            path: folder.keep(),
            temporary: true,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    /// Connections that are being closed make and remove files while the folder is emptied, which ends the removal in the
    /// middle. So it is tried again.
    #[expect(clippy::disallowed_methods, reason = "a destructor cannot wait for a timer")]
    fn drop(&mut self) {
        if !self.temporary {
            return;
        }
        for _ in 0..TRIES {
            match std::fs::remove_dir_all(&self.path) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::NotFound && !self.path.exists() => return,
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_goes_while_files_come_and_go_in_it() {
        let folder = Folder::new(None).expect("a temporary folder");
        let path = folder.path().to_owned();
        let file = path.join("closing");
        let writer = std::thread::spawn(move || {
            for _ in 0..5_000 {
                let _ = std::fs::write(&file, "").and_then(|()| std::fs::remove_file(&file));
            }
        });
        drop(folder);
        writer.join().expect("the writer ends");
        assert!(!path.exists());
    }

    #[test]
    fn the_users_folder_stays() {
        let outer = tempfile::tempdir().expect("a temporary folder");
        let path = outer.path().join("kept");
        drop(Folder::new(Some(&path)).expect("a folder"));
        assert!(path.is_dir());
    }
}
