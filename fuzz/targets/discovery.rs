//! Whatever an Envoy asks, in either dialect of xDS: what is served does not change by it, and nothing is served before it is known
//! what the fleet holds.
#![no_main]

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use retryguard_controller::adapters::actuator::envoy::rtds::fuzzing::{FuzzedRequest, play};

fuzz_target!(|messages: Vec<(bool, Vec<u8>)>| {
    let requests = messages.iter().filter_map(|(delta, bytes)| {
        Some(if *delta {
            FuzzedRequest::Delta(Box::new(DeltaDiscoveryRequest::decode(&bytes[..]).ok()?))
        } else {
            FuzzedRequest::Whole(Box::new(DiscoveryRequest::decode(&bytes[..]).ok()?))
        })
    });
    play(requests.collect());
});
