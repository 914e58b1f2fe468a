//! A whole controller, from the text of its configuration.

use std::path::Path;

use retryguard_controller::board::Watched;
use retryguard_controller::config::Config;
use retryguard_controller::lead::Alone;
use retryguard_controller::run::{Ask, Asking, Ended, Parts, QUESTIONS, run};
use retryguard_controller::start;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A controller that runs until it is stopped.
pub(crate) struct Controller {
    asks: Asking,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

impl Controller {
    pub(crate) async fn start(configuration: &str) -> Self {
        let config = Config::parse(configuration, Path::new(".")).unwrap();
        let actuators = start::actuators(&config).await.unwrap();
        let sources = start::sources(&config).await.unwrap();
        let watched = config
            .targets
            .iter()
            .map(|target| Watched {
                name: target.name.clone(),
                guards: target.guards.clone(),
                source: sources[0].name(),
                actuators: (0..actuators.len()).collect(),
            })
            .collect();
        let parts = Parts {
            watched,
            sources,
            actuators,
            lead: Box::new(Alone),
            limits: config.limits,
            dry_run: false,
            leave: false,
        };
        let (asks, questions) = mpsc::channel(QUESTIONS);
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(run(parts, questions, async {
            let _ = stopped.await;
        }));
        Self { asks, stop, ended }
    }

    pub(crate) async fn status(&self) -> Value {
        let (answer, status) = oneshot::channel();
        self.asks.send(Ask::Status(answer)).await.unwrap();
        status.await.unwrap()
    }

    pub(crate) async fn metrics(&self) -> String {
        let (answer, metrics) = oneshot::channel();
        self.asks.send(Ask::Metrics(answer)).await.unwrap();
        metrics.await.unwrap()
    }

    /// The state of the only target's guard: on, off or ramping.
    pub(crate) async fn state(&self) -> String {
        let status = self.status().await;
        status["targets"][0]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) async fn stop(self) -> Ended {
        let _ = self.stop.send(());
        self.ended.await.unwrap()
    }
}
