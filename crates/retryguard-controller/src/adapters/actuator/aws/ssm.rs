//! A parameter of the Systems Manager that callers read.
//!
//! What to give back is kept in a second parameter, under `/retryguard/held/<owner>`, where a controller with another
//! configuration finds it too. The two cannot be written at once: the record comes first and goes last, and says what
//! stood there before, so that the next controller can tell after a kill between the two.

use std::collections::BTreeMap;

use aws_sdk_ssm::Client;
use aws_sdk_ssm::types::ParameterType;

use crate::adapters::actuator::aws::place::{Settled, State, Step, step};
use crate::adapters::actuator::aws::record::{Before, Record, attempts};
use crate::adapters::aws::{RequestError, with_retries};
use crate::domain::state::{Change, Loss};

/// Where records are kept.
const HELD: &str = "/retryguard/held";

/// A server that always has another page must not hold us for ever.
const MOST_PAGES: usize = 100;

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) attempts: u32,
    pub(super) owner: String,
}

impl Parameter {
    pub(super) async fn read(&self, client: &Client) -> Result<State, RequestError> {
        let (record, value) = with_retries(|| self.look(client)).await?;
        Ok(State::of(record, value.as_deref()))
    }

    pub(super) async fn settle(&self, client: &Client, change: &Change) -> Result<Settled, RequestError> {
        with_retries(|| self.try_settle(client, change)).await
    }

    async fn try_settle(&self, client: &Client, change: &Change) -> Result<Settled, RequestError> {
        let (record, value) = self.look(client).await?;
        let number = |original: Option<&str>, desired| attempts(original, self.attempts, desired).to_string();
        match step(record.as_ref(), value.as_deref(), change, number)? {
            Step::Nothing => return Ok(Settled::default()),
            Step::Yielded(reason) => return Ok(Settled::yielded(&self.name, &reason)),
            Step::Forget => delete(client, &self.record_name()).await?,
            Step::Restore(original) => {
                match original {
                    Some(original) if Some(&original) == value.as_ref() => {}
                    Some(original) => put(client, &self.name, &original).await?,
                    None => delete(client, &self.name).await?,
                }
                delete(client, &self.record_name()).await?;
            }
            Step::Write(mut next) => {
                let ours = record.filter(|record| value.as_deref() == Some(&record.ours));
                next.before = Some(Before {
                    value,
                    desired: ours.map(|record| record.desired),
                });
                put(client, &self.record_name(), &next.write()).await?;
                put(client, &self.name, &next.ours).await?;
                return Ok(Settled {
                    changed: true,
                    losses: vec![Loss(format!(
                        "{}: callers follow when they next read the parameter",
                        self.name
                    ))],
                    ..Settled::default()
                });
            }
        }
        Ok(Settled {
            changed: true,
            ..Settled::default()
        })
    }

    async fn look(&self, client: &Client) -> Result<(Option<Record>, Option<String>), RequestError> {
        let value = get(client, &self.name).await?;
        let record = get(client, &self.record_name()).await?;
        let record = record
            .map(|text| Record::read(&text))
            .transpose()
            .map_err(|reason| RequestError::Refused(format!("{}: {reason}", self.record_name())))?;
        Ok((record, value))
    }

    fn record_name(&self) -> String {
        format!("{HELD}/{}/{}", self.owner, self.name.trim_start_matches('/'))
    }
}

/// The parameters that are held under this owner's name, also those of a former configuration, by target.
pub(super) async fn held(
    client: &Client,
    owner: &str,
) -> Result<BTreeMap<String, Vec<Parameter>>, RequestError> {
    let folder = format!("{HELD}/{owner}");
    let mut all: BTreeMap<String, Vec<Parameter>> = BTreeMap::new();
    let mut page = None;
    for _ in 0..MOST_PAGES {
        let answer = with_retries(|| {
            let request = client
                .get_parameters_by_path()
                .path(&folder)
                .recursive(true)
                .set_next_token(page.clone());
            async move { request.send().await.map_err(RequestError::from_sdk) }
        })
        .await?;
        for parameter in answer.parameters() {
            let name = parameter.name().and_then(|name| name.strip_prefix(&folder));
            let (Some(name), Some(text)) = (name, parameter.value()) else {
                continue;
            };
            match Record::read(text) {
                Ok(record) => all.entry(record.target).or_default().push(Parameter {
                    name: name.to_owned(),
                    // Only to be given back: nothing is computed from it.
                    attempts: 1,
                    owner: owner.to_owned(),
                }),
                Err(reason) => {
                    tracing::warn!(target: "retryguard::controller", parameter = name, reason, "not ours to read");
                }
            }
        }
        page = answer.next_token().map(str::to_owned);
        if page.is_none() {
            return Ok(all);
        }
    }
    Err(RequestError::Refused(format!(
        "more than {MOST_PAGES} pages of {folder}"
    )))
}

async fn get(client: &Client, name: &str) -> Result<Option<String>, RequestError> {
    let answer = client.get_parameter().name(name).send().await;
    let parameter = match answer.map_err(RequestError::from_sdk) {
        Ok(answer) => answer.parameter,
        Err(RequestError::Missing(_)) => None,
        Err(trouble) => return Err(trouble),
    };
    let Some(parameter) = parameter else {
        return Ok(None);
    };
    // To write it back we would have to read it in the clear, and a number of attempts is not a secret.
    if parameter.r#type() != Some(&ParameterType::String) {
        return Err(RequestError::Refused(format!("{name} is not of the type String")));
    }
    Ok(parameter.value)
}

async fn put(client: &Client, name: &str, value: &str) -> Result<(), RequestError> {
    client
        .put_parameter()
        .name(name)
        .value(value)
        .r#type(ParameterType::String)
        .overwrite(true)
        .send()
        .await
        .map(|_| ())
        .map_err(RequestError::from_sdk)
}

async fn delete(client: &Client, name: &str) -> Result<(), RequestError> {
    match client
        .delete_parameter()
        .name(name)
        .send()
        .await
        .map_err(RequestError::from_sdk)
    {
        Ok(_) | Err(RequestError::Missing(_)) => Ok(()),
        Err(trouble) => Err(trouble),
    }
}
