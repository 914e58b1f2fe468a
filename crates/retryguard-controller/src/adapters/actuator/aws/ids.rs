//! The ids by which AppConfig's objects are addressed: an operator may write their names.

use aws_sdk_appconfig::Client;
use aws_sdk_appconfig::types::DeploymentSummary;

use crate::adapters::aws::RequestError;
use crate::config::actuator::aws::AppConfig;

/// What one document is addressed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) application: String,
    pub(super) environment: String,
    pub(super) profile: String,
    profile_name: String,
    pub(super) strategy: String,
}

/// Every page of a list, and of each item its id and its name.
macro_rules! listed {
    ($request:expr) => {{
        let mut pages = $request.into_paginator().items().send();
        let mut all: Vec<(String, String)> = Vec::new();
        while let Some(item) = pages.next().await {
            let item = item.map_err(RequestError::from_sdk)?;
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            all.push((text(item.id()), text(item.name())));
        }
        all
    }};
}

impl Ids {
    pub(super) async fn resolve(client: &Client, place: &AppConfig) -> Result<Self, RequestError> {
        let applications = listed!(client.list_applications());
        let (application, _) = pick("application", &place.application, applications)?;
        let environments = listed!(client.list_environments().application_id(&application));
        let (environment, _) = pick("environment", &place.environment, environments)?;
        let profiles = listed!(client.list_configuration_profiles().application_id(&application));
        let (profile, profile_name) = pick("profile", &place.profile, profiles)?;
        let strategies = listed!(client.list_deployment_strategies());
        let (strategy, _) = pick("strategy", &place.strategy, strategies)?;
        Ok(Self {
            application,
            environment,
            profile,
            profile_name,
            strategy,
        })
    }

    /// Whether a deployment is one of this document. Its profile's id is newer than its name.
    pub(super) fn is_of(&self, deployment: &DeploymentSummary) -> bool {
        match deployment.configuration_profile_id() {
            Some(id) => id == self.profile,
            None => deployment.configuration_name() == Some(&self.profile_name),
        }
    }
}

/// By id before by name; a name that several have is none.
fn pick(what: &str, wanted: &str, all: Vec<(String, String)>) -> Result<(String, String), RequestError> {
    if let Some(found) = all.iter().find(|(id, _)| id == wanted) {
        return Ok(found.clone());
    }
    let named: Vec<&(String, String)> = all.iter().filter(|(_, name)| name == wanted).collect();
    match named.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(RequestError::Refused(format!(
            "AppConfig has no {what} `{wanted}`"
        ))),
        several => Err(RequestError::Refused(format!(
            "AppConfig has {} of the {what} `{wanted}`: write its id",
            several.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_goes_before_a_name_and_a_name_must_be_one() {
        let all = || {
            [
                ("abc1", "shop"),
                ("abc2", "abc1"),
                ("abc3", "twice"),
                ("abc4", "twice"),
            ]
            .map(|(id, name)| (id.to_owned(), name.to_owned()))
            .to_vec()
        };
        assert_eq!(pick("application", "abc1", all()).unwrap().1, "shop");
        assert_eq!(pick("application", "shop", all()).unwrap().0, "abc1");
        assert!(pick("application", "twice", all()).is_err());
        assert!(pick("application", "none", all()).is_err());
    }
}
