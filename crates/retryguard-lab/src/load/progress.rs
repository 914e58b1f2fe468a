//! A bar on the standard error while plans run, and only on a terminal.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{Driver, Live, Measurements};
use crate::clock;

/// How often the bar is drawn.
const EVERY: Duration = Duration::from_millis(250);

/// The bar's own length.
const WIDTH: usize = 24;

/// Plans that run, by the order in which they began. There is one line to draw on, so the oldest draws for all.
static RUNNING: Mutex<BTreeMap<u64, State>> = Mutex::new(BTreeMap::new());

/// How far a plan is.
#[derive(Debug, Clone)]
struct State {
    title: String,
    share: f64,
    live: Live,
}

/// Runs a plan to its end. On a terminal a bar shows how far it is, and what has become of the orders so far; of all plans
/// together where several run at once. Nothing is written where the standard error is something else.
pub async fn run_shown(driver: &Driver, title: &str) -> Measurements {
    if !std::io::stderr().is_terminal() {
        return driver.run().await;
    }
    let length = driver.inner.span(driver.inner.plan.duration);
    let start = clock::now();
    let mut running = Box::pin(driver.run());
    let mut look = tokio::time::interval(EVERY);
    let counted = Counted::new(title);
    let measured = loop {
        tokio::select! {
            measured = &mut running => break measured,
            _ = look.tick() => {
                let share = (clock::now() - start).as_secs_f64() / length.as_secs_f64();
                counted.is_at(share, driver.live());
            }
        }
    };
    drop(counted);
    draw("");
    measured
}

/// Writes a line to the standard error, in place of the bar where there is one.
pub fn say(text: &str) {
    // Held, so that no bar is drawn between the two.
    let _all = running();
    if std::io::stderr().is_terminal() {
        draw("");
    }
    eprintln!("{text}");
}

/// Writes over the line. A bar that cannot be drawn is no reason to stop.
fn draw(text: &str) {
    let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{text}");
}

fn running() -> MutexGuard<'static, BTreeMap<u64, State>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running plan. Dropping it removes the plan from the list, also where the plan was cancelled.
struct Counted(u64);

impl Counted {
    fn new(title: &str) -> Self {
        let mut all = running();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        let state = State {
            title: title.to_owned(),
            share: 0.0,
            live: Live::default(),
        };
        all.insert(number, state);
        Self(number)
    }

    fn is_at(&self, share: f64, live: Live) {
        let mut all = running();
        if let Some(state) = all.get_mut(&self.0) {
            (state.share, state.live) = (share, live);
        }
        if all.first_key_value().is_some_and(|(first, _)| *first == self.0) {
            draw(&together(all.values()));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// The line of one, or of several with the mean of their shares and the sums of their orders.
fn together<'s>(states: impl Iterator<Item = &'s State>) -> String {
    let states: Vec<&State> = states.collect();
    let [only] = states[..] else {
        let sum = |of: fn(&Live) -> u64| states.iter().map(|state| of(&state.live)).sum();
        let live = Live {
            sent: sum(|live| live.sent),
            paid: sum(|live| live.paid),
            under_way: sum(|live| live.under_way),
            ..Live::default()
        };
        let share = states
            .iter()
            .map(|state| state.share.clamp(0.0, 1.0))
            .sum::<f64>();
        return line(
            &format!("{} runs at once", states.len()),
            share / states.len() as f64,
            &live,
        );
    };
    line(&only.title, only.share, &only.live)
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

    #[test]
    fn several_share_a_line() {
        let state = |share, sent| State {
            title: "G".to_owned(),
            share,
            live: Live {
                sent,
                ..Live::default()
            },
        };
        let two = [state(0.25, 10), state(0.75, 30)];
        let bar = together(two.iter());
        assert!(bar.starts_with("2 runs at once"), "{bar}");
        assert!(bar.contains(" 50 %") && bar.contains("40 orders"), "{bar}");
        assert!(together(two[..1].iter()).starts_with("G "));
    }
}
