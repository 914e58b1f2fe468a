//! Gauss–Seidel: the solver for components too large to eliminate where the Krylov method proves nothing, and the second opinion in
//! tests.

use std::cell::OnceCell;

use super::direct::{Direct, exits, within};
use super::eliminate::{Factor, Made, Planned, Room, least_bytes};
use super::gradients::{Gradients, STEPS};
use super::krylov::Krylov;
use super::lane::Lane;
use super::shares::Shares;
use crate::chain::{Chain, Memory};
use crate::error::Error;

pub(super) const MAX_SWEEPS: u64 = 200_000;
/// Steps of biconjugate gradients in which a solution may come near, in any case.
pub(super) const LEAST_STEPS: usize = 60;
/// Four times what a state or a transition costs in such a step, in multiplications of a dense square: a quarter of the price of
/// elimination may go to a quicker way before it shows that it is one.
const STEP_WORK: f64 = 160.0;
/// Multiplications for each state and transition up to which elimination takes a second or so.
const SOON: f64 = 50_000.0;
/// What a state or a transition costs in a sweep, in multiplications of a dense square.
const SWEEP_WORK: f64 = 5.0;
/// Multiplications beyond which nothing is eliminated: some minutes.
const LARGEST_WORK: f64 = 4e11;
/// Steps and sweeps for a component whose elimination was not planned, because it is large.
const STEPS_WITHOUT_PLAN: usize = 500;
const SWEEPS_WITHOUT_PLAN: u64 = 2_000;
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

    /// After a sweep over the values of `x`, the largest relative change of which was `change`.
    pub(super) fn settled(&mut self, x: &mut [f64], change: f64) -> bool {
        if self.ended(change) {
            return true;
        }
        self.sweeps += 1;
        if self.sweeps > LEAPS_UNTIL {
            self.slowest = 0.0;
            return false;
        }
        match self.sweeps % STRIDE {
            0 => self.leap(x),
            place if place + 2 == STRIDE => x.clone_into(&mut self.before),
            place if place + 1 == STRIDE => x.clone_into(&mut self.between),
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

    fn leap(&mut self, x: &mut [f64]) {
        let (mut first, mut dot, mut second) = (0.0, 0.0, 0.0);
        for ((value, before), between) in x.iter().zip(&self.before).zip(&self.between) {
            let value = *value;
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
        for (value, between) in x.iter_mut().zip(&self.between) {
            *value = (*value + (*value - between) * factor / (1.0 - factor)).max(0.0);
        }
        self.last.clear();
    }
}

/// A component whose elimination is dear: first biconjugate gradients, then as many sweeps as cost about what elimination would, then
/// elimination. So the price is at most a few times that of the best of the three, whichever that is.
pub(super) struct Iterate {
    states: Vec<u32>,
    leaving: Vec<f64>,
    /// The rates out of the component.
    exit: Vec<f64>,
    /// Bytes for the elimination.
    bytes: u64,
    /// `None` where they do not fit into memory or have no factor.
    krylov: Option<Krylov>,
    budget: Budget,
    direct: OnceCell<Option<Direct>>,
}

/// What may be spent on a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Steps of biconjugate gradients until the solution is near.
    pub(super) steps: usize,
    /// Sweeps after these, before it is eliminated.
    pub(super) sweeps: u64,
}

impl Budget {
    /// For a component of so many transitions and states whose elimination takes `work` multiplications.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of sweeps, which saturates"
    )]
    pub(super) fn new(work: f64, places: usize) -> Budget {
        let places = places as f64;
        if work > LARGEST_WORK {
            return Budget {
                steps: STEPS,
                sweeps: MAX_SWEEPS,
            };
        }
        let steps = (work / (places * STEP_WORK)) as usize;
        let sweeps = (work / (places * SWEEP_WORK)) as u64;
        Budget {
            steps: steps.clamp(LEAST_STEPS, STEPS),
            // What gradients cannot prove seldom settles: it is swept only where elimination takes long.
            sweeps: if work < places * SOON {
                0
            } else {
                sweeps.min(MAX_SWEEPS)
            },
        }
    }

    /// Where it is not known what elimination takes: it is planned when nothing else has settled.
    pub(super) fn without_plan() -> Budget {
        Budget {
            steps: STEPS_WITHOUT_PLAN,
            sweeps: SWEEPS_WITHOUT_PLAN,
        }
    }
}

/// The elimination of `states` when sweeps did not settle, where it is in reach: `None` where it takes too long, an error where it
/// does not fit into memory. `exit` are the rates out of all of them together.
pub(super) fn eliminated(
    chain: &Chain,
    states: &[u32],
    exit: Vec<f64>,
    bytes: u64,
) -> Result<Option<Factor>, Error> {
    let transitions = states.iter().map(|s| chain.targets(*s as usize).len()).sum();
    if least_bytes(states.len(), transitions) > bytes {
        return Err(Memory::full(chain.memory));
    }
    let mut local = vec![u32::MAX; chain.states()];
    let room = Room {
        work: LARGEST_WORK,
        bytes,
    };
    match Factor::make(within(chain, states, &mut local), exit, room) {
        Made::Factor(factor) => Ok(Some(factor)),
        Made::TooDear(_) => Ok(None),
        Made::TooLarge => Err(Memory::full(chain.memory)),
    }
}

/// The same, where it was planned already.
pub(super) fn finished(chain: &Chain, planned: Planned, bytes: u64) -> Result<Option<Factor>, Error> {
    if planned.work() > LARGEST_WORK {
        return Ok(None);
    }
    let factor = planned.finish(bytes);
    factor.map(Some).ok_or_else(|| Memory::full(chain.memory))
}

impl Iterate {
    /// Bytes for each state of sweeps alone: the names and rates above, a right-hand side, and a copy of all values.
    const BYTES: u64 = 36;

    /// The component of `states`, which have the rates of leaving that `extra` adds.
    pub(super) fn new(
        chain: &Chain,
        states: &[u32],
        extra: &impl Fn(usize) -> f64,
        budget: Budget,
        local: &mut [u32],
        spare: &mut u64,
    ) -> Result<Iterate, Error> {
        let own = chain.states() as u64 * Iterate::BYTES;
        *spare = spare.checked_sub(own).ok_or_else(|| Memory::full(chain.memory))?;
        let leaving: Vec<f64> = states
            .iter()
            .map(|s| chain.exit_rate(*s as usize) + extra(*s as usize))
            .collect();
        let exit = exits(chain, states, local, extra);
        let transitions: usize = states.iter().map(|s| chain.targets(*s as usize).len()).sum();
        let bytes = Shares::bytes(states.len(), transitions) + Gradients::bytes(states.len(), transitions);
        let krylov = if bytes <= *spare {
            Krylov::new(chain, states, &leaving, local)
        } else {
            None
        };
        if krylov.is_some() {
            *spare -= bytes;
        }
        Ok(Iterate {
            budget,
            states: states.to_vec(),
            leaving,
            exit,
            bytes: *spare,
            krylov,
            direct: OnceCell::new(),
        })
    }

    /// Solves in place; `x` holds the right-hand side in the component, and known values elsewhere.
    pub(super) fn solve<L: Lane>(&self, chain: &Chain, x: &mut [L]) -> Result<(), Error> {
        for place in 0..L::WIDTH {
            let mut one: Vec<f64> = x.iter().map(|lane| lane.get(place)).collect();
            self.solve_one(chain, &mut one)?;
            for s in &self.states {
                x[*s as usize].set(place, one[*s as usize]);
            }
        }
        Ok(())
    }

    fn solve_one(&self, chain: &Chain, x: &mut [f64]) -> Result<(), Error> {
        if let Some(Some(direct)) = self.direct.get() {
            direct.solve(x, &mut Vec::new());
            return Ok(());
        }
        if self
            .krylov
            .as_ref()
            .is_some_and(|krylov| krylov.solve(chain, x, self.budget.steps))
        {
            return Ok(());
        }
        let b: Vec<f64> = self.states.iter().map(|s| x[*s as usize]).collect();
        for s in &self.states {
            x[*s as usize] = 0.0;
        }
        let mut sweeps = Sweeps::default();
        if sweeps.run(chain, &self.states, &self.leaving, &b, x, self.budget.sweeps) {
            return Ok(());
        }
        let factor = match self.direct.get() {
            Some(_) => None,
            None => eliminated(chain, &self.states, self.exit.clone(), self.bytes)?,
        };
        let direct = self.direct.get_or_init(|| {
            let mut local = vec![u32::MAX; chain.states()];
            factor.map(|factor| Direct::new(chain, &self.states, factor, &mut local))
        });
        if let Some(direct) = direct {
            for (s, b) in self.states.iter().zip(&b) {
                x[*s as usize] = *b;
            }
            direct.solve(x, &mut Vec::new());
            return Ok(());
        }
        if sweeps.run(chain, &self.states, &self.leaving, &b, x, MAX_SWEEPS) {
            return Ok(());
        }
        Err(Error::Convergence {
            iterations: MAX_SWEEPS,
            change: sweeps.change,
            help: "the chain is large and stiff; make counters and Erlang shapes smaller",
        })
    }
}

/// Sweeps that can be taken up where they ended.
#[derive(Default)]
struct Sweeps {
    made: u64,
    /// The largest change, relative to its value, in the last sweep.
    change: f64,
    settling: Settling,
}

impl Sweeps {
    /// Sweeps over `states` until there were `limit` in all. Whether the values of `x` have settled.
    fn run(
        &mut self,
        chain: &Chain,
        states: &[u32],
        leaving: &[f64],
        b: &[f64],
        x: &mut [f64],
        limit: u64,
    ) -> bool {
        while self.made < limit {
            self.made += 1;
            self.change = 0.0;
            for (place, s) in states.iter().enumerate() {
                let s = *s as usize;
                let sum: f64 = chain
                    .row(s)
                    .filter(|(to, _)| *to != s)
                    .map(|(to, rate)| rate * x[to])
                    .sum();
                let value = (b[place] + sum) / leaving[place];
                if value != 0.0 {
                    self.change = self.change.max(((value - x[s]) / value).abs());
                }
                x[s] = value;
            }
            if self.settling.ended(self.change) {
                return true;
            }
        }
        false
    }
}

/// The second opinion of tests: `x` holds the right-hand side.
#[cfg(test)]
pub(super) fn sweep(chain: &Chain, states: &[u32], leaving: &[f64], x: &mut [f64]) {
    let b: Vec<f64> = states.iter().map(|s| x[*s as usize]).collect();
    let mut sweeps = Sweeps::default();
    assert!(
        sweeps.run(chain, states, leaving, &b, x, MAX_SWEEPS),
        "{}",
        sweeps.change
    );
}

#[cfg(test)]
mod tests {
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
                work: f64::INFINITY,
                bytes: u64::MAX,
            };
            let Made::Factor(factor) = Factor::make(rows, exit, room) else {
                panic!("nothing limits it");
            };
            factor.solve(&mut direct);
            let states: Vec<u32> = (0..size).map(index).collect();
            let mut swept = vec![1.0; size];
            sweep(&chain, &states, &leaving, &mut swept);
            for (a, b) in direct.iter().zip(&swept) {
                assert!((a / b - 1.0).abs() < 1e-8, "{seed}: {a} {b}");
            }
        }
    }
}
