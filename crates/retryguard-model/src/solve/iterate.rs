//! Gauss–Seidel: the solver for components too large to eliminate where the Krylov method proves nothing, and the second opinion in
//! tests.

use super::krylov::Krylov;
use super::lane::Lane;
use crate::chain::Chain;
use crate::error::Error;

const MAX_SWEEPS: u64 = 200_000;
/// Sweeps stop when what is still to come is estimated below this part of every value.
const SETTLED: f64 = 1e-11;

/// The same, where it is known that a mode shrinks so slowly that doubles cannot show more.
const SETTLED_SLOWLY: f64 = 1e-9;
/// Every so many sweeps what is still to come is guessed from the last two.
const STRIDE: usize = 32;
/// Sweeps after which no more is guessed.
const LEAPS_UNTIL: usize = 20_000;

/// Whether sweeps have settled, and leaps that make them settle sooner.
///
/// A small change alone says nothing: sweeps that converge slowly change little for long. What is still to come is change·q/(1−q), with
/// q the factor by which changes shrink; q is taken from the slowest of the last ones.
///
/// Times between two visits home have one mode that is far slower than all others: everything is known but the height of the whole.
/// After some sweeps each change is then q times the one before, state by state, and all that is to come can be added at once. A guess
/// that is wrong costs some sweeps and no digits, because the sweeps go on from there.
#[derive(Default)]
pub(super) struct Settling {
    last: Vec<f64>,
    sweeps: usize,
    before: Vec<f64>,
    between: Vec<f64>,
    /// The slowest mode that was leapt over. It may be small by now and hidden by quicker ones, so the end is judged by it too.
    slowest: f64,
}

impl Settling {
    const LOOK_BACK: usize = 20;

    /// After a sweep over the values of `x` at `places`, the largest relative change of which was `change`.
    pub(super) fn settled(&mut self, places: &[u32], x: &mut [f64], change: f64) -> bool {
        if self.ended(change) {
            return true;
        }
        self.sweeps += 1;
        if self.sweeps > LEAPS_UNTIL {
            self.slowest = 0.0;
            return false;
        }
        let now = |x: &[f64]| places.iter().map(|place| x[*place as usize]).collect();
        match self.sweeps % STRIDE {
            0 => self.leap(places, x),
            place if place + 2 == STRIDE => self.before = now(x),
            place if place + 1 == STRIDE => self.between = now(x),
            _ => {}
        }
        false
    }

    /// The same without leaps.
    pub(super) fn ended(&mut self, change: f64) -> bool {
        if change == 0.0 {
            return true;
        }
        self.last.push(change);
        if self.last.len() <= Self::LOOK_BACK {
            return false;
        }
        let slowest = self
            .last
            .windows(2)
            .map(|pair| pair[1] / pair[0])
            .fold(0.0, f64::max);
        let largest = self.last.iter().copied().fold(0.0, f64::max);
        self.last.remove(0);
        // Nothing but the noise of the last digit is left.
        let still = largest < 4.0 * f64::EPSILON;
        let settled = slowest < 1.0 && change * slowest / (1.0 - slowest) < SETTLED;
        (still || settled) && largest * self.slowest / (1.0 - self.slowest) < SETTLED_SLOWLY
    }

    fn leap(&mut self, places: &[u32], x: &mut [f64]) {
        let (mut first, mut dot, mut second) = (0.0, 0.0, 0.0);
        for ((place, before), between) in places.iter().zip(&self.before).zip(&self.between) {
            let value = x[*place as usize];
            if value != 0.0 {
                let (a, b) = ((between - before) / value, (value - between) / value);
                first += a * a;
                dot += a * b;
                second += b * b;
            }
        }
        let factor = dot / first;
        // What the last change has beside the one before it, to a tenth.
        let alike = second - factor * factor * first < 0.01 * second;
        if !(alike && factor > 0.5 && factor < 1.0) {
            return;
        }
        self.slowest = self.slowest.max(factor);
        for (place, between) in places.iter().zip(&self.between) {
            let value = &mut x[*place as usize];
            *value = (*value + (*value - between) * factor / (1.0 - factor)).max(0.0);
        }
        self.last.clear();
    }
}

/// Solves in place for `states`, which have the rates of leaving `leaving`; `x` holds the right-hand side there.
pub(super) fn solve<L: Lane>(
    chain: &Chain,
    states: &[u32],
    leaving: &[f64],
    krylov: Option<&Krylov>,
    x: &mut [L],
) -> Result<(), Error> {
    for place in 0..L::WIDTH {
        let mut one: Vec<f64> = x.iter().map(|lane| lane.get(place)).collect();
        if !krylov.is_some_and(|krylov| krylov.solve(chain, &mut one)) {
            solve_one(chain, states, leaving, &mut one)?;
        }
        for s in states {
            x[*s as usize].set(place, one[*s as usize]);
        }
    }
    Ok(())
}

fn solve_one(chain: &Chain, states: &[u32], leaving: &[f64], x: &mut [f64]) -> Result<(), Error> {
    let b: Vec<f64> = states.iter().map(|s| x[*s as usize]).collect();
    for s in states {
        x[*s as usize] = 0.0;
    }
    let mut change = f64::INFINITY;
    let mut settling = Settling::default();
    for _ in 0..MAX_SWEEPS {
        change = 0.0f64;
        for (place, s) in states.iter().enumerate() {
            let s = *s as usize;
            let sum: f64 = chain
                .row(s)
                .filter(|(to, _)| *to != s)
                .map(|(to, rate)| rate * x[to])
                .sum();
            let value = (b[place] + sum) / leaving[place];
            if value != 0.0 {
                change = change.max(((value - x[s]) / value).abs());
            }
            x[s] = value;
        }
        if settling.ended(change) {
            return Ok(());
        }
    }
    Err(Error::Convergence {
        iterations: MAX_SWEEPS,
        change,
        help: "the chain is large and stiff; make counters and Erlang shapes smaller",
    })
}

#[cfg(test)]
mod tests {
    use super::super::eliminate::{Factor, Made, Room};
    use super::*;
    use crate::chain::index;

    /// A ring with a way out, whose rates span six orders of magnitude.
    fn ring(size: usize, seed: u64) -> (Chain, Vec<f64>) {
        let mut state = seed;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut chain = Chain {
            rows: vec![0],
            ..Chain::default()
        };
        let mut exit = Vec::new();
        for s in 0..size {
            for step in [1, 2, 5] {
                chain.columns.push(index((s + step) % size));
                chain.rates.push(10f64.powf(draw() * 6.0 - 3.0));
            }
            chain.rows.push(chain.columns.len());
            exit.push(if s % 7 == 0 { 0.5 + draw() } else { 0.0 });
        }
        (chain, exit)
    }

    #[test]
    fn sweeps_and_elimination_agree() {
        for seed in 1..20 {
            let size = 12 + usize::try_from(seed).unwrap() * 3;
            let (chain, exit) = ring(size, seed);
            let rows: Vec<Vec<(u32, f64)>> = (0..size)
                .map(|s| chain.row(s).map(|(to, rate)| (index(to), rate)).collect())
                .collect();
            let leaving: Vec<f64> = (0..size).map(|s| chain.exit_rate(s) + exit[s]).collect();
            let mut direct = vec![1.0; size];
            let room = Room {
                entries: usize::MAX,
                bytes: u64::MAX,
            };
            let Made::Factor(factor) = Factor::make(rows, exit, room) else {
                panic!("nothing limits it");
            };
            factor.solve(&mut direct);
            let states: Vec<u32> = (0..size).map(index).collect();
            let mut swept = vec![1.0; size];
            solve(&chain, &states, &leaving, None, &mut swept).unwrap();
            for (a, b) in direct.iter().zip(&swept) {
                assert!((a / b - 1.0).abs() < 1e-8, "{seed}: {a} {b}");
            }
        }
    }
}
