//! The book behind its lock, and who is woken when it changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::book::{Ask, Book, NoEntry, Phase, Saying, Stream};

/// What the streams and the actuator share. The lock is held for one step of the book and never across a wait.
#[derive(Debug)]
pub(super) struct Desk {
    /// The name of the layer that is served.
    pub(super) layer: String,
    book: Mutex<Book>,
    /// Moves when there is something to say.
    said: watch::Sender<()>,
    /// Moves when an Envoy has answered, come or gone.
    heard: watch::Sender<()>,
}

impl Desk {
    pub(super) fn new(layer: String, book: Book) -> Self {
        Self {
            layer,
            book: Mutex::new(book),
            said: watch::Sender::new(()),
            heard: watch::Sender::new(()),
        }
    }

    /// The book, to look at or to change without anything to say.
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        // A step of the book that panicked has left it between two valid states at worst: a layer that is told again.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the book and wakes every stream.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        let answer = change(&mut self.book());
        self.said.send_replace(());
        self.heard.send_replace(());
        answer
    }

    /// Wakes when there may be something to say.
    pub(super) fn said(&self) -> watch::Receiver<()> {
        self.said.subscribe()
    }

    /// Wakes when an Envoy has answered, come or gone.
    pub(super) fn heard(&self) -> watch::Receiver<()> {
        self.heard.subscribe()
    }
}

/// A stream's place at the desk; given back when the stream ends, however it ends.
#[derive(Debug)]
pub(super) struct Seat {
    desk: Arc<Desk>,
    stream: Stream,
}

impl Seat {
    pub(super) fn take(desk: &Arc<Desk>, address: &str) -> Result<Self, NoEntry> {
        let stream = desk.book().joins(address)?;
        Ok(Self {
            desk: Arc::clone(desk),
            stream,
        })
    }

    pub(super) fn hears(&self, ask: &Ask) {
        self.desk.book().hears(self.stream, ask);
        self.desk.heard.send_replace(());
    }

    pub(super) fn owes(&self) -> bool {
        self.desk.book().owes(self.stream)
    }

    pub(super) fn says(&self) -> Option<Saying> {
        self.desk.book().says(self.stream)
    }

    pub(super) fn may_stay(&self) -> bool {
        self.desk.book().phase() != Phase::Idle
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.book().leaves(self.stream);
        self.desk.heard.send_replace(());
    }
}
