//! The demo: the same load and the same fault under three policies, one after the other, live.
//!
//! Nothing here is scripted but the load and the fault: every number that is shown was counted at the services.

mod act;
mod acted;
mod frame;
mod page;
mod plain;
mod screen;
mod summary;
mod timeline;
mod verdict;

use std::{io::IsTerminal as _, net::SocketAddr, time::Duration};

use retryguard_policy::Policy;
use tokio::sync::watch;

pub use act::Act;
pub use acted::{Acted, Part};
pub use frame::{Arm, EdgeFrame, Frame, Phase};

use crate::{clock, faults::Kind, name::Name, system::Life};

/// How the demo is shown.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of load and faults.
    pub seed: u64,
    /// Where the page listens; any free port of the loopback interface by default.
    pub page: SocketAddr,
    /// Plain lines, also where there is a terminal.
    pub plain: bool,
    /// How long the page stays after the end, so that it can be looked at.
    pub stay: Duration,
    /// The user's own policy, which runs in place of the breaker's.
    pub policy: Option<Own>,
    /// What breaks.
    pub fault: Kind,
}

/// A policy of the user's own.
#[derive(Debug, Clone)]
pub struct Own {
    /// What it is called.
    pub title: String,
    /// Its text. Durations are those of this machine: a payment takes a tenth of a second, and users wait for three.
    pub text: String,
}

impl Own {
    /// What to say of a policy whose services are all unknown to the demo.
    #[must_use]
    pub fn warning(policy: &Policy) -> Option<String> {
        let mut services = policy.services().map(|(name, _)| name).peekable();
        services.peek()?;
        let known = Name::ALL.map(Name::as_str);
        if services.any(|name| known.contains(&name)) {
            return None;
        }
        Some(format!(
            "none of its services is one of the demo's ({}): its defaults apply to all of them",
            known.join(", ")
        ))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 7,
            page: SocketAddr::from(([127, 0, 0, 1], 0)),
            plain: false,
            stay: Duration::ZERO,
            policy: None,
            fault: Kind::CapacityLoss,
        }
    }
}

/// How often a frame is made.
const EVERY: Duration = Duration::from_millis(250);

/// Runs the demo to its end, or until it is interrupted.
///
/// # Errors
/// If the system cannot be started, and [`Interrupted`](crate::Interrupted) if a signal ended it before its time.
pub async fn run(options: Options) -> anyhow::Result<()> {
    anyhow::ensure!(
        options.page.ip().is_loopback(),
        "the page is for this machine only: give --page an address such as 127.0.0.1:8080"
    );
    let act = Act::storm(options.fault)?;
    let life = Life::begin();
    let (frames, seen) = watch::channel(Frame::default());
    let address = page::serve(options.page, seen.clone(), &life).await?;
    let url = format!("http://{address}/");
    let on_screen = !options.plain && std::io::stdout().is_terminal();
    let mut acts = tokio::spawn(act::play(act, options.policy, options.seed, frames));
    let shown = async {
        if on_screen {
            screen::show(&url, seen.clone()).await
        } else {
            plain::show(&url, seen.clone()).await;
            Ok(())
        }
    };
    let interrupted = tokio::select! {
        signal = crate::interrupt() => Some(signal?),
        result = shown => { result?; None }
    };
    screen::restore(on_screen);
    if interrupted.is_some() || !seen.borrow().is_over() {
        // Dropping the task drops its system, and with it ports and files.
        acts.abort();
        let _ = (&mut acts).await;
        life.end();
        // On the screen, `q` and Ctrl-C are keys and not signals.
        return Err(interrupted.unwrap_or(crate::Interrupted::Interrupt).into());
    }
    acts.await??;
    summary::print(&seen.borrow());
    if !options.stay.is_zero() {
        eprintln!(
            "the page stays at {url} for {} s; Ctrl-C ends it",
            options.stay.as_secs()
        );
        tokio::select! {
            signal = crate::interrupt() => {
                let interrupted = signal?;
                life.end();
                return Err(interrupted.into());
            }
            () = clock::sleep(options.stay) => {}
        }
    }
    life.end();
    Ok(())
}
