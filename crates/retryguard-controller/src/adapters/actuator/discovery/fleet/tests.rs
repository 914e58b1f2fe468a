use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::Node as EnvoyNode;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::rpc::Status as Problem;
use proptest::prelude::*;

use crate::adapters::actuator::discovery::fleet::*;
use crate::adapters::actuator::discovery::server::Dialect as _;
use crate::adapters::actuator::envoy::rtds::dialect::{Delta, RuntimeLayer, StateOfTheWorld, TYPE};

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
    let mut fleet = Fleet::new();
    fleet.learn();
    fleet.serve([["a".to_owned()].as_slice()].into_iter());
    fleet
}

#[test]
fn no_stream_is_taken_before_we_act_and_no_update_is_sent_before_we_know() {
    let mut fleet = Fleet::new();
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
    let mut fleet = Fleet::new();
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
    fleet.set(&["a".to_owned()], RetryState::Off).unwrap();
    assert!(!fleet.reach().complete());
    let second = fleet.next_update(stream).unwrap();
    fleet.set(&["a".to_owned()], RetryState::Original).unwrap();
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
    fleet.set(&["a".to_owned()], RetryState::Off).unwrap();
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
    assert_eq!(
        fleet.set(&["one-more".to_owned()], RetryState::Off),
        Err(TooManyClusters)
    );
    assert_eq!(fleet.set(&["0".to_owned()], RetryState::Original), Ok(()));
    assert_eq!(fleet.set(&["one-more".to_owned()], RetryState::Off), Ok(()));
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

/// What streams present while the server learns was kept for each stream, without a limit for all of them.
#[test]
fn what_is_learned_has_a_limit_for_all_streams_together() {
    let mut fleet = Fleet::new();
    fleet.learn();
    for stream in 0..3 {
        let names = (0..MOST_CLUSTERS / 2 + 1).map(|number| format!(" {stream}-{number}=off"));
        let version = format!("retryguard/1{}", names.collect::<String>());
        let open = fleet.open_stream("x").unwrap();
        fleet.on_request(open, &subscribe(&version));
    }
    assert_eq!(fleet.desired_states().len(), MOST_CLUSTERS);
}

/// What one end of a stream can do.
#[derive(Debug, Clone)]
enum Step {
    Open,
    Close(usize),
    /// Of the state of the world, in any shape.
    Whole(usize, Box<DiscoveryRequest>),
    /// Of the delta, in any shape.
    Part(usize, Box<DeltaDiscoveryRequest>),
    Update(usize),
    Set(bool),
    Learn,
    Serve,
    Stop,
    Late,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("1".to_owned()),
        Just("2".to_owned()),
        Just("retryguard/1 a=off".to_owned()),
        Just("retryguard/1 a=1/250000000 b=off".to_owned()),
        "\\PC{0,12}",
    ]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![Just("retryguard".to_owned()), Just("*".to_owned()), text()];
    proptest::collection::vec(name, 0..3)
}

fn type_url() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(TYPE.to_owned()), 1 => Just(String::new()), 1 => text()]
}

fn problem() -> impl Strategy<Value = Option<Problem>> {
    proptest::option::of(text().prop_map(|message| Problem {
        message,
        ..Problem::default()
    }))
}

fn node() -> impl Strategy<Value = Option<EnvoyNode>> {
    proptest::option::of((text(), text()).prop_map(|(id, cluster)| EnvoyNode {
        id,
        cluster,
        ..EnvoyNode::default()
    }))
}

fn whole() -> impl Strategy<Value = DiscoveryRequest> {
    (text(), node(), names(), type_url(), text(), problem()).prop_map(
        |(version_info, node, resource_names, type_url, response_nonce, error_detail)| DiscoveryRequest {
            version_info,
            node,
            resource_names,
            type_url,
            response_nonce,
            error_detail,
            ..DiscoveryRequest::default()
        },
    )
}

fn part() -> impl Strategy<Value = DeltaDiscoveryRequest> {
    let versions = proptest::collection::vec((text(), text()), 0..3);
    (node(), names(), names(), versions, type_url(), text(), problem()).prop_map(
        |(node, more, less, versions, type_url, response_nonce, error_detail)| DeltaDiscoveryRequest {
            node,
            resource_names_subscribe: more,
            resource_names_unsubscribe: less,
            initial_resource_versions: versions.into_iter().collect::<HashMap<_, _>>(),
            type_url,
            response_nonce,
            error_detail,
            ..DeltaDiscoveryRequest::default()
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Open),
        1 => (0_usize..4).prop_map(Step::Close),
        6 => (0_usize..4, whole()).prop_map(|(stream, request)| Step::Whole(stream, Box::new(request))),
        6 => (0_usize..4, part()).prop_map(|(stream, request)| Step::Part(stream, Box::new(request))),
        4 => (0_usize..4).prop_map(Step::Update),
        1 => any::<bool>().prop_map(Step::Set),
        1 => Just(Step::Learn),
        1 => Just(Step::Serve),
        1 => Just(Step::Stop),
        1 => Just(Step::Late),
    ]
}

fn summed_anew(fleet: &Fleet) -> LayerStatus {
    let mut reach = LayerStatus::default();
    for node in fleet.nodes.values() {
        reach.add(node.reach(&fleet.layer));
    }
    reach
}

proptest! {
    /// Whatever Envoys, or others that speak like them, send in whatever order: nothing is sent before it is known what
    /// the fleet holds, an answer counts for the update that it names and for no other, and no stream changes what is
    /// wanted while the server serves.
    #[test]
    fn no_request_brings_the_fleet_out_of_order(steps in proptest::collection::vec(step(), 0..60)) {
        let mut fleet = Fleet::new();
        let served = RuntimeLayer::new("retryguard");
        let mut streams: Vec<Stream> = Vec::new();
        for step in steps {
            let before = fleet.desired_states().clone();
            let was_serving = fleet.phase() == Phase::Serving;
            let request = match &step {
                Step::Whole(stream, request) => {
                    Some((*stream, StateOfTheWorld.decode((**request).clone(), &served)))
                }
                Step::Part(stream, request) => {
                    Some((*stream, Delta.decode((**request).clone(), &served)))
                }
                _ => None,
            };
            if let Some((stream, Some(request))) = request {
                if let Some(stream) = streams.get(stream) {
                    let accepted = fleet.reach().accepted;
                    fleet.on_request(*stream, &request);
                    let more = fleet.reach().accepted > accepted;
                    prop_assert!(
                        !more || (!request.nonce.is_empty() && request.refusal.is_none()) || request.wants == Some(true),
                        "accepted by {request:?}"
                    );
                }
                if was_serving {
                    prop_assert_eq!(fleet.desired_states(), &before);
                }
                prop_assert_eq!(fleet.reach(), summed_anew(&fleet));
                continue;
            }
            match step {
                Step::Open => streams.extend(fleet.open_stream("x").ok()),
                Step::Close(stream) if stream < streams.len() => fleet.close_stream(streams.remove(stream)),
                Step::Update(stream) => {
                    if let Some(update) = streams.get(stream).and_then(|stream| fleet.next_update(*stream)) {
                        prop_assert_eq!(fleet.phase(), Phase::Serving);
                        prop_assert_eq!(&update.layer, fleet.layer());
                    }
                }
                Step::Set(off) => {
                    let desired = if off { RetryState::Off } else { RetryState::Original };
                    fleet.set(&["a".to_owned()], desired).unwrap();
                }
                Step::Learn => fleet.learn(),
                Step::Serve => fleet.serve([["a".to_owned(), "b".to_owned()].as_slice()].into_iter()),
                Step::Stop => fleet.stop(),
                Step::Late => fleet.mark_late(),
                _ => {}
            }
            let reach = fleet.reach();
            prop_assert!(reach.accepted + reach.refused + reach.late <= reach.streams);
            prop_assert!(reach.streams <= streams.len());
            prop_assert_eq!(reach, summed_anew(&fleet));
        }
    }
}
