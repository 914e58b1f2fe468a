use std::collections::BTreeMap;

use proptest::prelude::*;
use retryguard_core::ratio::Ratio;
use serde_json::{Value, json};

use crate::adapters::actuator::routes::dialect::Dialect;
use crate::adapters::actuator::routes::host::Host;
use crate::adapters::actuator::routes::plan::{DesiredTarget, Plan, View, plan};
use crate::adapters::actuator::routes::record::{ANNOTATION, MOST_BYTES, Record};
use crate::domain::state::RetryState;

const HALF: RetryState = RetryState::Part {
    step: 2,
    share: Ratio::from_parts(Ratio::PARTS / 2),
};

/// A VirtualService without a server: patches are applied to it as the server would.
#[derive(Debug, Clone, PartialEq)]
struct Object {
    annotations: BTreeMap<String, String>,
    spec: Value,
    memory: Option<Record>,
}

impl Object {
    fn new(spec: Value) -> Self {
        Self {
            annotations: BTreeMap::new(),
            spec,
            memory: None,
        }
    }

    fn plan(&self, target: &str, desired: RetryState) -> Result<Plan, String> {
        let host = Host::new(target, "prod", "cluster.local");
        let view = View {
            dialect: Dialect::VirtualService,
            namespace: "prod",
            resource_version: "7",
            annotations: &self.annotations,
            spec: &self.spec,
            remembered: self.memory.as_ref(),
        };
        let wanted = DesiredTarget {
            target,
            host: Some(&host),
            desired,
            domain: "cluster.local",
            default_attempts: 2,
        };
        plan(&view, &wanted)
    }

    fn settle(&mut self, target: &str, desired: RetryState) -> Plan {
        let plan = self.plan(target, desired).unwrap();
        for operation in &plan.operations {
            self.operate(operation);
        }
        self.memory.clone_from(&plan.record);
        // What is as wanted is not written again.
        assert_eq!(
            self.plan(target, desired).unwrap().operations,
            Vec::<Value>::new()
        );
        plan
    }

    fn operate(&mut self, operation: &Value) {
        let path = operation["path"].as_str().unwrap();
        let value = operation["value"].clone();
        let kind = operation["op"].as_str().unwrap();
        if let Some(key) = path.strip_prefix("/metadata/annotations") {
            match (kind, key) {
                ("remove", "") => self.annotations.clear(),
                ("add", "") => assert!(self.annotations.is_empty() && value == json!({})),
                ("remove", _) => assert!(self.annotations.remove(ANNOTATION).is_some()),
                _ => {
                    let text = value.as_str().unwrap().to_owned();
                    self.annotations.insert(ANNOTATION.to_owned(), text);
                }
            }
            return;
        }
        if path == "/metadata/resourceVersion" {
            assert_eq!((kind, value), ("replace", json!("7")));
            return;
        }
        let path = path.strip_prefix("/spec").unwrap();
        if kind == "test" {
            assert_eq!(self.spec.pointer(path).cloned().unwrap_or(Value::Null), value);
            return;
        }
        let route = path.strip_suffix("/retries").unwrap();
        let route = self.spec.pointer_mut(route).unwrap().as_object_mut().unwrap();
        let before = match kind {
            "remove" => route.remove("retries"),
            _ => route.insert("retries".to_owned(), value),
        };
        assert_eq!(before.is_some(), kind != "add", "{kind}");
    }
}

fn to(host: &str) -> Value {
    json!([{"destination": {"host": host}}])
}

fn off() -> Value {
    json!({"attempts": 0})
}

#[test]
fn the_whole_life_of_a_block_ends_where_it_began() {
    let user = json!({"attempts": 5, "retryOn": "5xx", "perTryTimeout": "2s", "newer": {"kept": [1, 2.5]}});
    let before = Object::new(json!({"hosts": ["reviews"], "http": [
        {"match": [{"uri": {"prefix": "/v2"}}], "route": to("other")},
        {"name": "main", "route": to("reviews"), "retries": user, "timeout": "3s"},
        {"route": to("reviews.prod.svc.cluster.local")},
    ]}));
    let mut object = before.clone();
    object.settle("reviews", RetryState::Off);
    assert_eq!(object.spec["http"][0], before.spec["http"][0]);
    assert_eq!(object.spec["http"][1]["retries"], off());
    assert_eq!(object.spec["http"][1]["timeout"], "3s");
    assert_eq!(object.spec["http"][2]["retries"], off());
    object.settle("reviews", HALF);
    assert_eq!(object.spec["http"][1]["retries"]["attempts"], 3);
    assert_eq!(object.spec["http"][1]["retries"]["newer"], user["newer"]);
    assert_eq!(object.spec["http"][2]["retries"], json!({"attempts": 1}));
    object.settle("reviews", RetryState::Original);
    assert_eq!(object, before);
}

#[test]
fn a_route_of_two_hosts_follows_the_strictest_and_is_given_back_by_the_last() {
    let both =
        json!([{"destination": {"host": "a"}, "weight": 90}, {"destination": {"host": "b"}, "weight": 10}]);
    let before = Object::new(json!({"http": [{"route": both, "retries": {"attempts": 4}}]}));
    let mut object = before.clone();
    let plan = object.settle("a", HALF);
    assert!(
        plan.losses
            .iter()
            .any(|loss| loss.0.contains("also sends to b.prod.svc"))
    );
    assert_eq!(object.spec["http"][0]["retries"], json!({"attempts": 2}));
    object.settle("b", RetryState::Off);
    assert_eq!(object.spec["http"][0]["retries"], off());
    object.settle("a", RetryState::Original);
    assert_eq!(object.spec["http"][0]["retries"], off());
    object.settle("b", RetryState::Original);
    assert_eq!(object, before);
}

#[test]
fn an_edit_of_the_retries_stands_until_the_next_time_and_is_then_the_original() {
    let mut object = Object::new(json!({"http": [{"route": to("a"), "retries": {"attempts": 4}}]}));
    object.settle("a", RetryState::Off);
    object.spec["http"][0]["retries"] = json!({"attempts": 1, "retryOn": "reset"});
    let edited = object.spec.clone();
    let plan = object.settle("a", RetryState::Off);
    assert_eq!(plan.yielded, ["route 0"]);
    assert!(plan.losses[0].0.contains("left alone"));
    for desired in [HALF, RetryState::Off, HALF] {
        let plan = object.settle("a", desired);
        assert_eq!(plan.yielded, Vec::<String>::new(), "told once");
        assert_eq!(object.spec, edited);
    }
    object.settle("a", RetryState::Original);
    assert_eq!(object, Object::new(edited.clone()));
    object.settle("a", RetryState::Off);
    assert_eq!(object.spec["http"][0]["retries"], off());
    object.settle("a", RetryState::Original);
    assert_eq!(object.spec, edited);
}

#[test]
fn a_block_that_the_user_removes_while_off_stays_removed() {
    let mut object = Object::new(json!({"http": [{"route": to("a"), "retries": {"attempts": 4}}]}));
    object.settle("a", RetryState::Off);
    object.spec["http"][0].as_object_mut().unwrap().remove("retries");
    object.settle("a", HALF);
    object.settle("a", RetryState::Original);
    assert_eq!(object, Object::new(json!({"http": [{"route": to("a")}]})));
}

#[test]
fn routes_that_are_moved_renamed_and_changed_get_their_own_blocks_back() {
    let mut object = Object::new(json!({"http": [
        {"name": "one", "route": to("a"), "retries": {"attempts": 1}},
        {"match": [{"uri": {"exact": "/two"}}], "route": to("a"), "retries": {"attempts": 2}},
        {"match": [{"uri": {"exact": "/three"}}], "route": to("a"), "retries": {"attempts": 3}},
        {"name": "four", "match": [{"port": 4}], "route": to("a"), "retries": {"attempts": 4}},
    ]}));
    object.settle("a", RetryState::Off);
    let routes = object.spec["http"].as_array_mut().unwrap();
    routes.swap(0, 2);
    routes.swap(1, 2);
    routes[1]["timeout"] = json!("1s");
    routes[3]["name"] = json!("renamed");
    routes.insert(0, json!({"route": to("a"), "retries": {"attempts": 9}}));
    object.settle("a", RetryState::Off);
    assert_eq!(object.spec["http"][0]["retries"], off(), "a new route joins");
    object.settle("a", RetryState::Original);
    let attempts: Vec<u64> = object.spec["http"]
        .as_array()
        .unwrap()
        .iter()
        .map(|route| route["retries"]["attempts"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [9, 3, 1, 2, 4]);
}

#[test]
fn a_route_that_is_renamed_edited_and_moved_at_once_does_not_stay_off() {
    let mut object = Object::new(json!({"http": [
        {"name": "one", "route": to("a"), "retries": {"attempts": 3}},
        {"name": "two", "route": to("b")},
    ]}));
    object.settle("a", RetryState::Off);
    let routes = object.spec["http"].as_array_mut().unwrap();
    routes.swap(0, 1);
    routes[1]["name"] = json!("another");
    routes[1]["timeout"] = json!("1s");
    object.settle("a", RetryState::Original);
    assert_eq!(object.spec["http"][1]["retries"], json!({"attempts": 3}));
    assert_eq!(object.spec["http"][0].get("retries"), None);
    assert!(object.annotations.is_empty());
}

#[test]
fn an_unnamed_route_that_is_changed_in_its_place_is_still_the_same() {
    let mut object = Object::new(json!({"http": [{"route": to("a"), "retries": {"attempts": 3}}]}));
    object.settle("a", RetryState::Off);
    object.spec["http"][0]["timeout"] = json!("1s");
    object.settle("a", RetryState::Original);
    assert_eq!(object.spec["http"][0]["retries"], json!({"attempts": 3}));
    assert_eq!(object.spec["http"][0]["timeout"], "1s");
}

#[test]
fn a_route_that_goes_elsewhere_is_given_back() {
    let mut object =
        Object::new(json!({"http": [{"name": "n", "route": to("a"), "retries": {"attempts": 3}}]}));
    object.settle("a", RetryState::Off);
    object.spec["http"][0]["route"] = to("b");
    object.settle("a", RetryState::Off);
    assert_eq!(
        object,
        Object::new(json!({"http": [{"name": "n", "route": to("b"), "retries": {"attempts": 3}}]}))
    );
}

#[test]
fn a_lost_annotation_comes_back_while_our_block_stands() {
    let before = Object::new(json!({"http": [{"route": to("a"), "retries": {"attempts": 3}}]}));
    let mut object = before.clone();
    object.settle("a", RetryState::Off);
    object.annotations.clear();
    object.settle("a", RetryState::Off);
    assert!(object.annotations.contains_key(ANNOTATION));
    object.annotations.clear();
    object.settle("a", RetryState::Original);
    assert_eq!(object, before);
}

#[test]
fn a_replaced_object_is_left_alone_without_a_trace() {
    let before = Object::new(json!({"http": [{"route": to("a"), "retries": {"attempts": 3}}]}));
    let mut object = before.clone();
    object.settle("a", RetryState::Off);
    object.annotations.clear();
    object.spec = before.spec.clone();
    let plan = object.settle("a", RetryState::Off);
    assert_eq!(plan.yielded.len(), 1);
    object.settle("a", HALF);
    assert_eq!((&object.spec, object.annotations.len()), (&before.spec, 0));
    object.settle("a", RetryState::Original);
    assert_eq!(object, before);
    object.settle("a", RetryState::Off);
    assert_eq!(
        object.spec["http"][0]["retries"],
        off(),
        "the next time counts again"
    );
}

#[test]
fn retries_that_are_off_already_are_not_touched() {
    let before = Object::new(json!({"http": [
        {"route": to("a"), "retries": {"attempts": 0}},
        {"route": to("a"), "retries": {}},
        {"route": to("a"), "retries": "strange"},
    ]}));
    let mut object = before.clone();
    let plan = object.settle("a", RetryState::Off);
    assert_eq!(object, before);
    assert_eq!(plan.matched, 3);
    assert_eq!(plan.losses.len(), 1, "the strange one");
}

#[test]
fn an_annotation_that_is_not_ours_stops_everything_with_a_cure() {
    let mut object = Object::new(json!({"http": [{"route": to("a")}]}));
    for (text, word) in [
        ("{", "remove it"),
        ("{\"form\":2,\"routes\":[]}", "form 2"),
        ("[]", "not what we wrote"),
    ] {
        object.annotations.insert(ANNOTATION.to_owned(), text.to_owned());
        let error = object.plan("a", RetryState::Off).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_block_too_large_to_keep_is_refused_and_one_at_the_limit_is_not() {
    let with = |size: usize| {
        Object::new(
            json!({"http": [{"route": to("a"), "retries": {"attempts": 1, "retryOn": "x".repeat(size)}}]}),
        )
    };
    let small = with(1);
    let size = small
        .plan("a", RetryState::Off)
        .unwrap()
        .record
        .unwrap()
        .write()
        .unwrap()
        .len();
    let mut at = with(MOST_BYTES - size + 1);
    at.settle("a", RetryState::Off);
    at.settle("a", RetryState::Original);
    let error = with(MOST_BYTES - size + 2)
        .plan("a", RetryState::Off)
        .unwrap_err();
    assert!(error.contains("65536"), "{error}");
}

/// Any JSON, with the words that matter strewn in.
fn anything() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("a".to_owned()),
        Just("a.prod".to_owned()),
        Just("*".to_owned()),
        Just(".".to_owned()),
        ".{0,6}"
    ];
    let key = prop_oneof![
        Just("http".to_owned()),
        Just("route".to_owned()),
        Just("retries".to_owned()),
        Just("attempts".to_owned()),
        Just("destination".to_owned()),
        Just("host".to_owned()),
        Just("name".to_owned()),
        "[a-z]{0,3}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A route that is likely one of ours.
fn route() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        Just(None),
        (0..7_i64).prop_map(|attempts| Some(json!({"attempts": attempts}))),
        (1..7_i64, "[a-z]{1,5}")
            .prop_map(|(attempts, on)| Some(json!({"attempts": attempts, "retryOn": on}))),
        anything().prop_map(Some),
    ];
    let hosts = prop::collection::vec(prop::sample::select(vec!["a", "b", "a.prod", "a.other"]), 0..3);
    let name = prop::option::of(prop::sample::select(vec!["x", "y"]));
    (block, hosts, name).prop_map(|(block, hosts, name)| {
        let mut route = json!({"route": hosts.iter().map(|host| json!({"destination": {"host": host}})).collect::<Vec<_>>()});
        if let Some(block) = block {
            route["retries"] = block;
        }
        if let Some(name) = name {
            route["name"] = json!(name);
        }
        route
    })
}

fn desired() -> impl Strategy<Value = RetryState> {
    prop_oneof![
        Just(RetryState::Original),
        Just(RetryState::Off),
        (any::<u8>(), 0..=Ratio::PARTS).prop_map(|(step, parts)| RetryState::Part {
            step,
            share: Ratio::from_parts(parts)
        }),
    ]
}

proptest! {
    #[test]
    fn no_object_makes_it_panic(spec in anything(), annotation in prop::option::of(anything()), desired in desired()) {
        let mut object = Object::new(spec);
        if let Some(annotation) = annotation {
            object.annotations.insert(ANNOTATION.to_owned(), annotation.to_string());
        }
        let _ = object.plan("a", desired);
    }

    #[test]
    fn whatever_was_wished_before_the_original_comes_back_to_the_byte(
        routes in prop::collection::vec(prop_oneof![4 => route().boxed(), 1 => anything().boxed()], 0..6),
        desired_states in prop::collection::vec((prop::sample::select(vec!["a", "b"]), desired()), 0..8),
    ) {
        let before = Object::new(json!({"http": routes}));
        let mut object = before.clone();
        for (target, desired) in desired_states {
            object.settle(target, desired);
        }
        object.settle("a", RetryState::Original);
        object.settle("b", RetryState::Original);
        prop_assert_eq!(object.spec.to_string(), before.spec.to_string());
        prop_assert_eq!(object, before);
    }

    #[test]
    fn after_any_edit_nothing_of_ours_stays_behind(
        routes in prop::collection::vec(route(), 1..5),
        edit in prop::collection::vec((0..5_usize, 0..4_u8), 0..4),
    ) {
        let mut object = Object::new(json!({"http": routes}));
        object.settle("a", RetryState::Off);
        let list = object.spec["http"].as_array_mut().unwrap();
        for (place, kind) in edit {
            let place = place % list.len();
            match kind {
                0 => { let _ = list[place].as_object_mut().unwrap().remove("retries"); }
                1 => list[place]["retries"] = json!({"attempts": 8}),
                2 => list.reverse(),
                _ => list.push(json!({"route": to("a")})),
            }
        }
        object.settle("a", HALF);
        object.settle("a", RetryState::Original);
        prop_assert!(object.annotations.is_empty());
        prop_assert_eq!(object.memory, None);
    }
}

/// What stands in running clusters since the first version. A controller that takes over gives it back.
#[test]
fn the_record_of_an_older_controller_is_read() {
    let block = json!({"attempts": 5, "perTryTimeout": "2s"});
    let mut object = Object::new(json!({
        "hosts": ["reviews"],
        "http": [{"route": [{"destination": {"host": "reviews"}}], "retries": block}],
    }));
    let before = object.clone();
    object.settle("reviews", RetryState::Off);
    let text = &object.annotations[ANNOTATION];
    let (print, _) = text
        .split_once("\"print\":\"")
        .unwrap()
        .1
        .split_once('"')
        .unwrap();
    let older = format!(
        r#"{{"form":1,"routes":[{{"index":0,"print":"{print}","original":{{"attempts":5,"perTryTimeout":"2s"}},"ours":{{"attempts":0}},"wishes":{{"reviews":"off"}}}}]}}"#
    );
    assert_eq!(*text, older);
    // Another process, which has nothing in its memory.
    object.memory = None;
    object.annotations.insert(ANNOTATION.to_owned(), older);
    object.settle("reviews", RetryState::Original);
    assert_eq!(object.spec, before.spec);
    assert_eq!(object.annotations, before.annotations);
}
