//! The few fields of a route that we read. Everything else in it belongs to the user and is never written.

use serde_json::Value;

use crate::adapters::actuator::routes::block::Block;
use crate::adapters::actuator::routes::dialect::Dialect;
use crate::adapters::actuator::routes::host::Host;

/// One entry of the list of routes, of any shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    fields: &'a Value,
    dialect: Dialect,
}

/// The routes of an object; none where its list is not a list.
pub(super) fn routes(spec: &Value, dialect: Dialect) -> Vec<Route<'_>> {
    match spec.get(dialect.list()) {
        Some(Value::Array(entries)) => entries.iter().map(|fields| Route { fields, dialect }).collect(),
        _ => Vec::new(),
    }
}

impl<'a> Route<'a> {
    /// The user's name for it; an empty one is none.
    pub(super) fn name(self) -> Option<&'a str> {
        self.fields.get("name")?.as_str().filter(|name| !name.is_empty())
    }

    /// What stands as its retries.
    pub(super) fn retries(self) -> Option<&'a Value> {
        self.fields.get(self.dialect.retries())
    }

    /// As [`Route::retries`], to keep.
    pub(super) fn block(self) -> Block {
        self.retries().cloned()
    }

    /// Where it sends to. What only mirrors, redirects or delegates sends nothing by itself.
    pub(super) fn destinations(self) -> Option<&'a Value> {
        self.fields.get(self.dialect.destinations())
    }

    /// The hosts of those destinations, read in `namespace`.
    pub(super) fn hosts(self, namespace: &str, domain: &str) -> Vec<Host> {
        let Some(Value::Array(entries)) = self.destinations() else {
            return Vec::new();
        };
        let mut hosts: Vec<Host> = entries
            .iter()
            .filter_map(|entry| self.dialect.host(entry, namespace, domain))
            .collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// A number that stays the same while the user changes neither what the route matches nor what it does,
    /// its name and its retries apart. Tells routes without names apart when they are moved.
    pub(super) fn print(self) -> String {
        let mut rest = self.fields.clone();
        if let Value::Object(fields) = &mut rest {
            fields.remove(self.dialect.retries());
            fields.remove("name");
        }
        format!("{:016x}", fnv(rest.to_string().as_bytes()))
    }

    /// How logs and events call it.
    pub(super) fn title(self, index: usize) -> String {
        match self.name() {
            Some(name) => format!("route `{name}`"),
            None => format!("route {index}"),
        }
    }
}

/// FNV-1a. The print is written into the cluster and read by later versions, so the hash must never change;
/// the standard library's may.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hosts_are_found_in_weighted_routes_and_only_there() {
        let spec = json!({"http": [
            {"route": [{"destination": {"host": "reviews"}, "weight": 90}, {"destination": {"host": "other.test"}}]},
            {"redirect": {"uri": "/"}, "mirror": {"host": "reviews"}},
            "nonsense",
            {"route": "nonsense"},
            {"route": [{"destination": {"host": 3}}, null]},
        ]});
        let hosts: Vec<usize> = routes(&spec, Dialect::VirtualService)
            .iter()
            .map(|route| route.hosts("prod", "cluster.local").len())
            .collect();
        assert_eq!(hosts, [2, 0, 0, 0, 0]);
    }

    #[test]
    fn the_print_ignores_name_and_retries_and_nothing_else() {
        let print = |fields: Value| {
            let dialect = Dialect::VirtualService;
            Route {
                fields: &fields,
                dialect,
            }
            .print()
        };
        let plain = print(json!({"route": [{"destination": {"host": "a"}}]}));
        let named = print(
            json!({"name": "n", "retries": {"attempts": 3}, "route": [{"destination": {"host": "a"}}]}),
        );
        assert_eq!(plain, named);
        assert_ne!(plain, print(json!({"route": [{"destination": {"host": "b"}}]})));
        // Written into clusters: must never change.
        assert_eq!(plain, "908d43fb05bfc687");
    }
}
