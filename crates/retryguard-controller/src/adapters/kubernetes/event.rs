//! Events: `kubectl describe` shows why an object has changed.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, api::PostParams};

use crate::adapters::kubernetes::within;
use crate::clock::unix_seconds;

/// The longest note that the API takes.
const LONGEST_NOTE: usize = 1024;

/// Reports events to the API server.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    instance: String,
}

/// How serious it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// For information.
    Normal,
    /// A person should look.
    Warning,
}

impl Reporter {
    /// `instance` is the name of this controller among its kind, such as the pod's.
    #[must_use]
    pub fn new(client: Client, instance: String) -> Self {
        Self { client, instance }
    }

    /// Publishes an event about an object. A change is not undone because its event failed, so a failure is only
    /// logged.
    pub async fn tell(&self, about: ObjectReference, kind: Kind, reason: &str, note: &str) {
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let name = about.name.clone().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some("retryguard-".to_owned()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: now().map(MicroTime),
            reporting_controller: Some("retryguard.io/controller".to_owned()),
            reporting_instance: Some(self.instance.clone()),
            action: Some("SwitchRetries".to_owned()),
            reason: Some(reason.to_owned()),
            note: Some(clip(note).to_owned()),
            type_: Some(
                match kind {
                    Kind::Normal => "Normal",
                    Kind::Warning => "Warning",
                }
                .to_owned(),
            ),
            regarding: Some(about),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Err(trouble) = within(events.create(&PostParams::default(), &event)).await {
            tracing::warn!(
                object = %format!("{namespace}/{name}"),
                reason = trouble.reason(),
                "an event could not be written"
            );
        }
    }
}

fn now() -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(unix_seconds()).ok()?).ok()
}

fn clip(note: &str) -> &str {
    &note[..note.floor_char_boundary(LONGEST_NOTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_clipped_between_characters() {
        assert_eq!(clip("short"), "short");
        let long = "x".repeat(LONGEST_NOTE - 1) + "€";
        assert_eq!(clip(&long).len(), LONGEST_NOTE - 1);
        assert_eq!(clip(&"x".repeat(LONGEST_NOTE)).len(), LONGEST_NOTE);
    }
}
