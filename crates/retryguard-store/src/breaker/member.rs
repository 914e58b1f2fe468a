//! One shared breaker: what it knows of the others, and what it does about it. No connection and no clock.

use std::time::Duration;

use retryguard_core::breaker::{Handle, State};

use super::SharedBreakers;

/// What Redis says of a target: in answer to a script, or as a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// Open under this epoch, by this replica, for this long, the margin included.
    Open(u64, String, Duration),
    /// The opening of this epoch is over.
    Closed(u64),
    /// Nothing is known.
    Nothing,
}

/// What to send to Redis.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Open(Duration),
    Close(u64),
}

pub(super) struct Member {
    breaker: Box<dyn Handle>,
    /// The newest opening that this replica knows of.
    epoch: u64,
    /// Whether the state was adopted from another replica.
    adopted: bool,
    me: String,
}

impl Member {
    pub(super) fn new(breaker: Box<dyn Handle>, me: String) -> Self {
        Self {
            breaker,
            epoch: 0,
            adopted: false,
            me,
        }
    }

    /// The breaker has changed by itself.
    pub(super) fn on_change(&mut self, state: State) -> Option<Request> {
        self.adopted &= self.breaker.state().0 != state;
        match state {
            State::Open => self.open(),
            // Other replicas do not know of an opening that was never shared; and what another has opened since the change was
            // noted is not closed by it.
            State::Closed if self.epoch == 0 || self.breaker.state().0 != State::Closed => None,
            State::Closed => Some(Request::Close(self.epoch)),
            State::HalfOpen => None,
        }
    }

    /// How long it is still open, if it is: it may have gone on since the change was noted.
    fn open(&self) -> Option<Request> {
        match self.breaker.state() {
            (State::Open, left) if !left.is_zero() => Some(Request::Open(left)),
            _ => None,
        }
    }

    /// A message was received. Answers whether the breaker was changed by it.
    pub(super) fn on_reply(&mut self, reply: Reply) -> Option<State> {
        match reply {
            Reply::Open(epoch, owner, left) => {
                if epoch <= self.epoch {
                    return None;
                }
                self.epoch = epoch;
                if owner == self.me {
                    return None;
                }
                Some(self.hold(left))
            }
            Reply::Closed(epoch) => {
                let open = self.breaker.state().0 != State::Closed;
                if epoch != self.epoch || !open {
                    return None;
                }
                self.breaker.close();
                self.adopted = true;
                Some(State::Closed)
            }
            Reply::Nothing => None,
        }
    }

    fn hold(&mut self, left: Duration) -> State {
        self.breaker.hold_open(left.min(SharedBreakers::LONGEST_HOLD));
        self.adopted = true;
        State::Open
    }

    /// The answer to the script that said a change. An opening under another's name is the newest there is, even
    /// where it was received before: this replica opened on its own beside it, and leaves the probing to the other.
    pub(super) fn on_answer(&mut self, reply: Reply) -> Option<State> {
        match reply {
            Reply::Open(epoch, owner, left) if epoch == self.epoch && owner != self.me => {
                Some(self.hold(left))
            }
            reply => self.on_reply(reply),
        }
    }

    /// The connection is new: what is so is compared. Answers what is to be said.
    pub(super) fn on_rejoin(&mut self, reply: Reply) -> (Option<State>, Option<Request>) {
        let (state, _) = self.breaker.state();
        match reply {
            // Said by this replica before it was cut off, and over since.
            Reply::Open(epoch, owner, _) if owner == self.me && state == State::Closed => {
                self.epoch = epoch;
                (None, Some(Request::Close(epoch)))
            }
            reply @ Reply::Open(..) => (self.on_reply(reply), None),
            // An opening that was adopted from another replica and is gone in Redis, may be over: it is not said again, and its own
            // time ends it.
            Reply::Closed(_) | Reply::Nothing if self.adopted => (None, None),
            Reply::Closed(_) | Reply::Nothing => (None, self.open()),
        }
    }
}

#[cfg(test)]
mod tests;
