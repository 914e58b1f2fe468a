//! Which keys are searched, and which values each may take.

use std::time::Duration;

use retryguard_core::Chance as _;
use retryguard_policy::reading::Node;
use retryguard_sim::{
    streams::Stream,
    world::{EdgePolicy, World},
};

use super::{
    Problem,
    file::{PolicyFile, line, value},
};

/// One key, with the values that are tried; `None` leaves it out of the file.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    pub(super) key: &'static str,
    values: Vec<Option<Node>>,
    /// Which of them the file has.
    written: usize,
}

/// A setting: for each dimension the place of its value.
pub(super) type Setting = Vec<usize>;

/// All settings.
#[derive(Debug, Clone)]
pub(super) struct Space {
    file: PolicyFile,
    dimensions: Vec<Dimension>,
    /// Keys that every called service writes itself, so that `defaults` say nothing there.
    pub(super) left_out: Vec<&'static str>,
}

/// The values of the keys whose values do not depend on the world. A policy's deadline is not searched: it is what callers
/// want, and a longer one always looks better.
const KEYS: &[(&str, &[&str])] = &[
    ("maxRetries", &["0", "1", "2", "3", "5", "10"]),
    ("initialDelay", &["10ms", "30ms", "100ms", "300ms", "1s"]),
    ("maxDelay", &["1s", "3s", "10s"]),
    ("jitter", &["full", "equal", "decorrelated"]),
    ("growth", &["exponential", "constant"]),
    (
        "budget",
        &[
            "on",
            "{percent: 5%}",
            "{percent: 10%}",
            "{percent: 50%}",
            "{form: adaptive}",
            "{percent: 20%, minRetryRate: {count: 10}}",
        ],
    ),
    ("guard", &["on", "{mode: hysteresis}"]),
    (
        "breaker",
        &[
            "on",
            "off",
            "{trip: silence, whenDown: fail}",
            "{trip: rate}",
            "{trip: rate, ratio: 50%}",
            "{trip: consecutive, failures: 20}",
        ],
    ),
    ("throttle", &["off", "on"]),
    (
        "bulkhead",
        &[
            "{form: adaptive}",
            "off",
            "{form: gradient}",
            "{form: adaptive, late: 60%}",
        ],
    ),
    ("hedge", &["off", "on", "{after: 99%}"]),
    (
        "server",
        &[
            "on",
            "off",
            "{queueTime: 5ms}",
            "{queueTime: 100ms}",
            "{inFlight: 50}",
        ],
    ),
];

impl Space {
    pub(super) fn new(file: PolicyFile, service: Option<&str>, world: &World) -> Result<Self, Problem> {
        let called: Vec<&str> = world
            .edges
            .iter()
            .filter(|edge| edge.policy == EdgePolicy::Compared)
            .map(|edge| world.services[edge.to].name.as_str())
            .collect();
        if called.is_empty() {
            return Err(Problem::NoComparedEdge);
        }
        if let Some(name) = service
            && !called.contains(&name)
        {
            return Err(Problem::NotCalled {
                name: name.to_owned(),
                called: called.join(", "),
            });
        }
        let mut all: Vec<(&'static str, Vec<String>)> = KEYS
            .iter()
            .map(|(key, values)| (*key, values.iter().map(|&it| it.to_owned()).collect()))
            .collect();
        all.push(("attemptTimeout", timeouts(world)));
        let (left_out, searched): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, _)| {
            service.is_none() && called.iter().all(|called| file.overrides(called, key))
        });
        if searched.is_empty() {
            return Err(Problem::NothingToSearch);
        }
        let dimensions = searched
            .into_iter()
            .map(|(key, values)| Dimension::new(key, &values, file.written(key)))
            .collect();
        Ok(Self {
            file,
            dimensions,
            left_out: left_out.into_iter().map(|(key, _)| key).collect(),
        })
    }

    /// What the file says.
    pub(super) fn written(&self) -> Setting {
        self.dimensions.iter().map(|it| it.written).collect()
    }

    /// None of the searched keys.
    pub(super) fn bare(&self) -> Setting {
        vec![0; self.dimensions.len()]
    }

    /// All settings that differ from this one in one key.
    pub(super) fn neighbours(&self, of: &Setting) -> Vec<Setting> {
        let mut all = Vec::new();
        for (place, dimension) in self.dimensions.iter().enumerate() {
            for other in (0..dimension.values.len()).filter(|other| *other != of[place]) {
                let mut changed = of.clone();
                changed[place] = other;
                all.push(changed);
            }
        }
        all
    }

    /// A setting at random: about a third of the keys are written, because most of a policy is best left as it is.
    pub(super) fn draw(&self, chance: &mut Stream) -> Setting {
        let below = |chance: &mut Stream, bound: usize| {
            usize::try_from(chance.below(bound as u64)).expect("it is below a number of values")
        };
        self.dimensions
            .iter()
            .map(|dimension| match below(chance, 3) {
                0 => below(chance, dimension.values.len()),
                _ => 0,
            })
            .collect()
    }

    /// The policy file with a setting.
    pub(super) fn text(&self, setting: &Setting) -> String {
        let keys: Vec<(&str, Option<&Node>)> = self
            .dimensions
            .iter()
            .zip(setting)
            .map(|(dimension, place)| (dimension.key, dimension.values[*place].as_ref()))
            .collect();
        self.file.with(&keys)
    }

    /// The keys in which two settings differ, with the value of each as it is written; `None` where it is not.
    pub(super) fn differences(&self, one: &Setting, other: &Setting) -> Vec<Change> {
        let shown = |dimension: &Dimension, place: usize| dimension.values[place].as_ref().map(line);
        self.dimensions
            .iter()
            .enumerate()
            .filter(|(place, _)| one[*place] != other[*place])
            .map(|(place, dimension)| Change {
                key: dimension.key,
                before: shown(dimension, one[place]),
                after: shown(dimension, other[place]),
            })
            .collect()
    }
}

/// A key that the search changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: &'static str,
    /// Its value before; `None` where it was not written.
    pub before: Option<String>,
    /// Its value now; `None` where it is not written any more.
    pub after: Option<String>,
}

impl Dimension {
    fn new(key: &'static str, values: &[String], written: Option<&Node>) -> Self {
        let mut all: Vec<Option<Node>> = vec![None];
        all.extend(values.iter().map(|text| Some(value(text))));
        let place = match written {
            None => 0,
            Some(written) => all
                .iter()
                .position(|known| known.as_ref().is_some_and(|known| line(known) == line(written)))
                .unwrap_or_else(|| {
                    all.push(Some(written.clone()));
                    all.len() - 1
                }),
        };
        Self {
            key,
            values: all,
            written: place,
        }
    }
}

/// Timeouts of an attempt as shares of the time that callers have.
fn timeouts(world: &World) -> Vec<String> {
    /// A policy's own deadline by default.
    const USUAL: Duration = Duration::from_secs(10);
    let shortest = world.clients.iter().filter_map(|client| client.deadline).min();
    let whole = shortest.unwrap_or(USUAL).min(USUAL);
    let mut all = vec!["off".to_owned()];
    for share in [0.05, 0.1, 0.2, 0.35, 0.5] {
        let millis = (whole.as_secs_f64() * 1000.0 * share).max(1.0);
        // Two digits are enough, and easier to read.
        let unit = 10f64.powf(millis.log10().floor() - 1.0).max(1.0);
        let text = format!("{:.0}ms", (millis / unit).round() * unit);
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use retryguard_policy::Policy;
    use retryguard_sim::{
        scenario::Scenario,
        streams::{Purpose, Seed},
    };

    use super::*;

    fn world() -> World {
        let text = "duration: 20s\nservices: {store: {workers: 4, time: 100ms}}\n\
                    clients: {people: {calls: store, rate: 30, deadline: 2s}}\n";
        Scenario::parse(text, "small", &mut |_| Err("no files".to_owned()))
            .unwrap()
            .world
    }

    #[test]
    fn every_value_is_one_that_a_policy_may_have() {
        let space = Space::new(PolicyFile::new("", None).unwrap(), None, &world()).unwrap();
        for setting in space.neighbours(&space.bare()) {
            let text = space.text(&setting);
            assert!(Policy::parse(&text).is_ok(), "{text}");
        }
        let mut chance = Seed(1).stream(0, Purpose::World);
        for _ in 0..200 {
            let text = space.text(&space.draw(&mut chance));
            assert!(Policy::parse(&text).is_ok(), "{text}");
        }
        assert_eq!(
            timeouts(&world()),
            ["off", "100ms", "200ms", "400ms", "700ms", "1000ms"]
        );
    }

    #[test]
    fn what_the_file_says_is_a_setting_too() {
        let text = "defaults: {maxRetries: 7, hedge: off}\nservices: {store: {breaker: off}}";
        let space = Space::new(PolicyFile::new(text, None).unwrap(), None, &world()).unwrap();
        assert_eq!(
            space.left_out,
            ["breaker"],
            "the only called service says it itself"
        );
        let written = Policy::parse(&space.text(&space.written())).unwrap();
        assert_eq!(written.digest(), Policy::parse(text).unwrap().digest());
        let changes = space.differences(&space.written(), &space.bare());
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[0].before.as_deref(), Some("7"));
        assert_eq!(changes[0].after, None);
    }

    #[test]
    fn a_service_must_be_one_that_is_called() {
        let file = PolicyFile::new("services: {other: {}}", Some("other")).unwrap();
        let wrong = Space::new(file, Some("other"), &world()).unwrap_err().to_string();
        assert!(wrong.contains("`other`") && wrong.contains("store"), "{wrong}");
    }
}
