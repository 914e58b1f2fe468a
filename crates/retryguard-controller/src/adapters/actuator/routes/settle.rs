//! Bringing one object to what is wanted of it.

use serde_json::{Value, json};

use crate::adapters::actuator::routes::created::{LABEL, OWNER, is_as_made};
use crate::adapters::actuator::routes::host::Host;
use crate::adapters::actuator::routes::object::RouteObject;
use crate::adapters::actuator::routes::plan::{DesiredTarget, Plan, View, plan};
use crate::adapters::actuator::routes::record::Record;
use crate::adapters::actuator::routes::{RetryState, Routes};
use crate::adapters::kubernetes::event::Kind;
use crate::adapters::kubernetes::{RequestError, with_retries};
use crate::domain::state::{Change, Loss};
use crate::reconcile::actuator::ActuatorError;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// How many routes carry the desired state out.
    pub(super) matched: usize,
    pub(super) losses: Vec<Loss>,
}

impl Routes {
    /// Plans and patches until the object is as wanted. It is read anew after each conflict; one that is gone
    /// is as wanted.
    pub(super) async fn settle(
        &self,
        listed: &RouteObject,
        host: Option<&Host>,
        change: &Change,
    ) -> Result<Settled, ActuatorError> {
        let wanted = DesiredTarget {
            target: change.target.as_str(),
            host,
            desired: change.desired,
            domain: &self.scope.domain,
            default_attempts: self.scope.default_attempts,
        };
        let mut fresh = false;
        let answer = with_retries(|| {
            let again = std::mem::replace(&mut fresh, true);
            async move {
                let object = if again {
                    self.objects.get(listed).await?
                } else {
                    listed.clone()
                };
                self.bring(&object, &wanted, change).await
            }
        })
        .await;
        match answer {
            Ok(settled) => Ok(settled),
            Err(RequestError::Missing(_)) => Ok(Settled::default()),
            Err(trouble) => Err(trouble.into_error(&listed.title())),
        }
    }

    async fn bring(
        &self,
        object: &RouteObject,
        wanted: &DesiredTarget<'_>,
        change: &Change,
    ) -> Result<Settled, RequestError> {
        let remembered = self.remembered(object);
        let view = view(object, remembered.as_ref());
        let mut plan = plan(&view, wanted).map_err(RequestError::Refused)?;
        let over = plan.created && plan.record.is_none();
        if over && plan.yielded.is_empty() && is_as_made(&view) {
            self.objects.delete(object).await?;
            self.remember(object, None);
            self.tell(object, "VirtualServiceRemoved", &change.why).await;
            return Ok(Settled::default());
        }
        if over {
            // The user has taken it over: it stays, and nothing says any more that it is ours.
            plan.operations.extend(unlabel(object));
        }
        let changes = !plan.operations.is_empty();
        if changes {
            let version = self
                .objects
                .patch(object, std::mem::take(&mut plan.operations))
                .await?;
            self.wrote(object.uid(), &version);
        }
        self.remember(object, plan.record.take());
        self.tell_of(object, &plan, changes, change).await;
        Ok(Settled {
            matched: plan.matched,
            losses: plan
                .losses
                .into_iter()
                .map(|Loss(text)| Loss(format!("{}: {text}", object.title())))
                .collect(),
        })
    }

    /// Removes an object of ours that is no longer needed, or lets go of it when the user has changed it.
    pub(super) async fn withdraw(&self, listed: &RouteObject) -> Result<(), ActuatorError> {
        let answer = with_retries(|| async {
            let object = self.objects.get(listed).await?;
            let record = Record::read(object.annotations()).map_err(RequestError::Refused)?;
            let mine = record.is_some_and(|record| record.created);
            if mine && is_as_made(&view(&object, None)) {
                self.objects.delete(&object).await?;
                self.tell(
                    &object,
                    "VirtualServiceRemoved",
                    "there is another one for this host now",
                )
                .await;
            }
            Ok(())
        })
        .await;
        match answer {
            Ok(()) | Err(RequestError::Missing(_)) => Ok(()),
            Err(trouble) => Err(trouble.into_error(&listed.title())),
        }
    }

    async fn tell_of(&self, object: &RouteObject, plan: &Plan, changes: bool, change: &Change) {
        if !plan.yielded.is_empty() {
            let note = format!(
                "the retries of {} were changed outside this controller while they were held: they are left alone until {} is back to \
                 normal, and then count as the user's own",
                plan.yielded.join(", "),
                change.target
            );
            self.reporter
                .tell(object.reference(), Kind::Warning, "RetriesLeftAlone", &note)
                .await;
        }
        if changes {
            let reason = match change.desired {
                RetryState::Original => "RetriesRestored",
                RetryState::Off => "RetriesOff",
                RetryState::Part { .. } => "RetriesRamping",
            };
            self.tell(object, reason, &change.why).await;
        }
    }

    async fn tell(&self, object: &RouteObject, reason: &str, note: &str) {
        self.reporter
            .tell(object.reference(), Kind::Normal, reason, note)
            .await;
    }
}

pub(super) fn view<'a>(object: &'a RouteObject, remembered: Option<&'a Record>) -> View<'a> {
    View {
        dialect: object.dialect(),
        namespace: object.namespace(),
        resource_version: object.resource_version(),
        annotations: object.annotations(),
        spec: object.spec(),
        remembered,
    }
}

fn unlabel(object: &RouteObject) -> Option<Value> {
    (object.label(LABEL) == Some(OWNER)).then(|| {
        let path = format!("/metadata/labels/{}", LABEL.replace('/', "~1"));
        json!({"op": "remove", "path": path})
    })
}
