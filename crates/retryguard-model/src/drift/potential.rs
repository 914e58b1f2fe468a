//! A potential over the places beyond the edge: `slope` times the height, plus what the place has of its own.
//!
//! It is guessed from the middle of the rates and then checked against their ends, so that nothing rests on the guess.

use super::outside::{Outside, Place, To};
use crate::chain::{Chain, index};
use crate::error::Error;
use crate::solve;

/// By how much more than needed the slope is taken: room for rounding and for rates that are not the same at every height. It is
/// paid times the probability of crossing the edge.
const ROOM: f64 = 0.1;
/// Beside the reward, this part of its largest must be lost per unit of time: then the target is reached for certain.
const TIME: f64 = 1e-3;
/// The part of a sum that rounding may have taken.
const ROUNDING: f64 = 1e-9;

pub(super) struct Potential {
    slope: f64,
    own: Vec<f64>,
}

impl Potential {
    pub(super) fn at(&self, place: usize, height: i64) -> f64 {
        self.slope * height as f64 + self.own[place]
    }
}

/// A potential that falls everywhere, on average, at least as fast as rewards are earned.
pub(super) fn find(outside: &Outside) -> Result<Result<Potential, String>, Error> {
    let most = outside
        .places
        .iter()
        .map(|place| place.earned)
        .fold(0.0, f64::max);
    let time = TIME * if most > 0.0 { most } else { 1.0 };
    let earned: Vec<f64> = outside.places.iter().map(|place| place.earned + time).collect();
    if let Some(flat) = flat(outside, &earned)?
        && let Ok(found) = checked(outside, flat, time / 2.0)
    {
        return Ok(Ok(found));
    }
    match sloped(outside, &earned)? {
        Ok(guess) => Ok(checked(outside, guess, time / 2.0)),
        Err(reason) => Ok(Err(reason)),
    }
}

/// Where every place leads home by itself, the height does not matter.
fn flat(outside: &Outside, earned: &[f64]) -> Result<Option<Potential>, Error> {
    let places = outside.places.len();
    let chain = nominal(outside, true);
    let home: Vec<bool> = (0..=places).map(|place| place == places).collect();
    let padded: Vec<f64> = earned.iter().copied().chain([0.0]).collect();
    let mut own = solve::reach_rewards(&chain, &home, &padded)?;
    own.truncate(places);
    Ok(own.iter().all(|value| value.is_finite()).then(|| Potential {
        slope: 0.0,
        own: own.iter().map(|value| value * (1.0 + ROOM)).collect(),
    }))
}

/// Where the height falls on average, its fall pays for what is earned.
fn sloped(outside: &Outside, earned: &[f64]) -> Result<Result<Potential, String>, Error> {
    let chain = nominal(outside, false);
    let rise: Vec<f64> = outside
        .places
        .iter()
        .map(|place| {
            place
                .moves
                .iter()
                .map(|one| match one.to {
                    To::Shift(_, most) => middle(one.rate.low, one.rate.high, most) * most as f64,
                    To::Jump(..) | To::Home => 0.0,
                })
                .sum()
        })
        .collect();
    let scattered = || Err("beyond the edge the chain may settle in more than one way".to_owned());
    let (Some((mean_rise, _)), Some((mean_earned, _))) = (
        solve::relative_values(&chain, &rise)?,
        solve::relative_values(&chain, earned)?,
    ) else {
        return Ok(scattered());
    };
    if mean_rise.is_nan() || mean_rise >= 0.0 {
        return Ok(Err("beyond the edge nothing drives the chain back".to_owned()));
    }
    let slope = (1.0 + ROOM) * mean_earned / -mean_rise;
    let both: Vec<f64> = earned
        .iter()
        .zip(&rise)
        .map(|(earned, rise)| earned + slope * rise)
        .collect();
    Ok(match solve::relative_values(&chain, &both)? {
        Some((_, own)) => Ok(Potential { slope, own }),
        None => scattered(),
    })
}

/// The chain of the places at rates between their ends, and home as a last state if it is wanted.
fn nominal(outside: &Outside, home: bool) -> Chain {
    let mut chain = Chain {
        rows: vec![0],
        ..Chain::default()
    };
    for place in &outside.places {
        for one in &place.moves {
            let (to, rate) = match one.to {
                To::Shift(to, most) => (to, middle(one.rate.low, one.rate.high, most)),
                To::Jump(to, _) => (to, one.rate.low),
                To::Home if home => (outside.places.len(), one.rate.low),
                To::Home => continue,
            };
            if rate > 0.0 {
                chain.columns.push(index(to));
                chain.rates.push(rate);
            }
        }
        chain.rows.push(chain.columns.len());
    }
    if home {
        chain.rows.push(chain.columns.len());
    }
    chain
}

/// The end of a rate that is worse for the potential.
fn middle(low: f64, high: f64, rise: i64) -> f64 {
    if rise > 0 { high } else { low }
}

/// The potential, raised until it is nowhere negative, if it falls fast enough in every place at whatever rates.
fn checked(outside: &Outside, mut guess: Potential, time: f64) -> Result<Potential, String> {
    let bottom = guess.slope * (outside.low - outside.drop) as f64;
    let lowest = guess.own.iter().copied().fold(f64::INFINITY, f64::min);
    let home = |place: &Place| place.moves.iter().any(|one| matches!(one.to, To::Home));
    // Where a move leads home its worth is the whole potential, which must not be made less.
    if lowest + bottom < 0.0 || !outside.places.iter().any(home) {
        for own in &mut guess.own {
            *own -= lowest + bottom;
        }
    }
    for (number, place) in outside.places.iter().enumerate() {
        let here = guess.at(number, outside.low);
        let (mut change, mut size) = (place.earned + time, place.earned + time);
        for one in &place.moves {
            let by = match one.to {
                // Below the places the potential is taken to go on, though home is worth nothing: it is not negative there.
                To::Shift(to, most) => guess.slope * most as f64 + guess.own[to] - guess.own[number],
                To::Jump(to, most) => guess.at(to, most) - here,
                To::Home => -here,
            };
            let part = if by > 0.0 { one.rate.high } else { one.rate.low } * by;
            change += part;
            size += part.abs();
        }
        let enough = change + ROUNDING * size;
        if enough.is_nan() || enough > 0.0 {
            return Err("beyond the edge nothing is shown to drive the chain back".to_owned());
        }
    }
    Ok(guess)
}
