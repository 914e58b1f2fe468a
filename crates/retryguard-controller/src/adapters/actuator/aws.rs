//! Lambda, SSM and AppConfig as carriers of decisions: the number of attempts that a target's callers may make.
//!
//! A target is what is called: a table, a queue, a function. Its retries are configured with its callers, so a target
//! has one or several *locations*: the environments of functions, a parameter, a number in a hosted document. Off is one
//! attempt; the ramp goes up in whole attempts to the user's own number. What the user had is kept in Amazon's
//! services themselves, beside each location, and comes back exactly, also where there was nothing.
//!
//! **Precedence.** A location that is changed from elsewhere while we hold it is left alone until retries are back on; the
//! other locations of the target go on. Where all of them are changed, so is the target.

mod appconfig;
mod ids;
pub mod lambda;
mod place;
mod record;
mod ssm;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use crate::adapters::actuator::aws::lambda::Function;
use crate::adapters::actuator::aws::place::{Settled, State};
use crate::adapters::actuator::aws::ssm::Parameter;
use crate::adapters::aws::{RequestError, configuration};
use crate::adapters::start_error::StartError;
use crate::config::actuator::aws::{AppConfig, AwsSettings, AwsTarget};
use crate::domain::state::{Change, Found, Loss, Observed, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

const NAME: &str = "aws";

/// How many locations are asked or changed at the same time: Amazon's control planes allow few questions a second.
const AT_ONCE: usize = 8;

/// The actuator `aws`.
pub struct Aws {
    clients: Clients,
    owner: String,
    targets: BTreeMap<TargetName, Vec<Arc<SettingLocation>>>,
    /// What was last wanted of each target: a location that holds something else is the one to report.
    wanted: Mutex<BTreeMap<TargetName, RetryState>>,
}

#[derive(Clone)]
struct Clients {
    lambda: aws_sdk_lambda::Client,
    ssm: aws_sdk_ssm::Client,
    appconfig: aws_sdk_appconfig::Client,
}

/// Where a number of attempts stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingLocation {
    Lambda(Function),
    Ssm(Parameter),
    AppConfig(AppConfig),
}

impl SettingLocation {
    fn all(target: AwsTarget, owner: &str) -> Vec<Self> {
        let mut locations = Vec::new();
        if let Some(lambda) = target.lambda {
            locations.extend(lambda.functions.into_iter().map(|name| {
                Self::Lambda(Function {
                    name,
                    variable: lambda.variable.clone(),
                    attempts: lambda.attempts,
                })
            }));
        }
        locations.extend(target.ssm.map(|ssm| {
            Self::Ssm(Parameter {
                name: ssm.parameter,
                attempts: ssm.attempts,
                owner: owner.to_owned(),
            })
        }));
        locations.extend(target.appconfig.map(Self::AppConfig));
        locations
    }

    /// What no two targets may share: the last of them to speak would have the say.
    fn key(&self) -> String {
        match self {
            Self::Lambda(function) => format!("the variable {} of {}", function.variable, function.name),
            Self::Ssm(parameter) => format!("the parameter {}", parameter.name),
            Self::AppConfig(location) => format!(
                "{} in {}/{} of {}",
                location.pointer, location.application, location.profile, location.environment
            ),
        }
    }

    fn service(&self) -> &'static str {
        match self {
            Self::Lambda(_) => "AWS Lambda",
            Self::Ssm(_) => "AWS Systems Manager",
            Self::AppConfig(_) => "AWS AppConfig",
        }
    }

    async fn read(&self, clients: &Clients) -> Result<State, RequestError> {
        match self {
            Self::Lambda(function) => function.read(&clients.lambda).await,
            Self::Ssm(parameter) => parameter.read(&clients.ssm).await,
            Self::AppConfig(location) => appconfig::read(&clients.appconfig, location).await,
        }
    }

    async fn settle(&self, clients: &Clients, change: &Change) -> Result<Settled, RequestError> {
        match self {
            Self::Lambda(function) => function.settle(&clients.lambda, change).await,
            Self::Ssm(parameter) => parameter.settle(&clients.ssm, change).await,
            Self::AppConfig(location) => appconfig::settle(&clients.appconfig, location, change).await,
        }
    }

    fn error(&self, trouble: RequestError) -> ActuatorError {
        trouble.into_error(self.service(), &self.key())
    }
}

impl Aws {
    /// Makes the clients; no request is sent yet.
    ///
    /// # Errors
    /// When no region is known, or a location has two targets.
    pub async fn start(
        settings: &AwsSettings,
        targets: Vec<(TargetName, AwsTarget)>,
    ) -> Result<Self, StartError> {
        let mut owners: BTreeMap<String, TargetName> = BTreeMap::new();
        let mut locations = BTreeMap::new();
        for (name, target) in targets {
            let all = SettingLocation::all(target, &settings.owner);
            for location in &all {
                if let Some(other) = owners.insert(location.key(), name.clone()) {
                    return Err(StartError::Settings {
                        what: NAME,
                        reason: format!(
                            "{} belongs to `{other}` and to `{name}`: it has one number for both, so watch them as one target",
                            location.key()
                        ),
                    });
                }
            }
            locations.insert(name, all.into_iter().map(Arc::new).collect());
        }
        let config = configuration(NAME, &settings.reach).await?;
        Ok(Self {
            clients: Clients {
                lambda: aws_sdk_lambda::Client::new(&config),
                ssm: aws_sdk_ssm::Client::new(&config),
                appconfig: aws_sdk_appconfig::Client::new(&config),
            },
            owner: settings.owner.clone(),
            targets: locations,
            wanted: Mutex::default(),
        })
    }

    async fn held(&self) -> Result<Vec<Found>, ActuatorError> {
        let every: Vec<Arc<SettingLocation>> = self.targets.values().flatten().cloned().collect();
        let states = self
            .each(
                every,
                |location, clients| async move { location.read(&clients).await },
            )
            .await;
        let mut by_target: BTreeMap<TargetName, Vec<State>> = BTreeMap::new();
        let locations = self
            .targets
            .iter()
            .flat_map(|(target, locations)| locations.iter().map(move |location| (target, location)));
        for ((target, location), state) in locations.zip(states) {
            let state = match state {
                Ok(state) => state,
                Err(trouble) => self.unreadable(target, location, trouble)?,
            };
            // What is held for a target of a former configuration goes by the name that it had there.
            by_target.entry(name_of(&state, target)).or_default().push(state);
        }
        for (target, state) in self.former().await? {
            by_target.entry(target).or_default().push(state);
        }
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for (target, states) in by_target {
            let Some(held) = agreed(&states, wanted.get(&target).copied()) else {
                continue;
            };
            if let Observed::Managed(desired) = held {
                wanted.entry(target.clone()).or_insert(desired);
            }
            found.push(Found { target, held });
        }
        Ok(found)
    }

    /// A location that does not say what it holds. One that is gone holds nothing; one that we may not read is left to a
    /// person, and does not keep us from the others. One that only does not answer now is asked again before anything
    /// is done: to take silence for the user's own configuration would leave it switched off for ever.
    fn unreadable(
        &self,
        target: &TargetName,
        location: &SettingLocation,
        trouble: RequestError,
    ) -> Result<State, ActuatorError> {
        match trouble {
            RequestError::Missing(reason) => {
                tracing::warn!(target: "retryguard::controller", location = location.key(), reason, "it is gone");
                Ok(State::Free)
            }
            RequestError::Refused(what) | RequestError::Taken(what) => Ok(State::Theirs {
                target: target.to_string(),
                what: format!("{}: {what}", location.key()),
            }),
            trouble => Err(location.error(trouble)),
        }
    }

    /// Parameters that a former configuration held and this one does not name.
    async fn former(&self) -> Result<Vec<(TargetName, State)>, ActuatorError> {
        if !self.uses_parameters() {
            return Ok(Vec::new());
        }
        let mut states = Vec::new();
        for (target, parameters) in self.parameters().await? {
            for parameter in parameters {
                let location = SettingLocation::Ssm(parameter);
                if self
                    .targets
                    .values()
                    .flatten()
                    .any(|known| known.key() == location.key())
                {
                    continue;
                }
                let state = location
                    .read(&self.clients)
                    .await
                    .map_err(|trouble| location.error(trouble))?;
                states.push((TargetName::new(&target), state));
            }
        }
        Ok(states)
    }

    async fn parameters(&self) -> Result<BTreeMap<String, Vec<Parameter>>, ActuatorError> {
        ssm::held(&self.clients.ssm, &self.owner)
            .await
            .map_err(|trouble| trouble.into_error("AWS Systems Manager", "what we hold"))
    }

    /// Who never used a parameter needs no permission to look for them.
    fn uses_parameters(&self) -> bool {
        let is_parameter = |location: &Arc<SettingLocation>| matches!(**location, SettingLocation::Ssm(_));
        self.targets.values().flatten().any(is_parameter)
    }

    async fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let locations = match self.targets.get(&change.target) {
            Some(locations) => locations.clone(),
            None => self.places_of_former(change).await?,
        };
        let order = Arc::new(change.clone());
        let answers = self
            .each(locations.clone(), |location, clients| {
                let change = Arc::clone(&order);
                async move { location.settle(&clients, &change).await }
            })
            .await;
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(change.target.clone(), change.desired);
        drop(wanted);
        let (mut losses, mut trouble, mut yielded) = (Vec::new(), None, Vec::new());
        for (location, answer) in locations.iter().zip(answers) {
            match answer {
                Ok(settled) => {
                    losses.extend(settled.losses);
                    yielded.extend(settled.yielded);
                }
                // One function that is gone must not keep the others from receiving the change.
                Err(error) => trouble = trouble.or(Some(location.error(error))),
            }
        }
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        if !yielded.is_empty() && yielded.len() == locations.len() {
            return Err(ActuatorError::Conflict {
                what: change.target.to_string(),
                reason: yielded.join("; "),
            });
        }
        if matches!(change.desired, RetryState::Part { .. }) {
            losses.push(Loss(
                "the ramp rises in whole attempts, and at least by one, not by shares of the retries"
                    .to_owned(),
            ));
        }
        Ok(losses)
    }

    /// What is held for a target that only [`Actuator::find`] knows.
    async fn places_of_former(&self, change: &Change) -> Result<Vec<Arc<SettingLocation>>, ActuatorError> {
        if change.desired != RetryState::Original {
            return Err(ActuatorError::Refused {
                what: change.target.to_string(),
                reason: "no location is configured for it".to_owned(),
            });
        }
        let mut locations: Vec<Arc<SettingLocation>> = Vec::new();
        if self.uses_parameters() {
            let mut held = self.parameters().await?;
            let parameters = held.remove(change.target.as_str()).unwrap_or_default();
            locations.extend(
                parameters
                    .into_iter()
                    .map(|parameter| Arc::new(SettingLocation::Ssm(parameter))),
            );
        }
        let every: Vec<Arc<SettingLocation>> = self.targets.values().flatten().cloned().collect();
        let states = self
            .each(every.clone(), |location, clients| async move {
                location.read(&clients).await
            })
            .await;
        for (location, state) in every.into_iter().zip(states) {
            let target = match state.map_err(|trouble| location.error(trouble))? {
                State::Ours { target, .. } | State::Theirs { target, .. } => target,
                State::Free => continue,
            };
            if target == change.target.as_str() && !locations.contains(&location) {
                locations.push(location);
            }
        }
        Ok(locations)
    }

    /// Asks or changes every location, a few at a time; the answers come in the locations' order.
    async fn each<T, F>(
        &self,
        locations: Vec<Arc<SettingLocation>>,
        ask: impl Fn(Arc<SettingLocation>, Clients) -> F,
    ) -> Vec<Result<T, RequestError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        let count = locations.len();
        let mut waiting = locations.into_iter().enumerate();
        let mut set = JoinSet::new();
        let mut answers: Vec<Option<Result<T, RequestError>>> =
            std::iter::repeat_with(|| None).take(count).collect();
        loop {
            while set.len() < AT_ONCE {
                let Some((index, location)) = waiting.next() else {
                    break;
                };
                let answer = ask(location, self.clients.clone());
                set.spawn(async move { (index, answer.await) });
            }
            match set.join_next().await {
                Some(Ok((index, answer))) => answers[index] = Some(answer),
                // They are not aborted, and they do not panic.
                Some(Err(_)) => {}
                None => break,
            }
        }
        let lost = || Err(RequestError::Silent("the question was lost".to_owned()));
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(lost))
            .collect()
    }
}

impl Actuator for Aws {
    fn name(&self) -> &'static str {
        NAME
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(self.held())
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(self.change(change))
    }

    fn describe(&self, change: &Change) -> String {
        let Some(locations) = self.targets.get(&change.target) else {
            return format!("give back every location that was changed for {}", change.target);
        };
        let names: Vec<String> = locations.iter().map(|location| location.key()).collect();
        let what = match change.desired {
            RetryState::Original => "back to the user's own number of attempts".to_owned(),
            RetryState::Off => "to 1 attempt".to_owned(),
            RetryState::Part { share, .. } => format!(
                "to 1 attempt and {:.1} % of the user's retries, in whole attempts",
                share.as_f64() * 100.0
            ),
        };
        format!("set {} {what}", names.join(", "))
    }

    fn stand_down(&self) {
        // The leader meanwhile wants other things.
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn name_of(state: &State, usual: &TargetName) -> TargetName {
    match state {
        State::Ours { target, .. } | State::Theirs { target, .. } => TargetName::new(target),
        State::Free => usual.clone(),
    }
}

/// What all locations hold of one target: theirs where all of them are, else the first that differs from what was
/// wanted, so that it is put right, and the strictest where nothing was wanted yet.
fn agreed(states: &[State], wanted: Option<RetryState>) -> Option<Observed> {
    let theirs: Vec<&str> = states
        .iter()
        .filter_map(|state| match state {
            State::Theirs { what, .. } => Some(what.as_str()),
            State::Free | State::Ours { .. } => None,
        })
        .collect();
    if !theirs.is_empty() && theirs.len() == states.len() {
        return Some(Observed::Overridden(theirs.join("; ")));
    }
    let mut desired_states = states.iter().filter_map(|state| match state {
        State::Free => Some(RetryState::Original),
        State::Ours { desired, .. } => Some(*desired),
        State::Theirs { .. } => None,
    });
    let held = match wanted {
        Some(wanted) => desired_states
            .clone()
            .find(|desired| *desired != wanted)
            .or(desired_states.next()),
        None => desired_states.min_by_key(|desired| lets(*desired)),
    };
    held.filter(|desired| *desired != RetryState::Original)
        .map(Observed::Managed)
}

/// How much a desired state lets through: the least is the strictest.
fn lets(desired: RetryState) -> u64 {
    match desired {
        RetryState::Off => 0,
        RetryState::Part { share, .. } => share.parts().max(1),
        RetryState::Original => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(desired: RetryState) -> State {
        State::Ours {
            target: "orders".to_owned(),
            desired,
        }
    }

    fn theirs() -> State {
        State::Theirs {
            target: "orders".to_owned(),
            what: "changed".to_owned(),
        }
    }

    #[test]
    fn a_place_that_differs_from_what_is_wanted_is_the_one_to_report() {
        let half = [ours(RetryState::Off), State::Free];
        // Told `Original`, the loop sees that one function was forgotten, and says it again.
        assert_eq!(agreed(&half, Some(RetryState::Off)), None);
        assert_eq!(
            agreed(&half, Some(RetryState::Original)),
            Some(Observed::Managed(RetryState::Off))
        );
        assert_eq!(agreed(&half, None), Some(Observed::Managed(RetryState::Off)));
    }

    #[test]
    fn one_place_that_was_taken_does_not_free_the_others() {
        let mixed = [theirs(), ours(RetryState::Off)];
        assert_eq!(
            agreed(&mixed, Some(RetryState::Off)),
            Some(Observed::Managed(RetryState::Off))
        );
        assert!(matches!(
            agreed(&[theirs()], Some(RetryState::Off)),
            Some(Observed::Overridden(_))
        ));
        assert_eq!(agreed(&[State::Free], None), None);
    }
}
