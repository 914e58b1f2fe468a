//! What a fuzzer drives: requests of Envoys against the machine behind the port, without the port.

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};

use crate::adapters::actuator::discovery::fleet::{Fleet, MOST_CLUSTERS};
use crate::adapters::actuator::discovery::server::Dialect as _;
use crate::adapters::actuator::discovery::version;
use crate::adapters::actuator::envoy::rtds::dialect::{Delta, RuntimeLayer, StateOfTheWorld};

const LAYER: &str = "retryguard";

/// A request in either dialect.
#[derive(Debug, Clone)]
pub enum FuzzedRequest {
    /// State of the world.
    Whole(Box<DiscoveryRequest>),
    /// Delta.
    Delta(Box<DeltaDiscoveryRequest>),
}

/// Plays requests on two streams: the first half of them while the server learns, the others while it serves.
///
/// # Panics
/// When a request breaks what the machine promises.
pub fn play(requests: Vec<FuzzedRequest>) {
    let mut fleet = Fleet::new();
    let served = RuntimeLayer::new(LAYER);
    fleet.learn();
    let streams: Vec<_> = (0..2).filter_map(|_| fleet.open_stream("fuzzed").ok()).collect();
    let half = requests.len() / 2;
    for (number, request) in requests.into_iter().enumerate() {
        if number == half {
            let learned: Vec<String> = fleet.desired_states().keys().cloned().collect();
            fleet.serve([learned.as_slice()].into_iter());
        }
        let stream = streams[number % streams.len()];
        let asked = match request {
            FuzzedRequest::Whole(request) => StateOfTheWorld.decode(*request, &served),
            FuzzedRequest::Delta(request) => Delta.decode(*request, &served),
        };
        let before = fleet.desired_states().clone();
        if let Some(asked) = asked {
            fleet.on_request(stream, &asked);
        }
        if number >= half {
            assert_eq!(
                &before,
                fleet.desired_states(),
                "a request changed what is served"
            );
        }
        if let Some(update) = fleet.next_update(stream) {
            assert!(number >= half, "sent while it learns");
            // What an Envoy is sent says in words what a later controller must read from it.
            assert_eq!(
                &version::read(&update.layer.version, MOST_CLUSTERS),
                fleet.desired_states()
            );
            let _ = StateOfTheWorld.encode(&update, &served);
        }
        let reach = fleet.reach();
        assert!(reach.accepted + reach.refused + reach.late <= reach.streams);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_envoy_holds_is_learned_and_served_again() {
        let first = DiscoveryRequest {
            version_info: "retryguard/1 reviews=off".to_owned(),
            resource_names: vec![LAYER.to_owned()],
            ..DiscoveryRequest::default()
        };
        let request = FuzzedRequest::Whole(Box::new(first));
        play(vec![request; 6]);
        play(Vec::new());
    }
}
