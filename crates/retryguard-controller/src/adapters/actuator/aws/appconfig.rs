//! A JSON document that AppConfig hosts and callers poll.
//!
//! Versions of a hosted document never change, so the user's own one is given back by deploying that very version
//! again, to the byte. Ours is made from it with one number changed, and its deployment bears the record of that in its
//! description: what is deployed says by itself whose it is. Versions of ours that are not deployed any more are removed.

use std::time::Duration;

use aws_sdk_appconfig::Client;
use aws_sdk_appconfig::primitives::Blob;
use aws_sdk_appconfig::types::{DeploymentState, DeploymentSummary};
use serde_json::Value;

use crate::adapters::actuator::aws::ids::Ids;
use crate::adapters::actuator::aws::place::{Settled, State};
use crate::adapters::actuator::aws::record::{Record, attempts};
use crate::adapters::actuator::stored_state::StoredState;
use crate::adapters::aws::{RequestError, with_retries};
use crate::clock::sleep;
use crate::config::actuator::aws::AppConfig;
use crate::domain::state::{Change, Loss};

/// What the description of a deployment of ours begins with.
const MARK: &str = "retryguard ";

/// The longest description of a deployment.
const LONGEST: usize = 1024;

/// How often a deployment is looked at, and how long is waited between.
const LOOKS: u32 = 8;
const BETWEEN: Duration = Duration::from_millis(250);

/// A server that always has another page must not hold us for ever.
const MOST_PAGES: usize = 20;

/// What is deployed.
struct Deployed {
    version: i32,
    /// The number of its deployment, where that is the newest of the whole environment: AppConfig then refuses ours if
    /// another deployment has come in between. It does not say whether it compares with those of other profiles.
    lock: Option<i32>,
    content: Vec<u8>,
    content_type: String,
    record: Option<Record>,
}

pub(super) async fn read(client: &Client, place: &AppConfig) -> Result<State, RequestError> {
    let deployed = with_retries(|| async {
        let ids = Ids::resolve(client, place).await?;
        look(client, &ids).await
    })
    .await?;
    Ok(match deployed.and_then(|deployed| deployed.record) {
        Some(record) => State::Ours {
            target: record.target,
            desired: record.desired.desired(),
        },
        None => State::Free,
    })
}

pub(super) async fn settle(
    client: &Client,
    place: &AppConfig,
    change: &Change,
) -> Result<Settled, RequestError> {
    with_retries(|| try_settle(client, place, change)).await
}

async fn try_settle(client: &Client, place: &AppConfig, change: &Change) -> Result<Settled, RequestError> {
    let ids = Ids::resolve(client, place).await?;
    let desired = StoredState::new(change.desired);
    let Some(deployed) = look(client, &ids).await? else {
        return desired.map_or(Ok(Settled::default()), |_| {
            Err(RequestError::Refused(
                "nothing is deployed there yet, so there would be nothing to go back to: deploy a first version"
                    .to_owned(),
            ))
        });
    };
    let record = deployed.record.as_ref();
    if let Some(record) = record.filter(|record| record.term > change.term) {
        return Err(RequestError::Taken(format!(
            "it was set in term {} of leader election, and this is term {}",
            record.term, change.term
        )));
    }
    match (record, desired) {
        (None, None) => Ok(Settled::default()),
        (Some(record), None) => {
            let original = number(record.original.as_deref())?;
            deploy(
                client,
                &ids,
                original,
                deployed.lock,
                "retryguard: the user's own version",
            )
            .await?;
            let settled = rolled_out(client, &ids, Settled::default()).await?;
            remove(client, &ids, deployed.version).await;
            Ok(settled)
        }
        (Some(record), Some(desired))
            if record.desired == desired && record.target == change.target.as_str() =>
        {
            Ok(Settled::default())
        }
        (record, Some(desired)) => {
            let (base, original) = match record {
                None => (None, deployed.version),
                Some(record) => {
                    let original = number(record.original.as_deref())?;
                    (Some(version(client, &ids, original).await?), original)
                }
            };
            let user = base.as_ref().unwrap_or(&deployed);
            let (content, ours) = changed(user, &place.pointer, place.attempts, desired)?;
            let target = change.target.as_str();
            let next = Record::new(target, desired, change.term, Some(original.to_string()), ours);
            let description = described(&next)?;
            let made = create(client, &ids, user, content).await?;
            if let Err(trouble) = deploy(client, &ids, made, deployed.lock, &description).await {
                remove(client, &ids, made).await;
                return Err(trouble);
            }
            let losses = vec![Loss(format!(
                "{}: callers follow when they poll next, and by the deployment strategy",
                place.profile
            ))];
            let settled = Settled {
                changed: true,
                losses,
                ..Settled::default()
            };
            let settled = rolled_out(client, &ids, settled).await?;
            if record.is_some() {
                remove(client, &ids, deployed.version).await;
            }
            Ok(settled)
        }
    }
}

/// The newest deployment of the profile that was not taken back.
async fn look(client: &Client, ids: &Ids) -> Result<Option<Deployed>, RequestError> {
    let Some((newest, newest_of_all)) = newest(client, ids).await? else {
        return Ok(None);
    };
    let deployment = client
        .get_deployment()
        .application_id(&ids.application)
        .environment_id(&ids.environment)
        .deployment_number(newest)
        .send()
        .await
        .map_err(RequestError::from_sdk)?;
    let record = deployment
        .description()
        .and_then(|text| text.strip_prefix(MARK))
        .map(Record::read)
        .transpose()
        .map_err(|reason| RequestError::Refused(format!("deployment {newest}: {reason}")))?;
    let deployed = version(client, ids, number(deployment.configuration_version())?).await?;
    Ok(Some(Deployed {
        lock: (newest == newest_of_all).then_some(newest),
        record,
        ..deployed
    }))
}

/// The numbers of the newest deployment of the profile that was not taken back, and of the newest one of all.
async fn newest(client: &Client, ids: &Ids) -> Result<Option<(i32, i32)>, RequestError> {
    let (mut page, mut ours, mut all) = (None, None, None);
    for _ in 0..MOST_PAGES {
        let answer = client
            .list_deployments()
            .application_id(&ids.application)
            .environment_id(&ids.environment)
            .set_next_token(page)
            .send()
            .await
            .map_err(RequestError::from_sdk)?;
        let items = answer.items();
        let number = DeploymentSummary::deployment_number;
        all = all.max(items.iter().map(number).max());
        ours = ours.max(
            items
                .iter()
                .filter(|one| stands(one) && ids.is_of(one))
                .map(number)
                .max(),
        );
        // Amazon's list begins with the newest, where older pages need not be read; those of other implementations need not.
        let falls = items.first().map(number) > items.last().map(number);
        page = answer.next_token().map(str::to_owned);
        if page.is_none() || (falls && ours.is_some()) {
            return Ok(ours.zip(all));
        }
    }
    // Hundreds of deployments of other profiles are newer.
    Err(RequestError::Refused(format!(
        "its last deployment is not among the {MOST_PAGES} newest pages of the environment"
    )))
}

fn stands(deployment: &DeploymentSummary) -> bool {
    matches!(
        deployment.state(),
        Some(
            DeploymentState::Complete
                | DeploymentState::Deploying
                | DeploymentState::Baking
                | DeploymentState::Validating
        )
    )
}

async fn version(client: &Client, ids: &Ids, number: i32) -> Result<Deployed, RequestError> {
    let answer = client
        .get_hosted_configuration_version()
        .application_id(&ids.application)
        .configuration_profile_id(&ids.profile)
        .version_number(number)
        .send()
        .await
        .map_err(RequestError::from_secret)?;
    Ok(Deployed {
        version: number,
        lock: None,
        content: answer
            .content()
            .map(|blob| blob.as_ref().to_vec())
            .unwrap_or_default(),
        content_type: answer.content_type().unwrap_or("application/json").to_owned(),
        record: None,
    })
}

/// The description of a deployment of ours.
fn described(record: &Record) -> Result<String, RequestError> {
    let description = format!("{MARK}{}", record.write());
    if description.len() > LONGEST {
        return Err(RequestError::Refused(format!(
            "the target's name is too long for the description of a deployment ({} of {LONGEST} bytes)",
            description.len()
        )));
    }
    Ok(description)
}

async fn create(client: &Client, ids: &Ids, user: &Deployed, content: Vec<u8>) -> Result<i32, RequestError> {
    let answer = client
        .create_hosted_configuration_version()
        .application_id(&ids.application)
        .configuration_profile_id(&ids.profile)
        .content(Blob::new(content))
        .content_type(&user.content_type)
        .send()
        .await
        // The document is the user's, and an error of its validation may quote it.
        .map_err(RequestError::from_secret)?;
    Ok(answer.version_number())
}

async fn deploy(
    client: &Client,
    ids: &Ids,
    version: i32,
    lock: Option<i32>,
    description: &str,
) -> Result<(), RequestError> {
    client
        .start_deployment()
        .application_id(&ids.application)
        .environment_id(&ids.environment)
        .configuration_profile_id(&ids.profile)
        .deployment_strategy_id(&ids.strategy)
        .configuration_version(version.to_string())
        .set_latest_deployment_number(lock)
        .description(description)
        .send()
        .await
        .map(|_| ())
        .map_err(RequestError::from_sdk)
}

/// Waits until the newest deployment is complete, and says so when it is not.
async fn rolled_out(client: &Client, ids: &Ids, mut settled: Settled) -> Result<Settled, RequestError> {
    settled.changed = true;
    for _ in 0..LOOKS {
        let answer = client
            .list_deployments()
            .application_id(&ids.application)
            .environment_id(&ids.environment)
            .send()
            .await
            .map_err(RequestError::from_sdk);
        let newest = answer
            .as_ref()
            .map(|answer| answer.items().iter().find(|one| ids.is_of(one)));
        match newest.map(|newest| newest.and_then(|one| one.state().cloned())) {
            Ok(Some(DeploymentState::Complete) | None) => return Ok(settled),
            Ok(Some(DeploymentState::RolledBack | DeploymentState::RollingBack)) => {
                return Err(RequestError::Refused("the deployment was rolled back".to_owned()));
            }
            Ok(Some(_)) | Err(RequestError::Later(_)) => sleep(BETWEEN).await,
            Err(_) => break,
        }
    }
    settled.losses.push(Loss(
        "the deployment is still under way: until it is complete, AppConfig takes no other; use a strategy without bake time"
            .to_owned(),
    ));
    Ok(settled)
}

/// A version of ours that is no longer needed. One that stays does no harm.
async fn remove(client: &Client, ids: &Ids, version: i32) {
    let answer = client
        .delete_hosted_configuration_version()
        .application_id(&ids.application)
        .configuration_profile_id(&ids.profile)
        .version_number(version)
        .send()
        .await;
    if let Err(error) = answer {
        let trouble = RequestError::from_sdk(error);
        tracing::warn!(target: "retryguard::controller", version, ?trouble, "a version of ours stays");
    }
}

fn number(version: Option<&str>) -> Result<i32, RequestError> {
    version.and_then(|text| text.parse().ok()).ok_or_else(|| {
        RequestError::Refused("its configuration is not hosted by AppConfig itself".to_owned())
    })
}

/// The user's document with the number of attempts that carries a desired state out, and that number.
fn changed(
    user: &Deployed,
    pointer: &str,
    usual: u32,
    desired: StoredState,
) -> Result<(Vec<u8>, String), RequestError> {
    let refuse = |reason: &str| RequestError::Refused(reason.to_owned());
    let mut document: Value =
        serde_json::from_slice(&user.content).map_err(|_| refuse("its document is not JSON"))?;
    let original = document.pointer(pointer).map(|value| match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    });
    let ours = attempts(original.as_deref(), usual, desired);
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let key = key.replace("~1", "/").replace("~0", "~");
    let parent = document
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .ok_or_else(|| refuse("its document has no object where `pointer` leads"))?;
    // A text stays a text: its readers expect one.
    let written = match parent.get(&key) {
        Some(Value::String(_)) => Value::String(ours.to_string()),
        _ => Value::from(ours),
    };
    parent.insert(key, written);
    Ok((document.to_string().into_bytes(), ours.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(content: &str, pointer: &str) -> Result<String, RequestError> {
        let user = Deployed {
            version: 1,
            lock: None,
            content: content.as_bytes().to_vec(),
            content_type: "application/json".to_owned(),
            record: None,
        };
        changed(&user, pointer, 3, StoredState::Off).map(|(content, _)| String::from_utf8(content).unwrap())
    }

    #[test]
    fn one_number_changes_and_nothing_else() {
        let document =
            r#"{"flags":{"retries":{"name":"r"}},"values":{"retries":{"enabled":true,"maxAttempts":5}}}"#;
        assert_eq!(
            off(document, "/values/retries/maxAttempts").unwrap(),
            document.replace('5', "1")
        );
        assert_eq!(off("{}", "/maxAttempts").unwrap(), r#"{"maxAttempts":1}"#);
        assert_eq!(off(r#"{"a/b":"5"}"#, "/a~1b").unwrap(), r#"{"a/b":"1"}"#);
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for (content, pointer) in [
            ("attempts: 5", "/maxAttempts"),
            ("[]", "/maxAttempts"),
            ("{}", "/a/b"),
        ] {
            assert!(
                matches!(off(content, pointer), Err(RequestError::Refused(_))),
                "{content}"
            );
        }
    }
}
