use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait;

/// A server's process, killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts it from a thread that lives as long as this program: some servers ask the kernel to die with the
    /// thread that started them, and a test's thread ends with the test.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(mut command: Command) -> std::io::Result<Self> {
        type Job = Box<dyn FnOnce() + Send>;
        static STARTER: std::sync::OnceLock<mpsc::Sender<Job>> = std::sync::OnceLock::new();
        let starter = STARTER.get_or_init(|| {
            let (send, jobs) = mpsc::channel::<Job>();
            std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
            send
        });
        let (answer, started) = mpsc::channel();
        let job = Box::new(move || {
            // The receiver waits right below.
            let _ = answer.send(command.spawn());
        });
        let gone = || std::io::Error::other("the thread that starts processes is gone");
        starter.send(job).map_err(|_| gone())?;
        let child = started.recv().map_err(|_| gone())??;
        Ok(Self { child })
    }

    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once, as a crash would.
    pub fn kill(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and kills it when it has not after `limit`.
    pub fn stop(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.end(Signal::SIGTERM, limit)
    }

    /// As [`Process::stop`], by the signal of a key press, which some servers take as more urgent.
    pub fn interrupt(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.end(Signal::SIGINT, limit)
    }

    fn end(&mut self, signal: Signal, limit: Duration) -> Option<ExitStatus> {
        self.signal(signal);
        let mut status = None;
        if !wait::until(limit, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        }) {
            self.kill();
        }
        status
    }

    /// Whether it is still there.
    #[must_use]
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Holds it still: connections stay open, nothing answers.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on after [`Process::pause`].
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.id()) {
            // Fails only when it has ended already.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
