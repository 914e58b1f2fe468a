//! How long the work of one incarnation of a service lives: a killed process takes its tasks with it.

use std::sync::Arc;

use retryguard::Context;
use tokio::{sync::watch, task::JoinHandle};

use crate::trace::Span;

/// A life that can be ended from outside.
#[derive(Debug, Clone)]
pub struct Life {
    end: Arc<watch::Sender<bool>>,
    ended: watch::Receiver<bool>,
}

impl Life {
    /// A life that has begun.
    #[must_use]
    pub fn begin() -> Self {
        let (end, ended) = watch::channel(false);
        Self {
            end: Arc::new(end),
            ended,
        }
    }

    /// Ends it: every task in it is dropped where it stands.
    pub fn end(&self) {
        self.end.send_replace(true);
    }

    /// Waits for the end.
    pub async fn ended(&self) {
        // The sender lives in this very value.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Runs a future until it is done or the life ends.
    pub async fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            () = self.ended() => None,
            output = future => Some(output),
        }
    }

    /// The same in a task of its own.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let life = self.clone();
        tokio::spawn(async move { life.run(future).await })
    }

    /// Does the work of a request in a task of its own, as a server with a thread for each request does: a
    /// caller that goes away does not stop it. Only a deadline that came with the request does, because that is
    /// all that the server knows of its caller.
    ///
    /// `None` where the deadline passed or the life ended.
    pub async fn outlive<F>(&self, work: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let work = Span::current().scope(work);
        let context = Context::current();
        let task = self.spawn(async move {
            let Some(context) = context else {
                return Some(work.await);
            };
            let deadline = context.deadline();
            let work = context.scope(work);
            match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
                None => Some(work.await),
            }
        });
        task.await.ok().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn work_goes_on_when_its_caller_has_left() {
        let (life, done) = (Life::begin(), Arc::new(AtomicBool::new(false)));
        let (mark, (go, gate)) = (done.clone(), tokio::sync::oneshot::channel::<()>());
        let caller = tokio::spawn({
            let life = life.clone();
            async move {
                life.outlive(async move {
                    gate.await.ok();
                    mark.store(true, Ordering::SeqCst);
                })
                .await
            }
        });
        tokio::task::yield_now().await;
        caller.abort();
        caller.await.unwrap_err();
        go.send(()).unwrap();
        while !done.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_killed_process_takes_its_work_with_it() {
        let life = Life::begin();
        let task = life.spawn(std::future::pending::<()>());
        life.end();
        assert_eq!(task.await.unwrap(), None);
    }
}
