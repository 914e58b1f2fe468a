//! Finite queues: M/M/1/m (Eq. 9 of the paper) and M/M/c/m.
//!
//! m counts the calls in service too, as Eq. 9 does.

use super::{BadInput, Buffer, Load, series::geometric};

/// The share of arrivals that M/M/1/m turns away: (1 − ρ)ρ^m/(1 − ρ^(m+1)), and 1/(m + 1) at ρ = 1.
///
/// Evaluated as 1/(1 + 1/ρ + … + 1/ρ^m), which is the same and loses no digit near ρ = 1.
#[must_use]
pub fn single_server_rejection(load: Load, buffer: Buffer) -> f64 {
    1.0 / geometric(1.0 / load.get(), buffer.get() + 1)
}

/// The limit for ρ → 1 that the paper gives for Eq. 9: 1/m. Right is 1/(m + 1).
#[must_use]
pub fn printed_rejection_at_capacity(buffer: Buffer) -> f64 {
    1.0 / f64::from(buffer.get())
}

/// The steady state of M/M/c/m.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// The share of arrivals that find no place.
    pub rejection: f64,
    /// Mean number of calls in the system.
    pub in_system: f64,
    /// Mean number of servers at work.
    pub busy: f64,
    /// Mean time in the system of a call that was let in, in mean service times.
    pub time_in_system: f64,
}

/// Solves M/M/c/m for a load relative to all c servers together.
///
/// By adding one place after the other, so that no weight over- or underflows: with B(n) the probability that
/// the system of n places is full, B(n) = a·B(n−1)/(1 + a·B(n−1)), a = cρ/min(n, c).
///
/// # Errors
/// [`BadInput::Servers`] if there is no server or more of them than places.
pub fn servers(load: Load, servers: u32, places: Buffer) -> Result<Steady, BadInput> {
    let places = places.get();
    if servers == 0 || servers > places {
        return Err(BadInput::Servers { servers, places });
    }
    let offered = load.get() * f64::from(servers);
    let (mut full, mut in_system, mut busy) = (1.0, 0.0, 0.0);
    for n in 1..=places {
        let at_work = f64::from(n.min(servers));
        let weight = offered / at_work * full;
        full = weight / (1.0 + weight);
        in_system += (f64::from(n) - in_system) * full;
        busy += (at_work - busy) * full;
    }
    Ok(Steady {
        rejection: full,
        in_system,
        busy,
        // Little's law over the calls that were let in, of which `busy` are served per service time.
        time_in_system: in_system / busy,
    })
}
