//! A bar on the standard error while a plan runs, and only where somebody looks at it.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use super::{Driver, Live, Measurements};
use crate::clock;

/// How often the bar is drawn.
const EVERY: Duration = Duration::from_millis(250);

/// The bar's own length.
const WIDTH: usize = 24;

/// Runs that would show a bar.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Runs a plan to its end. On a terminal a bar tells how far it is, and what has become of the orders so far. Nothing is
/// written where the standard error is something else, or while several plans run at once: they would write over each other.
pub async fn run_shown(driver: &Driver, title: &str) -> Measurements {
    if !std::io::stderr().is_terminal() {
        return driver.run().await;
    }
    let length = driver.inner.span(driver.inner.plan.duration);
    let start = clock::now();
    let mut running = Box::pin(driver.run());
    let mut look = tokio::time::interval(EVERY);
    let _counted = Counted::new();
    let mut drawn = false;
    let measured = loop {
        tokio::select! {
            measured = &mut running => break measured,
            _ = look.tick() => {
                let alone = RUNNING.load(Ordering::Relaxed) == 1;
                if alone {
                    let share = (clock::now() - start).as_secs_f64() / length.as_secs_f64();
                    draw(&line(title, share, &driver.live()));
                } else if drawn {
                    draw("");
                }
                drawn = alone;
            }
        }
    };
    if drawn {
        draw("");
    }
    measured
}

/// Writes over the line. A bar that cannot be drawn is no reason to stop.
fn draw(text: &str) {
    let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{text}");
}

/// One of those that run, also when it is given up.
struct Counted;

impl Counted {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from zero to one of a short bar"
)]
fn line(title: &str, share: f64, live: &Live) -> String {
    // Orders under way at the end are waited for: the bar is full and stays.
    let full = (share.clamp(0.0, 1.0) * WIDTH as f64) as usize;
    format!(
        "{title} {}{} {:3.0} %  {} orders, {} paid, {} under way",
        "█".repeat(full),
        "░".repeat(WIDTH - full),
        share.clamp(0.0, 1.0) * 100.0,
        live.sent,
        live.paid,
        live.under_way,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_long_at_every_share() {
        let live = Live::default();
        for share in [-1.0, 0.0, 0.5, 1.0, 7.0, f64::NAN] {
            let bar = line("A", share, &live);
            let cells = bar.chars().filter(|letter| matches!(letter, '█' | '░')).count();
            assert_eq!(cells, WIDTH, "{bar}");
        }
        assert!(line("A", 1.5, &live).contains("100 %"));
    }
}
