//! What every store of an outbox must do, asked of it directly.

use std::time::Duration;

use retryguard_store::outbox::{Claimed, Event, MemoryOutbox, Message, OutboxStore, Settled, Trouble};

use super::backends::{Place, Postgres, Sqlite};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(1);

macro_rules! conformance {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            use super::*;
            $(#[tokio::test] async fn $test() { super::$test(&MemoryOutbox::new()).await; })+
        }
        mod sqlite {
            use super::*;
            $(#[tokio::test] async fn $test() { super::$test(&Sqlite::start().await).await; })+
        }
        mod postgres {
            use super::*;
            $(#[tokio::test] #[ignore = "needs PostgreSQL"] async fn $test() {
                let place = Postgres::database().await;
                super::$test(&place).await;
            })+
        }
    };
}

conformance!(
    an_event_comes_out_as_it_went_in,
    a_claimed_key_has_one_owner,
    a_claim_takes_keys_side_by_side_and_no_more_than_asked,
    a_lost_lease_cannot_mark,
    settling_twice_is_harmless,
    a_failed_event_stops_its_key_for_its_wait,
    parked_events_are_listed_retried_and_discarded,
    a_held_key_waits_for_its_parked_event,
    held_keys_are_released_together,
    a_worker_that_ended_in_the_middle_is_counted,
    old_published_events_are_deleted_in_steps,
    nothing_is_kept_where_nothing_should_be,
    what_is_over_a_limit_is_not_written,
    a_wake_is_not_lost,
);

fn event(key: &str, payload: &str) -> Event {
    Event::new("t", payload.to_owned()).key(key)
}

async fn claim_all(place: &impl Place, lease: Duration) -> Vec<Claimed> {
    place.store().claim(100, 100, lease).await.unwrap()
}

fn payloads(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .map(|message| String::from_utf8(message.payload.to_vec()).unwrap())
        .collect()
}

/// Everything in it was published.
fn went_well(claimed: &Claimed) -> Settled {
    Settled {
        lane: claimed.lane.clone(),
        token: claimed.token,
        published: claimed.events.iter().map(|message| message.number).collect(),
        parked: Vec::new(),
        retry: None,
        hold: false,
    }
}

fn trouble(claimed: &Claimed, at: usize, error: &str) -> Trouble {
    Trouble {
        number: claimed.events[at].number,
        tries: claimed.events[at].failed + 1,
        error: error.to_owned(),
    }
}

/// Its first event was parked, and nothing else was tried.
fn first_parked(claimed: &Claimed, hold: bool) -> Settled {
    Settled {
        published: Vec::new(),
        parked: vec![trouble(claimed, 0, "broken")],
        hold,
        ..went_well(claimed)
    }
}

async fn settle(place: &impl Place, settled: Settled) {
    assert_eq!(place.store().settle(&[settled], true).await.unwrap(), 0);
}

/// Claims until something is due.
async fn claim_soon(place: &impl Place) -> Vec<Claimed> {
    loop {
        let claimed = claim_all(place, LONG).await;
        if !claimed.is_empty() {
            return claimed;
        }
        tokio::task::yield_now().await;
    }
}

async fn an_event_comes_out_as_it_went_in(place: &impl Place) {
    let event = Event::new("orders", vec![0, 255, 7])
        .key("kä\u{1f600}'")
        .header("a", "b\"c")
        .header("a", "");
    place.put(std::slice::from_ref(&event)).await.unwrap();
    place
        .put(&[Event::new("bare", Vec::new()), Event::new("bare", Vec::new())])
        .await
        .unwrap();
    let claimed = claim_all(place, LONG).await;
    assert_eq!(claimed.len(), 3, "events without a key have a lane each");
    let mut events: Vec<Message> = claimed.into_iter().flat_map(|lane| lane.events).collect();
    events.sort_by_key(|message| message.number);
    let first = &events[0];
    assert_eq!((&first.topic, &first.key), (&event.topic, &event.key));
    assert_eq!((&first.payload, &first.headers), (&event.payload, &event.headers));
    assert_eq!((first.failed, first.waited), (0, Duration::ZERO));
    assert_eq!((&*events[1].topic, &events[1].key), ("bare", &None));
    assert!(events[1].id != events[2].id && events[0].id.len() >= 32);
    let counts = place.store().counts().await.unwrap();
    assert_eq!((counts.pending, counts.parked), (3, 0));
    assert!(counts.lag < LONG);
}

async fn a_claimed_key_has_one_owner(place: &impl Place) {
    place.put(&[event("a", "1"), event("a", "2")]).await.unwrap();
    let first = claim_all(place, LONG).await;
    assert_eq!(payloads(&first[0].events), ["1", "2"]);
    place.put(&[event("a", "3"), event("b", "4")]).await.unwrap();
    let second = claim_all(place, LONG).await;
    assert_eq!(second.len(), 1, "only what has another key: {second:?}");
    assert_eq!(payloads(&second[0].events), ["4"]);
    settle(place, went_well(&first[0])).await;
    assert_eq!(payloads(&claim_soon(place).await[0].events), ["3"]);
}

async fn a_claim_takes_keys_side_by_side_and_no_more_than_asked(place: &impl Place) {
    for payload in ["1", "2", "3"] {
        let events = ["a", "b", "c", "d"].map(|key| event(key, payload));
        place.put(&events).await.unwrap();
    }
    let claimed = place.store().claim(2, 4, LONG).await.unwrap();
    assert_eq!(claimed.len(), 2);
    assert!(claimed.iter().all(|lane| payloads(&lane.events) == ["1", "2"]));
    let rest = place.store().claim(100, 1, LONG).await.unwrap();
    assert_eq!(rest.len(), 2);
    assert!(
        rest.iter().all(|lane| payloads(&lane.events) == ["1"]),
        "at least one each"
    );
}

async fn a_lost_lease_cannot_mark(place: &impl Place) {
    place.put(&[event("a", "1"), event("a", "2")]).await.unwrap();
    let late = claim_all(place, SHORT).await;
    let heir = claim_soon(place).await;
    assert_eq!(payloads(&heir[0].events), ["1"], "the first alone after a crash");
    let store = place.store();
    assert_eq!(store.settle(&[went_well(&late[0])], true).await.unwrap(), 1);
    assert_eq!(
        store
            .settle(&[first_parked(&late[0], false)], true)
            .await
            .unwrap(),
        1
    );
    assert_eq!(store.counts().await.unwrap().pending, 2);
    settle(place, went_well(&heir[0])).await;
    // The lane was dropped and made anew, and the late one still cannot touch it.
    let next = claim_soon(place).await;
    settle(place, went_well(&next[0])).await;
    place.put(&[event("a", "3")]).await.unwrap();
    let new = claim_all(place, LONG).await;
    assert_eq!(store.settle(&[went_well(&late[0])], true).await.unwrap(), 1);
    settle(place, went_well(&new[0])).await;
    assert_eq!(store.counts().await.unwrap().pending, 0);
}

/// A worker that was not answered tells the same again.
async fn settling_twice_is_harmless(place: &impl Place) {
    place.put(&[event("a", "1"), event("a", "2")]).await.unwrap();
    let claimed = place.store().claim(1, 1, LONG).await.unwrap();
    settle(place, went_well(&claimed[0])).await;
    assert_eq!(
        place
            .store()
            .settle(&[went_well(&claimed[0])], true)
            .await
            .unwrap(),
        1
    );
    assert_eq!(payloads(&claim_soon(place).await[0].events), ["2"]);
}

async fn a_failed_event_stops_its_key_for_its_wait(place: &impl Place) {
    place
        .put(&[event("a", "1"), event("a", "2"), event("b", "3")])
        .await
        .unwrap();
    let claimed = claim_all(place, LONG).await;
    let lane = |claimed: &[Claimed], name: &str| {
        let of = |lane: &&Claimed| lane.events[0].key.as_deref() == Some(name);
        claimed.iter().find(of).cloned().unwrap()
    };
    let failed = |claimed: &Claimed, wait| Settled {
        published: Vec::new(),
        retry: Some((trouble(claimed, 0, "not now"), wait)),
        ..went_well(claimed)
    };
    settle(place, failed(&lane(&claimed, "a"), LONG)).await;
    settle(place, failed(&lane(&claimed, "b"), SHORT)).await;
    let again = claim_soon(place).await;
    assert_eq!(again.len(), 1, "the other still waits");
    let message = &again[0].events[0];
    assert_eq!((message.failed, message.waited), (1, SHORT));
    assert_eq!(again[0].crashes, 0);
    assert_eq!(place.store().counts().await.unwrap().pending, 3);
}

async fn parked_events_are_listed_retried_and_discarded(place: &impl Place) {
    let store = place.store();
    place
        .put(&[event("a", "1"), event("a", "2"), event("b", "3")])
        .await
        .unwrap();
    for claimed in claim_all(place, LONG).await {
        settle(place, first_parked(&claimed, false)).await;
    }
    let parked = store.parked(0, 10).await.unwrap();
    let list: Vec<_> = parked
        .iter()
        .map(|parked| (&*parked.error, parked.message.failed))
        .collect();
    assert_eq!(list, [("broken", 1), ("broken", 1)]);
    assert_eq!(store.parked(0, 1).await.unwrap(), parked[..1]);
    assert_eq!(
        store.parked(parked[0].message.number, 10).await.unwrap(),
        parked[1..]
    );
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.pending, counts.parked), (1, 2));
    // What follows a parked event goes on, and the parked one comes after it.
    let behind = claim_soon(place).await;
    assert_eq!(payloads(&behind[0].events), ["2"]);
    settle(place, went_well(&behind[0])).await;
    let (first, second) = (parked[0].message.number, parked[1].message.number);
    assert!(store.retry(first).await.unwrap() && !store.retry(first).await.unwrap());
    assert!(store.discard(second).await.unwrap() && !store.discard(second).await.unwrap());
    let retried: Vec<_> = claim_soon(place)
        .await
        .into_iter()
        .flat_map(|lane| lane.events)
        .collect();
    assert_eq!((payloads(&retried), retried[0].failed), (vec!["1".to_owned()], 0));
    assert_eq!(retried[0].id, parked[0].message.id, "the same to a consumer");
    assert!(!store.discard(first).await.unwrap(), "it is pending again");
    assert_eq!(store.counts().await.unwrap().parked, 0);
}

async fn a_held_key_waits_for_its_parked_event(place: &impl Place) {
    let store = place.store();
    for key in ["a", "b"] {
        place.put(&[event(key, "1"), event(key, "2")]).await.unwrap();
    }
    for claimed in claim_all(place, LONG).await {
        settle(place, first_parked(&claimed, true)).await;
    }
    place.put(&[event("a", "3"), event("b", "3")]).await.unwrap();
    assert!(claim_all(place, LONG).await.is_empty(), "held, later events too");
    let parked = store.parked(0, 10).await.unwrap();
    assert!(store.retry(parked[0].message.number).await.unwrap());
    let retried = claim_soon(place).await;
    assert_eq!(
        payloads(&retried[0].events),
        ["1", "2", "3"],
        "in order after all"
    );
    settle(place, went_well(&retried[0])).await;
    assert!(store.discard(parked[1].message.number).await.unwrap());
    assert_eq!(payloads(&claim_soon(place).await[0].events), ["2", "3"]);
}

async fn held_keys_are_released_together(place: &impl Place) {
    place.put(&[event("a", "1"), event("a", "2")]).await.unwrap();
    let claimed = claim_all(place, LONG).await;
    settle(place, first_parked(&claimed[0], true)).await;
    place.store().release_held().await.unwrap();
    assert_eq!(payloads(&claim_soon(place).await[0].events), ["2"]);
}

async fn a_worker_that_ended_in_the_middle_is_counted(place: &impl Place) {
    place.put(&[event("a", "1"), event("a", "2")]).await.unwrap();
    for crashes in 0..3 {
        let claimed = loop {
            let claimed = claim_all(place, SHORT).await;
            if !claimed.is_empty() {
                break claimed;
            }
        };
        assert_eq!(claimed[0].crashes, crashes);
        assert_eq!(claimed[0].events.len(), if crashes == 0 { 2 } else { 1 });
    }
    let last = claim_soon(place).await;
    settle(place, went_well(&last[0])).await;
    assert_eq!(
        claim_soon(place).await[0].crashes,
        0,
        "a reported claim is not a crash"
    );
}

async fn old_published_events_are_deleted_in_steps(place: &impl Place) {
    let store = place.store();
    let events: Vec<Event> = (0..5).map(|key| event(&key.to_string(), "1")).collect();
    place.put(&events).await.unwrap();
    for claimed in claim_all(place, LONG).await.iter().take(4) {
        settle(place, went_well(claimed)).await;
    }
    assert_eq!(store.clean(LONG, 100).await.unwrap(), 0, "too young");
    assert_eq!(
        store.clean(Duration::ZERO, 3).await.unwrap(),
        3,
        "no more than asked"
    );
    assert_eq!(
        store.clean(Duration::ZERO, 3).await.unwrap(),
        1,
        "the pending one stays"
    );
    assert_eq!(store.counts().await.unwrap().pending, 1);
}

async fn nothing_is_kept_where_nothing_should_be(place: &impl Place) {
    place.put(&[event("a", "1")]).await.unwrap();
    let claimed = claim_all(place, LONG).await;
    let lost = place
        .store()
        .settle(&[went_well(&claimed[0])], false)
        .await
        .unwrap();
    assert_eq!(lost, 0);
    assert_eq!(place.store().clean(Duration::ZERO, 100).await.unwrap(), 0);
}

async fn what_is_over_a_limit_is_not_written(place: &impl Place) {
    let large = Event::new("t", vec![0; Event::LARGEST_PAYLOAD + 1]);
    let error = place.put(&[event("a", "1"), large]).await.unwrap_err();
    assert!(
        error.to_string().contains("262145 bytes, more than the 262144"),
        "{error}"
    );
    assert_eq!(place.store().counts().await.unwrap().pending, 0);
    let largest = Event::new("t", vec![0; Event::LARGEST_PAYLOAD]);
    place.put(&[largest]).await.unwrap();
    let claimed = claim_all(place, LONG).await;
    assert_eq!(claimed[0].events[0].payload.len(), Event::LARGEST_PAYLOAD);
}

async fn a_wake_is_not_lost(place: &impl Place) {
    place.store().wake();
    place.store().woken().await;
}
