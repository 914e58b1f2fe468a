//! Steps that run beside others: builds and tests of workspaces and profiles that share no folder with the main build.
//!
//! Many tests of the main build wait for real servers. These steps use the processors meanwhile, with the lowest priority.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use crate::shell;

/// How soon a step is ended when the run has failed elsewhere.
const LOOK: Duration = Duration::from_millis(200);

/// One program that runs beside others.
pub struct Step {
    /// What the step is called in messages; its output goes into a file of this name.
    pub title: &'static str,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables of the environment that are set for it.
    pub variables: Vec<(&'static str, OsString)>,
}

/// Steps that run one after the other, beside what the caller does. Dropped, it ends the step that runs.
pub struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Background {
    /// Starts the first step. The output of each goes into a file in `folder`.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn start(folder: &Path, steps: Vec<Step>) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.to_owned();
        let (stop, stopped) = mpsc::channel();
        let thread =
            std::thread::spawn(move || steps.iter().try_for_each(|step| run(&folder, step, &stopped)));
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Waits for all steps.
    ///
    /// # Errors
    /// Where one has failed: then its output has been printed.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        if !thread.is_finished() {
            eprintln!("== waiting for the steps that run beside the others");
        }
        thread
            .join()
            .map_err(|_| anyhow!("the thread of the background steps has panicked"))?
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // An earlier error is on its way to the user; that the step was ended adds nothing to it.
            let _ = thread.join();
        }
    }
}

fn run(folder: &Path, step: &Step, stopped: &Receiver<()>) -> anyhow::Result<()> {
    let log = log_file(folder, step.title);
    eprintln!(
        "== {}: runs beside the next steps, see {}",
        step.title,
        log.display()
    );
    let [program, arguments @ ..] = step.words.as_slice() else {
        return Ok(());
    };
    let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let begun = shell::now();
    let mut child = Command::new("nice")
        .args(["-n", "19", program])
        .args(arguments)
        .envs(step.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot start `nice {program}`: are they installed and on the PATH?"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            child.kill()?;
            child.wait()?;
            bail!("{} was ended", step.title);
        }
    };
    shell::took(&format!("{} (beside others)", step.title), begun);
    let said = fs::read(&log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    if status.success() {
        for line in said.lines().filter(|line| line.starts_with("test result: ")) {
            eprintln!("{line}");
        }
    } else {
        eprintln!("{said}");
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    shell::succeeded(step.title, program, &arguments, status)
}

fn log_file(folder: &Path, title: &str) -> PathBuf {
    folder.join(format!("{}.log", title.replace(' ', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(title: &'static str, script: &str) -> Step {
        Step {
            title,
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            variables: vec![("WORD", OsString::from("word"))],
        }
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("retryguard-background-{name}-{}", std::process::id()))
    }

    #[test]
    fn steps_run_in_order_and_their_output_is_kept() {
        let folder = folder("order");
        let first = folder.join("first");
        let steps = vec![
            step("the first", &format!("echo $WORD > {}", first.display())),
            step("the second", &format!("cat {}", first.display())),
        ];
        Background::start(&folder, steps)
            .and_then(Background::finish)
            .expect("both steps succeed");
        let said = fs::read_to_string(folder.join("the-second.log")).expect("the output is kept");
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        assert_eq!(said, "word\n");
    }

    #[test]
    fn a_failed_step_fails_the_run_and_ends_the_list() {
        let folder = folder("failure");
        let later = folder.join("later");
        let steps = vec![
            step("fails", "exit 3"),
            step("later", &format!("touch {}", later.display())),
        ];
        let error = Background::start(&folder, steps)
            .and_then(Background::finish)
            .expect_err("the first step fails");
        let began = later.exists();
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        assert!(error.to_string().starts_with("fails failed"), "{error}");
        assert!(!began);
    }

    /// A run that fails elsewhere does not wait for what runs beside it.
    #[test]
    fn dropping_ends_the_step() {
        let folder = folder("drop");
        let begun = folder.join("begun");
        let steps = vec![step(
            "long",
            &format!("touch {}; exec sleep 600", begun.display()),
        )];
        let background = Background::start(&folder, steps).expect("the step starts");
        while !begun.exists() {
            std::thread::yield_now();
        }
        let from = shell::now();
        drop(background);
        let waited = from.elapsed();
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        assert!(waited < Duration::from_secs(300), "{waited:?}");
    }
}
