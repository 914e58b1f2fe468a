//! Any asynchronous function under a policy, without tower.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use retryguard_core::{Criticality, Failure, FailureKind, Outcome};
use retryguard_policy::{Classifier, Policy, Service as ServicePolicy};
use tower_service::Service;

use super::RetryGuard;
use crate::{
    clock,
    error::Error,
    handle::TargetHandle,
    protocol::{Asked, Judge, Protocol, Sending},
    shared::Shared,
};

/// The target of one service of a policy, for [`call`]. Others of the same policy and name, layers included, share it.
#[must_use]
pub fn target(policy: &Policy, service: &str) -> TargetHandle {
    TargetHandle::new(Shared::of(policy.service(service)))
}

/// Calls a function under the policy of a target: its deadline, retries, budget, breaker and whatever else the policy says,
/// by the same machines as the layers. The function may run more than once, and two runs may overlap where the policy
/// hedges; see [`CallBuilder::not_idempotent`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retryguard::Policy;
///
/// let policy = Policy::parse("services: { stock: { maxRetries: 1, initialDelay: 1ms, budget: off } }")?;
/// let target = retryguard::target(&policy, "stock");
///
/// let mut attempts = 0;
/// let answer = retryguard::call(&target, || {
///     attempts += 1;
///     let attempt = attempts;
///     async move { if attempt == 1 { Err(std::io::Error::other("hiccup")) } else { Ok(attempt) } }
/// })
/// .await?;
/// assert_eq!(answer, 2);
/// # Ok(())
/// # }
/// ```
pub fn call<F>(target: &TargetHandle, function: F) -> CallBuilder<'_, F> {
    CallBuilder {
        target,
        function,
        asked: Asked {
            idempotent: true,
            replayable: true,
            ..Asked::default()
        },
        reading: ErrorsFail,
    }
}

/// A call of a function that has not begun. Awaiting it begins it; [`CallBuilder::run`] does so without a box.
#[must_use = "a call begins when it is awaited"]
#[derive(Debug)]
pub struct CallBuilder<'a, F, R = ErrorsFail> {
    target: &'a TargetHandle,
    function: F,
    asked: Asked,
    reading: R,
}

/// How results of a function are read.
pub trait Reading<T, E> {
    /// What a result says of the target, and whether another attempt could do better.
    fn read(&self, result: &Result<T, E>) -> Outcome;
}

/// Every error is a fault that another attempt may overcome.
#[derive(Debug, Clone, Copy)]
pub struct ErrorsFail;

impl<T, E> Reading<T, E> for ErrorsFail {
    fn read(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Failure(Failure::new(FailureKind::Fault)),
        }
    }
}

/// Errors are faults if a predicate says so, and answers like any other if it does not.
#[derive(Debug, Clone, Copy)]
pub struct RetryIf<P>(P);

impl<T, E, P: Fn(&E) -> bool> Reading<T, E> for RetryIf<P> {
    fn read(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Err(error) if (self.0)(error) => Outcome::Failure(Failure::new(FailureKind::Fault)),
            // The target is well; the request was not.
            Err(_) => Outcome::Failure(Failure::new(FailureKind::Request)),
            Ok(_) => Outcome::Success,
        }
    }
}

/// Results are read by a function.
#[derive(Debug, Clone, Copy)]
pub struct ReadBy<P>(P);

impl<T, E, P: Fn(&Result<T, E>) -> Outcome> Reading<T, E> for ReadBy<P> {
    fn read(&self, result: &Result<T, E>) -> Outcome {
        (self.0)(result)
    }
}

impl<'a, F, R> CallBuilder<'a, F, R> {
    /// The function must not run twice, unless its failure says that nothing was done (an `unreachable` one).
    pub const fn not_idempotent(mut self) -> Self {
        self.asked.idempotent = false;
        self
    }

    /// How long the whole call may take, if the policy says nothing shorter.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.asked.deadline = Some(clock::after(deadline));
        self
    }

    /// How often the function runs again after failures, in place of the policy's `maxRetries`. The guard and the budget bound
    /// it all the same.
    pub const fn max_retries(mut self, retries: u8) -> Self {
        self.asked.overrides.retries = Some(retries);
        self
    }

    /// How long one attempt may take, in place of the policy's `attemptTimeout`.
    pub const fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.asked.overrides.attempt_timeout = Some(timeout);
        self
    }

    /// How much the call matters.
    pub const fn criticality(mut self, criticality: Criticality) -> Self {
        self.asked.criticality = Some(criticality);
        self
    }

    /// Retries only errors of which this is true. The others say nothing bad of the target.
    pub fn retry_if<E, P: Fn(&E) -> bool>(self, predicate: P) -> CallBuilder<'a, F, RetryIf<P>> {
        self.reading(RetryIf(predicate))
    }

    /// Reads results by a function: a response may be a failure, and an error may say what kind it is.
    pub fn judged_by<T, E, P>(self, judge: P) -> CallBuilder<'a, F, ReadBy<P>>
    where
        P: Fn(&Result<T, E>) -> Outcome,
    {
        self.reading(ReadBy(judge))
    }

    fn reading<N>(self, reading: N) -> CallBuilder<'a, F, N> {
        CallBuilder {
            target: self.target,
            function: self.function,
            asked: self.asked,
            reading,
        }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Where no attempt succeeded; the error says which part refused another attempt and why, and has the error of the
    /// last attempt.
    pub async fn run<T, E, Fut>(self) -> Result<T, Error<E>>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        R: Reading<T, E>,
    {
        let function = Mutex::new(self.function);
        let protocol = Function {
            asked: self.asked,
            reading: &self.reading,
        };
        let mut service = RetryGuard::new(Attempts(&function), protocol, self.target.shared());
        service.call(()).await
    }
}

impl<'a, F, Fut, T, E, R> IntoFuture for CallBuilder<'a, F, R>
where
    F: FnMut() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    R: Reading<T, E> + Send + Sync + 'a,
    T: Send + 'a,
    E: Send + 'a,
{
    type Output = Result<T, Error<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Each attempt runs the function.
struct Attempts<'f, F>(&'f Mutex<F>);

impl<F> Clone for Attempts<'_, F> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<F, Fut, T, E> Service<()> for Attempts<'_, F>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Response = T;
    type Error = E;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Fut {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))()
    }
}

/// The protocol of a function: there is no request, only what its caller says of it.
struct Function<'f, R> {
    asked: Asked,
    reading: &'f R,
}

impl<R> Clone for Function<'_, R> {
    fn clone(&self) -> Self {
        Self {
            asked: self.asked,
            reading: self.reading,
        }
    }
}

impl<R> Protocol<()> for Function<'_, R> {
    type Kept = ();
    type Attempt = ();

    fn accept(&self, (): (), _policy: &ServicePolicy) -> (Asked, ()) {
        (self.asked, ())
    }

    fn attempt(&self, (): &mut (), _sending: &Sending) -> Option<()> {
        Some(())
    }
}

impl<T, E, R: Reading<T, E>> Judge<T, E> for Function<'_, R> {
    fn judge(&self, result: &Result<T, E>, _classifier: &Classifier) -> Outcome {
        self.reading.read(result)
    }
}
