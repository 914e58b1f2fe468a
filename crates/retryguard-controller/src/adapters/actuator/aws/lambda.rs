//! The environment of a Lambda function.
//!
//! The variable and our record of it are written in one call, under the revision that was read: either both are
//! there or none, and a change from elsewhere in between is a clean refusal. All other variables are sent back as
//! they came, for the call replaces the whole environment. They are secrets: none is ever shown, nor any sentence of
//! the service that may quote them.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::types::{Environment, LastUpdateStatus};

use crate::adapters::actuator::aws::place::{Settled, State, Step, step};
use crate::adapters::actuator::aws::record::{Record, attempts};
use crate::adapters::aws::{RequestError, with_retries};
use crate::clock::sleep;
use crate::domain::state::{Change, Loss};

/// The variable beside the user's in which we keep what to give back.
pub const HELD: &str = "RETRYGUARD_HELD";

/// The most bytes of all variables together.
pub const MOST_BYTES: usize = 4096;

/// How often a function that takes on its new configuration is looked at, and how long is waited between.
const LOOKS: u32 = 8;
const BETWEEN: Duration = Duration::from_millis(250);

/// One function whose retries are switched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) variable: String,
    pub(super) attempts: u32,
}

/// What was read of a function.
struct FunctionConfiguration {
    variables: HashMap<String, String>,
    revision: Option<String>,
    record: Option<Record>,
    /// An update is under way, and Lambda takes no other meanwhile.
    updating: bool,
}

impl Function {
    pub(super) async fn read(&self, client: &Client) -> Result<State, RequestError> {
        let seen = with_retries(|| self.look(client)).await?;
        let value = seen.variables.get(&self.variable).map(String::as_str);
        Ok(State::of(seen.record, value))
    }

    pub(super) async fn settle(&self, client: &Client, change: &Change) -> Result<Settled, RequestError> {
        let settled = with_retries(|| self.try_settle(client, change)).await?;
        if settled.changed {
            return self.rolled_out(client, settled).await;
        }
        Ok(settled)
    }

    async fn try_settle(&self, client: &Client, change: &Change) -> Result<Settled, RequestError> {
        let seen = self.look(client).await?;
        let value = seen.variables.get(&self.variable).map(String::as_str);
        let number = |original: Option<&str>, desired| attempts(original, self.attempts, desired).to_string();
        let mut variables = seen.variables.clone();
        let settled = match step(seen.record.as_ref(), value, change, number)? {
            Step::Nothing => return Ok(Settled::default()),
            Step::Yielded(reason) => return Ok(Settled::yielded(&self.name, &reason)),
            Step::Forget => {
                variables.remove(HELD);
                Settled::default()
            }
            Step::Restore(original) => {
                variables.remove(HELD);
                match original {
                    Some(original) => variables.insert(self.variable.clone(), original),
                    None => variables.remove(&self.variable),
                };
                Settled::default()
            }
            Step::Write(record) => {
                variables.insert(self.variable.clone(), record.ours.clone());
                variables.insert(HELD.to_owned(), record.write());
                self.fits(&variables)?;
                Settled {
                    losses: self.losses(),
                    ..Settled::default()
                }
            }
        };
        if seen.updating {
            return Err(RequestError::Later(
                "an update of its configuration is under way".to_owned(),
            ));
        }
        let environment = Environment::builder().set_variables(Some(variables)).build();
        client
            .update_function_configuration()
            .function_name(&self.name)
            .environment(environment)
            .set_revision_id(seen.revision)
            .send()
            .await
            .map_err(RequestError::from_secret)?;
        Ok(Settled {
            changed: true,
            ..settled
        })
    }

    async fn look(&self, client: &Client) -> Result<FunctionConfiguration, RequestError> {
        let answer = client
            .get_function_configuration()
            .function_name(&self.name)
            .send()
            .await
            .map_err(RequestError::from_sdk)?;
        let environment = answer.environment();
        // What cannot be read cannot be sent back: to write now would lose the user's variables.
        if let Some(error) = environment.and_then(|environment| environment.error()) {
            return Err(RequestError::Refused(format!(
                "its environment cannot be read ({}): allow us to decrypt it",
                error.error_code().unwrap_or("no reason given")
            )));
        }
        let variables = environment
            .and_then(|environment| environment.variables())
            .cloned()
            .unwrap_or_default();
        let record = variables
            .get(HELD)
            .map(|text| Record::read(text))
            .transpose()
            .map_err(|reason| RequestError::Refused(format!("{HELD}: {reason}")))?;
        Ok(FunctionConfiguration {
            record,
            variables,
            revision: answer.revision_id().map(str::to_owned),
            updating: answer.last_update_status() == Some(&LastUpdateStatus::InProgress),
        })
    }

    /// Waits until the function has taken its new configuration on.
    async fn rolled_out(&self, client: &Client, mut settled: Settled) -> Result<Settled, RequestError> {
        for _ in 0..LOOKS {
            let answer = client
                .get_function_configuration()
                .function_name(&self.name)
                .send()
                .await
                .map_err(RequestError::from_sdk);
            match answer.as_ref().map(|answer| answer.last_update_status()) {
                Ok(Some(LastUpdateStatus::Failed)) => {
                    let code = answer.as_ref().ok().and_then(|answer| {
                        answer
                            .last_update_status_reason_code()
                            .map(|code| code.as_str().to_owned())
                    });
                    return Err(RequestError::Refused(format!(
                        "its new configuration was not taken on: {}",
                        code.as_deref().unwrap_or("no reason given")
                    )));
                }
                // The change is made; to ask too often is no reason to make it again.
                Ok(Some(LastUpdateStatus::InProgress)) | Err(RequestError::Later(_)) => sleep(BETWEEN).await,
                Ok(_) => return Ok(settled),
                Err(_) => break,
            }
        }
        settled.losses.push(Loss(format!(
            "{} is still taking on its new configuration",
            self.name
        )));
        Ok(settled)
    }

    fn fits(&self, variables: &HashMap<String, String>) -> Result<(), RequestError> {
        let bytes: usize = variables
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if bytes > MOST_BYTES {
            return Err(RequestError::Refused(format!(
                "its variables with our {HELD} would have {bytes} bytes, and Lambda allows {MOST_BYTES}: shorten them by {}",
                bytes - MOST_BYTES
            )));
        }
        Ok(())
    }

    fn losses(&self) -> Vec<Loss> {
        vec![
            Loss(format!(
                "{}: a new environment starts new instances (cold starts); calls under way end with the old number of attempts",
                self.name
            )),
            Loss(format!(
                "{}: published versions and aliases keep the environment that they were published with",
                self.name
            )),
        ]
    }
}
