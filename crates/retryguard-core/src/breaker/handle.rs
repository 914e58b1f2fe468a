use std::time::Duration;

use super::State;

/// A handle to a target's breaker outside its calls, for replicas that share what they know.
///
/// A change that comes through it is reported to operators like every other, and not to the observer: what was received
/// from other replicas is not sent to them again.
pub trait Handle: Send + Sync + 'static {
    /// The target's name.
    fn name(&self) -> &str;

    /// The state, and how long an open one stays so.
    fn state(&self) -> (State, Duration);

    /// Opens the breaker for `span`; nothing where the policy has none.
    fn hold_open(&self, span: Duration);

    /// Closes the breaker.
    fn close(&self);

    /// Calls `told` with every state that the breaker itself goes into. It must not wait. False where a caller
    /// observes it already.
    fn observe(&self, told: Box<dyn Fn(State) + Send + Sync>) -> bool;
}
