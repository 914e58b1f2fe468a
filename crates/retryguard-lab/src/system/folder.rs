//! The folder in which a system keeps its databases.

use std::{io::ErrorKind, path::PathBuf, sync::OnceLock, time::Duration};

use anyhow::Context;

/// The user's folder, which stays, or a temporary one, which is removed when this is dropped. Made when it is first used: services on
/// PostgreSQL need none, and a process that is killed removes nothing.
pub(super) struct Folder {
    named: Option<PathBuf>,
    temporary: OnceLock<PathBuf>,
}

/// How often, and with what pause, the removal is tried.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Folder {
    /// The folder that the user named, or a temporary one.
    pub(super) const fn new(named: Option<PathBuf>) -> Self {
        Self {
            named,
            temporary: OnceLock::new(),
        }
    }

    /// The folder, which is there now.
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.named {
            std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make the folder {}", path.display()))?;
            return Ok(path.clone());
        }
        if let Some(path) = self.temporary.get() {
            return Ok(path.clone());
        }
        let folder = tempfile::Builder::new()
            .prefix("retryguard-lab-")
            .tempdir()
            .context("cannot make a temporary folder for the databases")?;
        Ok(self.temporary.get_or_init(|| folder.keep()).clone())
    }
}

impl Drop for Folder {
    /// Connections that are being closed make and remove files while the folder is emptied, which ends the removal in the
    /// middle. So it is tried again.
    #[expect(clippy::disallowed_methods, reason = "a destructor cannot wait for a timer")]
    fn drop(&mut self) {
        let Some(path) = self.temporary.get() else {
            return;
        };
        for _ in 0..TRIES {
            match std::fs::remove_dir_all(path) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::NotFound && !path.exists() => return,
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
        let folder = Folder::new(None);
        let path = folder.path().expect("a temporary folder");
        assert_eq!(folder.path().expect("the same one"), path);
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
        let folder = Folder::new(Some(path.clone()));
        assert_eq!(folder.path().expect("a folder"), path);
        drop(folder);
        assert!(path.is_dir());
    }
}
