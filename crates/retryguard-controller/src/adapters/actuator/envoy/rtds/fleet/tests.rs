use crate::adapters::actuator::envoy::rtds::fleet::*;

fn subscribe(version: &str) -> NodeRequest {
    NodeRequest {
        wants: Some(true),
        version: version.to_owned(),
        ..NodeRequest::default()
    }
}

fn accept(update: &Update) -> NodeRequest {
    NodeRequest {
        wants: Some(true),
        version: update.layer.version.clone(),
        nonce: update.nonce.clone(),
        ..NodeRequest::default()
    }
}

fn serving() -> Fleet {
    let mut fleet = Fleet::new(BTreeMap::new());
    fleet.learn();
    fleet.serve([["a".to_owned()].as_slice()].into_iter());
    fleet
}

#[test]
fn no_stream_is_taken_before_we_act_and_no_update_is_sent_before_we_know() {
    let mut fleet = Fleet::new(BTreeMap::new());
    assert_eq!(fleet.open_stream("x"), Err(StreamRefused::NotActing));
    fleet.learn();
    let stream = fleet.open_stream("x").unwrap();
    fleet.on_request(stream, &subscribe("retryguard/1 a=off"));
    assert_eq!(fleet.next_update(stream), None);
    fleet.serve([["a".to_owned()].as_slice()].into_iter());
    assert_eq!(
        fleet.next_update(stream).unwrap().layer.version,
        "retryguard/1 a=off"
    );
    fleet.stop();
    assert_eq!(fleet.open_stream("x"), Err(StreamRefused::NotActing));
    assert!(!fleet.has_update(stream));
}

#[test]
fn the_strictest_of_what_is_presented_holds_for_all_clusters_of_a_target() {
    let mut fleet = Fleet::new(BTreeMap::new());
    fleet.learn();
    for version in [
        "retryguard/1 a=1/250000000 stray=off",
        "retryguard/1 b=off",
        "7",
        "",
    ] {
        let stream = fleet.open_stream("x").unwrap();
        fleet.on_request(stream, &subscribe(version));
    }
    let target = ["a".to_owned(), "b".to_owned()];
    fleet.serve([target.as_slice()].into_iter());
    assert_eq!(fleet.layer().version, "retryguard/1 a=off b=off");
}

#[test]
fn a_version_that_comes_back_must_be_accepted_anew() {
    let mut fleet = serving();
    let stream = fleet.open_stream("x").unwrap();
    fleet.on_request(stream, &subscribe(""));
    let first = fleet.next_update(stream).unwrap();
    fleet.on_request(stream, &accept(&first));
    assert!(fleet.reach().complete());
    fleet.set("a", RetryState::Off).unwrap();
    assert!(!fleet.reach().complete());
    let second = fleet.next_update(stream).unwrap();
    fleet.set("a", RetryState::Original).unwrap();
    // The word about the second comes when the third is wanted already.
    fleet.on_request(stream, &accept(&second));
    assert!(!fleet.reach().complete());
    let third = fleet.next_update(stream).unwrap();
    assert_eq!(third.layer.version, first.layer.version);
    // A late word about the first says nothing about the third.
    fleet.on_request(stream, &accept(&first));
    assert!(!fleet.reach().complete());
    fleet.on_request(stream, &accept(&third));
    assert!(fleet.reach().complete());
}

#[test]
fn one_that_is_late_is_not_waited_for_until_it_answers() {
    let mut fleet = serving();
    let stream = fleet.open_stream("x").unwrap();
    fleet.on_request(stream, &subscribe(""));
    let update = fleet.next_update(stream).unwrap();
    fleet.mark_late();
    assert_eq!((fleet.reach().late, fleet.reach().complete()), (1, true));
    fleet.set("a", RetryState::Off).unwrap();
    assert!(fleet.reach().complete());
    fleet.on_request(stream, &accept(&update));
    assert!(!fleet.reach().complete());
}

#[test]
fn streams_clusters_and_memories_have_limits() {
    let mut fleet = serving();
    let streams: Vec<Stream> = (0..MOST_STREAMS)
        .map(|_| fleet.open_stream("x").unwrap())
        .collect();
    assert_eq!(fleet.open_stream("x"), Err(StreamRefused::Full));
    for (number, stream) in streams.iter().enumerate() {
        let node = Some(NodeIdentity {
            id: number.to_string(),
            service: String::new(),
        });
        fleet.on_request(
            *stream,
            &NodeRequest {
                node,
                ..subscribe("")
            },
        );
        fleet.close_stream(*stream);
    }
    assert_eq!(fleet.nodes().1.count(), MOST_GONE);
    assert!(fleet.open_stream("x").is_ok());
    let full = (0..MOST_CLUSTERS).map(|number| (number.to_string(), RetryState::Off));
    fleet.desired_states = full.collect();
    assert_eq!(fleet.set("one-more", RetryState::Off), Err(TooManyClusters));
    assert_eq!(fleet.set("0", RetryState::Original), Ok(()));
    assert_eq!(fleet.set("one-more", RetryState::Off), Ok(()));
}

#[test]
fn texts_of_a_node_are_clipped() {
    let mut fleet = serving();
    let stream = fleet.open_stream(&"x".repeat(LONGEST_TEXT + 1)).unwrap();
    let foreign = Some("y".repeat(LONGEST_TEXT + 1));
    fleet.on_request(
        stream,
        &NodeRequest {
            foreign,
            ..subscribe("")
        },
    );
    let update = fleet.next_update(stream).unwrap();
    let refusal = Some("z".repeat(LONGEST_TEXT + 1));
    fleet.on_request(
        stream,
        &NodeRequest {
            refusal,
            ..accept(&update)
        },
    );
    let node = fleet.nodes().0.next().unwrap();
    let message = &node.refused.as_ref().unwrap().1;
    for text in [&node.address, node.foreign.as_ref().unwrap(), message] {
        assert_eq!(text.len(), LONGEST_TEXT);
    }
}
