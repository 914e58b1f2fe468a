use std::sync::{Arc, Mutex};

use super::*;

/// A breaker that remembers what was done to it.
#[derive(Clone)]
struct Fake(Arc<Mutex<(State, Duration)>>);

impl Handle for Fake {
    fn name(&self) -> &'static str {
        "a"
    }

    fn state(&self) -> (State, Duration) {
        *self.0.lock().unwrap()
    }

    fn hold_open(&self, span: Duration) {
        *self.0.lock().unwrap() = (State::Open, span);
    }

    fn close(&self) {
        *self.0.lock().unwrap() = (State::Closed, Duration::ZERO);
    }

    fn observe(&self, _: Box<dyn Fn(State) + Send + Sync>) -> bool {
        true
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn member(state: State) -> (Member, Fake) {
    let left = if state == State::Open {
        SECOND
    } else {
        Duration::ZERO
    };
    let fake = Fake(Arc::new(Mutex::new((state, left))));
    (Member::new(Box::new(fake.clone()), "me".to_owned()), fake)
}

fn open(epoch: u64, owner: &str) -> Reply {
    Reply::Open(epoch, owner.to_owned(), 3 * SECOND)
}

#[test]
fn anothers_opening_is_adopted_and_its_closing_too() {
    let (mut member, fake) = member(State::Closed);
    assert_eq!(member.on_reply(open(5, "other")), Some(State::Open));
    assert_eq!(fake.state(), (State::Open, 3 * SECOND));
    assert_eq!(member.on_reply(Reply::Closed(5)), Some(State::Closed));
    assert_eq!(fake.state().0, State::Closed);
}

#[test]
fn a_stale_word_changes_nothing() {
    let (mut member, fake) = member(State::Closed);
    member.on_reply(open(5, "other"));
    assert_eq!(member.on_reply(Reply::Closed(4)), None, "a newer opening stands");
    assert_eq!(fake.state().0, State::Open);
    member.on_reply(Reply::Closed(5));
    assert_eq!(member.on_reply(open(5, "other")), None, "it is over already");
    assert_eq!(member.on_reply(open(4, "other")), None);
    assert_eq!(fake.state().0, State::Closed);
}

#[test]
fn its_own_words_come_back_to_it_and_change_nothing() {
    let (mut member, fake) = member(State::Open);
    assert_eq!(member.on_change(State::Open), Some(Request::Open(SECOND)));
    assert_eq!(member.on_answer(open(5, "me")), None);
    assert_eq!(member.on_reply(open(5, "me")), None);
    assert_eq!(
        fake.state(),
        (State::Open, SECOND),
        "it probes after its own time"
    );
    fake.close();
    assert_eq!(member.on_change(State::Closed), Some(Request::Close(5)));
    assert_eq!(member.on_reply(Reply::Closed(5)), None);
}

#[test]
fn of_two_that_open_at_once_one_probes() {
    let (mut member, fake) = member(State::Open);
    assert_eq!(member.on_answer(open(5, "other")), Some(State::Open));
    assert_eq!(
        fake.state(),
        (State::Open, 3 * SECOND),
        "it leaves the probing to the other"
    );
    // The same where the message came before the answer.
    fake.hold_open(SECOND);
    assert_eq!(member.on_answer(open(5, "other")), Some(State::Open));
    assert_eq!(fake.state(), (State::Open, 3 * SECOND));
}

#[test]
fn half_open_says_nothing_and_so_does_an_opening_that_is_over() {
    let (mut member, fake) = member(State::Open);
    assert_eq!(member.on_change(State::HalfOpen), None);
    fake.close();
    assert_eq!(member.on_change(State::Open), None);
    assert_eq!(member.on_change(State::Closed), None, "no replica knows of it");
}

/// The closing waited to be said while another replica opened anew.
#[test]
fn a_closing_that_was_overtaken_is_not_said() {
    let (mut member, fake) = member(State::Open);
    member.on_answer(open(5, "me"));
    fake.close();
    member.on_reply(open(6, "other"));
    assert_eq!(member.on_change(State::Closed), None);
}

#[test]
fn no_replica_is_held_for_ever() {
    let (mut member, fake) = member(State::Closed);
    let long = Reply::Open(1, "other".to_owned(), Duration::MAX);
    member.on_reply(long);
    assert_eq!(fake.state().1, SharedBreakers::LONGEST_HOLD);
}

#[test]
fn a_new_connection_compares() {
    // An opening that was missed.
    let (mut missed, fake) = member(State::Closed);
    assert_eq!(missed.on_rejoin(open(5, "other")), (Some(State::Open), None));
    assert_eq!(fake.state().0, State::Open);
    // One that was not said.
    let (mut unsent, _) = member(State::Open);
    assert_eq!(
        unsent.on_rejoin(Reply::Nothing),
        (None, Some(Request::Open(SECOND)))
    );
    // A closing that was not said.
    let (mut over, _) = member(State::Closed);
    assert_eq!(over.on_rejoin(open(5, "me")), (None, Some(Request::Close(5))));
    // What was received from another is not sent again as its own.
    let (mut follower, _) = member(State::Closed);
    follower.on_reply(open(5, "other"));
    assert_eq!(follower.on_rejoin(Reply::Nothing), (None, None));
    // Nothing to send.
    let (mut quiet, _) = member(State::Closed);
    assert_eq!(quiet.on_rejoin(Reply::Nothing), (None, None));
}
