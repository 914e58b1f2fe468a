//! Retries of one layer over retries of another.

use super::{Attempts, BadInput, series::geometric};

/// 1 + e + … + e^(k−1): attempts per call where each attempt fails with probability e.
///
/// Not 1 + e·k: a retry is sent only after a failure. With e = 20 % and 3 attempts it is 1.24, not 1.6.
///
/// # Errors
/// [`BadInput::Share`] if the failure is not between 0 and 1.
pub fn amplification(failure: f64, attempts: Attempts) -> Result<f64, BadInput> {
    if (0.0..=1.0).contains(&failure) {
        Ok(geometric(failure, attempts.get()))
    } else {
        Err(BadInput::Share(failure))
    }
}

/// Attempts that arrive at the lowest layer per call at the edge when everything fails: the product of all
/// attempts. Three layers of three make 27.
#[must_use]
pub fn worst_case(layers: &[Attempts]) -> f64 {
    layers.iter().map(|attempts| f64::from(attempts.get())).product()
}

/// Attempts that arrive at each layer's target per call at the edge, from the edge down, where only the lowest
/// target fails, with probability `failure` an attempt.
///
/// Each layer sees what its own target failed to hide: the lowest sees e, the next one e^k, and so on. The last
/// number, the product of all amplifications, equals 1 + e + … + e^(K−1) with K the product of all attempts: to
/// the lowest target a stack of layers is one layer with all their attempts.
///
/// # Errors
/// [`BadInput::Share`] if the failure is not between 0 and 1.
pub fn arrivals(failure: f64, layers: &[Attempts]) -> Result<Vec<f64>, BadInput> {
    let mut seen = failure;
    let mut own = Vec::with_capacity(layers.len());
    for attempts in layers.iter().rev() {
        own.push(amplification(seen, *attempts)?);
        seen = seen.powf(f64::from(attempts.get()));
    }
    own.reverse();
    Ok(own
        .iter()
        .scan(1.0, |product, factor| {
            *product *= factor;
            Some(*product)
        })
        .collect())
}
