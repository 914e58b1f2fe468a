//! What every store of keys must do, on each of the four.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use retryguard_store::idempotency::{
    Asked, Fingerprint, Held, IdempotencyStore, KeyId, Standing, StoredResponse,
};

use super::backends;
use crate::clock;

type Store = Arc<dyn IdempotencyStore>;

const LONG: Duration = Duration::from_secs(3600);

fn asked(key: &str, body: &str) -> Asked {
    Asked {
        id: KeyId::of(&[key.as_bytes()]),
        fingerprint: Fingerprint::of(&[body.as_bytes()]),
        lock: LONG,
        keep: LONG,
    }
}

fn response(body: Option<&[u8]>) -> StoredResponse {
    let mut headers = HeaderMap::new();
    headers.append("x-cookie", HeaderValue::from_static("a"));
    headers.append("x-cookie", HeaderValue::from_bytes(&[0xe4, 0xff]).unwrap());
    StoredResponse {
        status: StatusCode::CREATED,
        headers,
        body: body.map(Bytes::copy_from_slice),
    }
}

async fn yours(store: &Store, asked: Asked) -> Held {
    match store.claim(asked).await.unwrap() {
        Standing::Yours(held) => held,
        other => panic!("not ours but {other:?}"),
    }
}

async fn done(store: &Store, asked: Asked) -> StoredResponse {
    match store.claim(asked).await.unwrap() {
        Standing::Done(response) => response,
        other => panic!("not done but {other:?}"),
    }
}

async fn busy(store: &Store, asked: Asked) -> Duration {
    match store.claim(asked).await.unwrap() {
        Standing::Busy(left) => left,
        other => panic!("not busy but {other:?}"),
    }
}

/// Everything, in one go, so that a server is started once.
pub(crate) async fn conforms(store: Store) {
    a_key_goes_from_new_to_done(&store).await;
    a_body_may_be_empty_large_or_missing(&store).await;
    another_request_is_told_apart_in_every_state(&store).await;
    a_released_key_is_free_and_its_holder_is_not(&store).await;
    an_expired_holder_is_fenced(&store).await;
    a_forgotten_key_is_new_and_swept(&store).await;
    completing_and_releasing_again_is_harmless(&store).await;
    one_of_many_gets_the_key(&store).await;
}

async fn a_key_goes_from_new_to_done(store: &Store) {
    let held = yours(store, asked("first", "x")).await;
    let left = busy(store, asked("first", "x")).await;
    assert!(left > Duration::ZERO && left <= LONG, "{left:?}");
    assert!(
        store
            .complete(held, &response(Some(b"paid")), LONG)
            .await
            .unwrap()
    );
    assert_eq!(done(store, asked("first", "x")).await, response(Some(b"paid")));
    assert_eq!(done(store, asked("first", "x")).await, response(Some(b"paid")));
}

async fn a_body_may_be_empty_large_or_missing(store: &Store) {
    let large = vec![0xa5; 1024 * 1024];
    for (key, body) in [
        ("empty", Some(&b""[..])),
        ("bytes", Some(&[0, 1, 2, 255][..])),
        ("large", Some(&large[..])),
        ("missing", None),
    ] {
        let held = yours(store, asked(key, "x")).await;
        assert!(store.complete(held, &response(body), LONG).await.unwrap());
        assert_eq!(done(store, asked(key, "x")).await, response(body), "{key}");
    }
}

async fn another_request_is_told_apart_in_every_state(store: &Store) {
    let other = || async {
        matches!(
            store.claim(asked("reused", "y")).await.unwrap(),
            Standing::OtherRequest
        )
    };
    let held = yours(store, asked("reused", "x")).await;
    assert!(other().await, "while it is worked on");
    store.release(held).await.unwrap();
    assert!(other().await, "after it was released");
    let held = yours(store, asked("reused", "x")).await;
    store.complete(held, &response(None), LONG).await.unwrap();
    assert!(other().await, "after it was done");
}

async fn a_released_key_is_free_and_its_holder_is_not(store: &Store) {
    let first = yours(store, asked("released", "x")).await;
    store.release(first).await.unwrap();
    let second = yours(store, asked("released", "x")).await;
    assert!(second.token > first.token, "tokens grow");
    assert!(!store.complete(first, &response(None), LONG).await.unwrap());
    store.release(first).await.unwrap();
    busy(store, asked("released", "x")).await;
    assert!(store.complete(second, &response(Some(b"2")), LONG).await.unwrap());
    assert_eq!(done(store, asked("released", "x")).await, response(Some(b"2")));
}

async fn an_expired_holder_is_fenced(store: &Store) {
    let short = Asked {
        lock: Duration::from_millis(20),
        ..asked("expired", "x")
    };
    let first = yours(store, short).await;
    let second = loop {
        match store.claim(asked("expired", "x")).await.unwrap() {
            Standing::Yours(held) => break held,
            Standing::Busy(left) => clock::sleep(left).await,
            other => panic!("{other:?}"),
        }
    };
    assert!(second.token > first.token, "tokens grow");
    assert!(
        !store
            .complete(first, &response(Some(b"late")), LONG)
            .await
            .unwrap()
    );
    store.release(first).await.unwrap();
    busy(store, asked("expired", "x")).await;
    assert!(store.complete(second, &response(Some(b"2")), LONG).await.unwrap());
    assert!(
        !store
            .complete(first, &response(Some(b"late")), LONG)
            .await
            .unwrap()
    );
    assert_eq!(done(store, asked("expired", "x")).await, response(Some(b"2")));

    // No other request came after it: late, and still the holder.
    let late = Asked {
        lock: Duration::ZERO,
        ..asked("late", "x")
    };
    let held = yours(store, late).await;
    assert!(store.complete(held, &response(None), LONG).await.unwrap());
}

async fn a_forgotten_key_is_new_and_swept(store: &Store) {
    let brief = Asked {
        keep: Duration::from_millis(20),
        ..asked("forgotten", "x")
    };
    let held = yours(store, brief).await;
    store
        .complete(held, &response(Some(b"1")), Duration::from_millis(20))
        .await
        .unwrap();
    // Another body: the old one is not remembered.
    let again = loop {
        match store.claim(asked("forgotten", "y")).await.unwrap() {
            Standing::Yours(held) => break held,
            _ => clock::sleep(Duration::from_millis(10)).await,
        }
    };
    assert!(again.token > held.token, "tokens grow");
    assert!(!store.complete(held, &response(None), LONG).await.unwrap());
    assert!(store.complete(again, &response(Some(b"2")), LONG).await.unwrap());
    for key in ["a", "b", "c"] {
        let brief = Asked {
            keep: Duration::from_millis(1),
            ..asked(key, "x")
        };
        yours(store, brief).await;
    }
    clock::sleep(Duration::from_millis(20)).await;
    // Redis forgets by itself.
    if store.backend() != retryguard_store::Backend::Redis {
        assert_eq!(store.sweep(2).await.unwrap(), 2);
        assert_eq!(store.sweep(2).await.unwrap(), 1);
    }
    assert_eq!(store.sweep(2).await.unwrap(), 0);
    assert_eq!(done(store, asked("forgotten", "y")).await, response(Some(b"2")));
}

async fn completing_and_releasing_again_is_harmless(store: &Store) {
    let held = yours(store, asked("again", "x")).await;
    assert!(store.complete(held, &response(Some(b"1")), LONG).await.unwrap());
    assert!(!store.complete(held, &response(Some(b"2")), LONG).await.unwrap());
    store.release(held).await.unwrap();
    assert_eq!(done(store, asked("again", "x")).await, response(Some(b"1")));
    let unknown = Held {
        id: KeyId::of(&[b"unknown"]),
        token: 1,
    };
    assert!(!store.complete(unknown, &response(None), LONG).await.unwrap());
    store.release(unknown).await.unwrap();
    assert!(matches!(
        store.claim(asked("unknown", "x")).await.unwrap(),
        Standing::Yours(_)
    ));
}

async fn one_of_many_gets_the_key(store: &Store) {
    for round in 0..20 {
        let key = format!("race {round}");
        let claims: Vec<_> = (0..8)
            .map(|_| {
                let (store, asked) = (store.clone(), asked(&key, "x"));
                tokio::spawn(async move { store.claim(asked).await.unwrap() })
            })
            .collect();
        let mut winners = 0;
        for claim in claims {
            winners += usize::from(matches!(claim.await.unwrap(), Standing::Yours(_)));
        }
        assert_eq!(winners, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory() {
    conforms(backends::memory().store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    conforms(backends::sqlite().await.store.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let place = backends::redis().await;
    conforms(place.store.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    conforms(place.store.clone()).await;
}
