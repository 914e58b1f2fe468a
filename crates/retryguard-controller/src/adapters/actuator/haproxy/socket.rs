//! One HAProxy's admin socket: a command, an answer, and the end of the connection.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::adapters::actuator::haproxy::map::{Edit, Map};
use crate::adapters::actuator::instances::Mark;
use crate::domain::state::RetryState;
use crate::reconcile::actuator::ActuatorError;

/// How long one command may take. The socket is on this machine or near it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer that is read; a map of 100,000 entries fits.
const LONGEST_ANSWER: u64 = 16 * 1024 * 1024;

/// Where a HAProxy takes commands, and the map that is ours.
#[derive(Debug, Clone)]
pub(super) struct Socket {
    address: String,
    map: String,
}

impl Socket {
    pub(super) fn new(address: &str, map: &str) -> Self {
        Self {
            address: address.to_owned(),
            map: map.to_owned(),
        }
    }

    /// What stands in the map.
    pub(super) async fn read(&self) -> Result<Map, ActuatorError> {
        let answer = self.command(&format!("show map {}", self.map)).await?;
        Map::read(&answer).map_err(|reason| {
            self.refused(format!(
                "{reason} to `show map {}`; is the map in its configuration, and has the socket `level admin`?",
                self.map
            ))
        })
    }

    /// Makes `desired` true of `backend`, and looks whether it is.
    pub(super) async fn tell(&self, backend: &str, desired: RetryState) -> Result<(), ActuatorError> {
        let before = self.read().await?;
        if let (true, Mark::Foreign(what) | Mark::Changed(what)) =
            (desired != RetryState::Original, before.mark(backend))
        {
            return Err(ActuatorError::Conflict {
                what: format!("`{backend}` of {}", self.address),
                reason: what,
            });
        }
        let edits = before.towards(backend, desired);
        if edits.is_empty() {
            return Ok(());
        }
        for edit in edits {
            let (verb, rest) = match edit {
                Edit::Add { key, value } => ("add", format!("{key} {value}")),
                Edit::Set { key, value } => ("set", format!("{key} {value}")),
                Edit::Remove { key } => ("del", key),
            };
            let answer = self.command(&format!("{verb} map {} {rest}", self.map)).await?;
            if !answer.trim().is_empty() {
                return Err(self.refused(answer.trim().chars().take(200).collect()));
            }
        }
        let left = self.read().await?.towards(backend, desired);
        match left.first() {
            None => Ok(()),
            Some(edit) => Err(self.refused(format!("it says nothing and has not done it: {edit:?}"))),
        }
    }

    /// One command on one connection: HAProxy closes it after the answer.
    async fn command(&self, command: &str) -> Result<String, ActuatorError> {
        let talk = async {
            if self.address.starts_with('/') {
                converse(UnixStream::connect(&self.address).await?, command).await
            } else {
                converse(TcpStream::connect(&self.address).await?, command).await
            }
        };
        let unreachable = |reason: String| ActuatorError::Unreachable {
            address: self.address.clone(),
            reason,
        };
        let answer = match timeout(TIMEOUT, talk).await {
            Ok(answer) => answer.map_err(|error| unreachable(error.to_string()))?,
            Err(_) => return Err(unreachable(format!("no answer within {} s", TIMEOUT.as_secs()))),
        };
        if answer.len() as u64 > LONGEST_ANSWER {
            return Err(self.refused(format!("it answers with more than {LONGEST_ANSWER} bytes")));
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn refused(&self, reason: String) -> ActuatorError {
        ActuatorError::Refused {
            what: self.address.clone(),
            reason,
        }
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    command: &str,
) -> std::io::Result<Vec<u8>> {
    stream.write_all(format!("{command}\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER + 1).read_to_end(&mut answer).await?;
    Ok(answer)
}
