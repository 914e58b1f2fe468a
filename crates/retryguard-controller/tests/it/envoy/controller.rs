//! A whole controller, from the text of its configuration.

use std::path::Path;

use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::config::Config;
use retryguard_controller::domain::target::TargetSpec;
use retryguard_controller::reconcile::control_loop::{
    Components, Ended, MOST_QUERIES, Query, QuerySender, run,
};
use retryguard_controller::start;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A controller that runs until it is stopped.
pub(crate) struct Controller {
    asks: QuerySender,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

impl Controller {
    pub(crate) async fn start(configuration: &str) -> Self {
        let config = Config::parse(configuration, Path::new(".")).unwrap();
        let actuators = start::actuators(&config).await.unwrap();
        let sources = start::sources(&config).await.unwrap();
        let targets = config
            .targets
            .iter()
            .map(|target| TargetSpec {
                name: target.name.clone(),
                guards: target.guards.clone(),
                price: target.price,
                source: sources[0].name(),
                actuators: (0..actuators.len()).collect(),
            })
            .collect();
        let parts = Components {
            targets,
            sources,
            actuators,
            election: Box::new(SingleInstance),
            limits: config.limits,
            dry_run: false,
            leave: false,
        };
        let (asks, questions) = mpsc::channel(MOST_QUERIES);
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(run(parts, questions, async {
            let _ = stopped.await;
        }));
        Self { asks, stop, ended }
    }

    pub(crate) async fn status(&self) -> Value {
        let (answer, status) = oneshot::channel();
        self.asks.send(Query::Status(answer)).await.unwrap();
        status.await.unwrap()
    }

    pub(crate) async fn metrics(&self) -> String {
        let (answer, metrics) = oneshot::channel();
        self.asks.send(Query::Metrics(answer)).await.unwrap();
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
