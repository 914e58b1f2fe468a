//! The long run: a chain settles in one of the components that nothing leaves, and there in its stationary distribution.

use super::direct::within;
use super::eliminate::{Factor, Made, Planned, Room};
use super::gradients::Gradients;
use super::iterate::{Budget, MAX_SWEEPS, Settling};
use super::linear::{CHEAP_WORK, solve_once};
use super::scc::components;
use super::shares::Shares;
use crate::chain::{Chain, Memory, index};
use crate::error::Error;

/// Sweeps that are made to find a likely state.
const LOOKS: usize = 20;
/// A weight at which all are made smaller, so that none overflows.
const HUGE: f64 = 1e200;

/// The long-run probability of `inner`, from every state.
pub(crate) fn steady_probability(chain: &Chain, inner: &[bool]) -> Result<Vec<f64>, Error> {
    let values: Vec<f64> = inner.iter().map(|i| if *i { 1.0 } else { 0.0 }).collect();
    long_run(chain, &values)
}

/// The long-run average of `earned`, from every state.
pub(crate) fn steady_reward(chain: &Chain, earned: &[f64]) -> Result<Vec<f64>, Error> {
    long_run(chain, earned)
}

/// The long-run average of `earned`, and by how much more than the average each state earns before the chain is where it always comes
/// back to. `None` where the chain may settle in more than one place.
pub(crate) fn relative_values(chain: &Chain, earned: &[f64]) -> Result<Option<(f64, Vec<f64>)>, Error> {
    let states = chain.states();
    let found = components(states, |s| chain.row(s).map(|(to, _)| to));
    let mut member = vec![usize::MAX; states];
    for (number, component) in found.iter().enumerate() {
        for s in component {
            member[*s as usize] = number;
        }
    }
    let mut closed = found.iter().enumerate().filter(|(number, component)| {
        component
            .iter()
            .all(|s| chain.row(*s as usize).all(|(to, _)| member[to] == *number))
    });
    let (Some((_, home)), None) = (closed.next(), closed.next()) else {
        return Ok(None);
    };
    let weights = stationary(chain, home, earned)?;
    let average: f64 = home
        .iter()
        .zip(&weights)
        .map(|(s, weight)| weight * earned[*s as usize])
        .sum();
    let mut x: Vec<f64> = earned.iter().map(|earned| earned - average).collect();
    let mut inside = vec![true; states];
    x[home[0] as usize] = 0.0;
    inside[home[0] as usize] = false;
    solve_once(chain, &inside, &mut x)?;
    Ok(Some((average, x)))
}

fn long_run(chain: &Chain, values: &[f64]) -> Result<Vec<f64>, Error> {
    let states = chain.states();
    let found = components(states, |s| chain.row(s).map(|(to, _)| to));
    let mut x = vec![0.0; states];
    let mut closed = vec![false; states];
    let mut member = vec![usize::MAX; states];
    for (number, component) in found.iter().enumerate() {
        for s in component {
            member[*s as usize] = number;
        }
        let leaves = component
            .iter()
            .any(|s| chain.row(*s as usize).any(|(to, _)| member[to] != number));
        if leaves {
            continue;
        }
        let weights = stationary(chain, component, values)?;
        let average: f64 = component
            .iter()
            .zip(&weights)
            .map(|(s, weight)| weight * values[*s as usize])
            .sum();
        for s in component {
            x[*s as usize] = average;
            closed[*s as usize] = true;
        }
    }
    let open: Vec<bool> = closed.iter().map(|c| !c).collect();
    if open.iter().any(|open| *open) {
        solve_once(chain, &open, &mut x)?;
    }
    Ok(x)
}

/// The stationary distribution of a closed component.
///
/// One state is taken as home. The expected time in each other state between two visits home solves a system without
/// subtractions, and the distribution is proportional to it. It is meant for the average of `values`: where its digits have to be proven,
/// those of the average are.
fn stationary(chain: &Chain, component: &[u32], values: &[f64]) -> Result<Vec<f64>, Error> {
    if component.len() == 1 {
        return Ok(vec![1.0]);
    }
    let (home, rest) = component.split_at(likely_first(chain, component));
    let (first, after) = rest.split_first().expect("a component has a state");
    let rest: Vec<u32> = home.iter().chain(after).copied().collect();
    let place_of_home = home.len();
    let (home, rest) = (first, rest.as_slice());
    let mut local = vec![u32::MAX; chain.states()];
    let (rows, exit) = within(chain, rest, &mut local, &|_| 0.0);
    for (place, s) in rest.iter().enumerate() {
        local[*s as usize] = index(place);
    }
    let mut inflow = vec![0.0; rest.len()];
    for (to, rate) in chain.row(*home as usize) {
        if to != *home as usize {
            inflow[local[to] as usize] += rate;
        }
    }
    let transitions: usize = rows.iter().map(Vec::len).sum();
    let spare = Memory::spare(chain.memory);
    let room = Room {
        work: CHEAP_WORK * transitions as f64,
        bytes: spare,
    };
    let times = match Factor::make(rows.clone(), exit.clone(), room) {
        Made::Factor(factor) => {
            factor.solve_transposed(&mut inflow);
            inflow
        }
        Made::TooLarge => return Err(Memory::full(chain.memory)),
        Made::TooDear(planned) => {
            let budget = Budget::new(planned.work(), rest.len() + transitions, spare);
            let balance = Balance::new(&rows, &exit, &inflow);
            drop(rows);
            let wanted: Vec<f64> = rest.iter().map(|s| values[*s as usize]).collect();
            let fits = Gradients::bytes(rest.len(), transitions) + planned.bytes() <= spare;
            match fits
                .then(|| balance.by_gradients(budget.steps, &wanted))
                .flatten()
            {
                Some(times) => times,
                None => balance.by_sweeps(&budget, *planned)?,
            }
        }
    };
    let total: f64 = 1.0 + times.iter().sum::<f64>();
    let mut weights: Vec<f64> = times.iter().map(|time| time / total).collect();
    weights.insert(place_of_home, 1.0 / total);
    Ok(weights)
}

/// The place of a state that is among the likely ones: times are counted per visit home, and a home that is visited once in 1e300
/// would make them overflow, one that is visited once in a million makes their digits hard to prove.
///
/// The weights are swept to and fro from equal ones: they need not settle, only gather where the chain is driven to.
fn likely_first(chain: &Chain, component: &[u32]) -> usize {
    let mut local = vec![u32::MAX; chain.states()];
    for (place, s) in component.iter().enumerate() {
        local[*s as usize] = index(place);
    }
    let leaving: Vec<f64> = component.iter().map(|s| chain.exit_rate(*s as usize)).collect();
    let mut sources: Vec<Vec<(u32, f64)>> = vec![Vec::new(); component.len()];
    for (place, s) in component.iter().enumerate() {
        for (to, rate) in chain.row(*s as usize).filter(|(to, _)| *to != *s as usize) {
            let to = local[to] as usize;
            sources[to].push((index(place), rate / leaving[to]));
        }
    }
    let balance = Shares::new(sources.iter_mut());
    let size = component.len();
    let mut weights = vec![1.0; size];
    for look in 0..LOOKS {
        for step in 0..size {
            let i = if look % 2 == 0 { step } else { size - 1 - step };
            let mut weight = balance.spread(i, &weights);
            if weight > HUGE {
                weight /= HUGE;
                for weight in &mut weights {
                    *weight /= HUGE;
                }
            }
            weights[i] = weight;
        }
    }
    (0..size)
        .max_by(|a, b| weights[*a].total_cmp(&weights[*b]))
        .unwrap_or(0)
}

/// The balance of flows: what leaves a state is what flows into it.
struct Balance<'b> {
    /// The predecessors of each state, with their rates.
    sources: Vec<Vec<(u32, f64)>>,
    leaving: Vec<f64>,
    inflow: &'b [f64],
}

impl<'b> Balance<'b> {
    fn new(rows: &[Vec<(u32, f64)>], exit: &[f64], inflow: &'b [f64]) -> Balance<'b> {
        let mut sources: Vec<Vec<(u32, f64)>> = vec![Vec::new(); rows.len()];
        for (s, row) in rows.iter().enumerate() {
            for (to, rate) in row {
                sources[*to as usize].push((index(s), *rate));
            }
        }
        let leaving = rows
            .iter()
            .zip(exit)
            .map(|(row, exit)| row.iter().map(|(_, rate)| rate).sum::<f64>() + exit)
            .collect();
        Balance {
            sources,
            leaving,
            inflow,
        }
    }

    /// For the visits to each state rather than the time in it: they have the form that [`Gradients`] solves. What is proven are the time
    /// between two visits home and what `wanted` comes to in it; where some of `wanted` is negative, the time in every state.
    fn by_gradients(&self, steps: usize, wanted: &[f64]) -> Option<Vec<f64>> {
        let sums = if wanted.iter().any(|value| *value < 0.0) {
            Vec::new()
        } else {
            let times: Vec<f64> = self.leaving.iter().map(|leaving| 1.0 / leaving).collect();
            let values = times
                .iter()
                .zip(wanted)
                .map(|(time, value)| time * value)
                .collect();
            vec![times, values]
        };
        let mut rows: Vec<Vec<(u32, f64)>> = self
            .sources
            .iter()
            .map(|sources| {
                let shares = sources.iter();
                shares
                    .map(|(from, rate)| (*from, rate / self.leaving[*from as usize]))
                    .collect()
            })
            .collect();
        let visits = Gradients::new(Shares::new(rows.iter_mut()))?.answer(self.inflow, steps, &sums)?;
        Some(
            visits
                .iter()
                .zip(&self.leaving)
                .map(|(visits, leaving)| visits / leaving)
                .collect(),
        )
    }

    /// Gauss–Seidel, and elimination where it does not settle in time.
    fn by_sweeps(&self, budget: &Budget, planned: Planned) -> Result<Vec<f64>, Error> {
        let mut x = vec![0.0f64; self.leaving.len()];
        let mut change = f64::INFINITY;
        let mut settling = Settling::default();
        let places: Vec<u32> = (0..x.len()).map(index).collect();
        let mut planned = Some(planned);
        for sweep in 0..MAX_SWEEPS {
            if sweep == budget.sweeps
                && let Some(planned) = planned.take()
                && let Some(factor) = budget.finish(planned)
            {
                let mut times = self.inflow.to_vec();
                factor.solve_transposed(&mut times);
                return Ok(times);
            }
            change = 0.0;
            for (s, sources) in self.sources.iter().enumerate() {
                let sum: f64 = sources.iter().map(|(from, rate)| rate * x[*from as usize]).sum();
                let value = (self.inflow[s] + sum) / self.leaving[s];
                if value > 0.0 {
                    change = f64::max(change, ((value - x[s]) / value).abs());
                }
                x[s] = value;
            }
            if settling.settled(&places, &mut x, change) {
                return Ok(x);
            }
        }
        Err(Error::Convergence {
            iterations: MAX_SWEEPS,
            change,
            help: "the chain is large and mixes slowly; make counters and Erlang shapes smaller",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A ring with chords, seen from its first state.
        #[test]
        fn an_average_by_gradients_is_that_of_elimination_or_refused(
            size in 3..80usize,
            chords in prop::collection::vec((0..1000usize, 0..1000usize, -2.0..2.0), 0..200),
            wanted in prop::collection::vec(prop_oneof![Just(0.0), 0.1..10.0], 80),
        ) {
            let (mut rows, mut exit, mut inflow) = (vec![Vec::new(); size], vec![0.0; size], vec![0.0; size]);
            (inflow[0], exit[size - 1]) = (1.0, 1.0);
            for (s, row) in rows.iter_mut().enumerate().take(size - 1) {
                row.push((index(s + 1), 1.0));
            }
            for (from, to, height) in &chords {
                let (from, to, rate) = (from % size, to % size, 10f64.powf(*height));
                if from == to {
                    exit[from] += rate;
                } else if rows[from].iter().all(|(known, _)| *known as usize != to) {
                    rows[from].push((index(to), rate));
                }
            }
            let wanted = &wanted[..size];
            let found = Balance::new(&rows, &exit, &inflow).by_gradients(500, wanted);
            let room = Room { work: f64::INFINITY, bytes: u64::MAX };
            let Made::Factor(factor) = Factor::make(rows, exit, room) else {
                panic!("nothing limits it");
            };
            let mut exact = inflow;
            factor.solve_transposed(&mut exact);
            if let Some(found) = found {
                let sum = |times: &[f64]| times.iter().zip(wanted).map(|(time, value)| time * value).sum::<f64>();
                let (a, b) = (sum(&found), sum(&exact));
                prop_assert!((a - b).abs() <= 1e-9 * b, "{} {}", a, b);
                let (a, b): (f64, f64) = (found.iter().sum(), exact.iter().sum());
                prop_assert!((a - b).abs() <= 1e-9 * b, "{} {}", a, b);
            }
        }
    }

    /// Two walks that are driven to the middle by rates ten orders apart: the ends are beyond what a double can say.
    #[test]
    fn home_is_likely_however_steep_the_chain() {
        let size: usize = 120;
        let mut chain = Chain {
            rows: vec![0],
            ..Chain::default()
        };
        for s in 0..size {
            for (to, inwards) in [(s.wrapping_sub(1), s > 50), (s + 1, s < 50)] {
                if to < size {
                    chain.columns.push(index(to));
                    chain.rates.push(if inwards { 1e5 } else { 1e-5 });
                }
            }
            chain.rows.push(chain.columns.len());
        }
        let all: Vec<u32> = (0..size).map(index).collect();
        assert_eq!(likely_first(&chain, &all), 50);
        let values: Vec<f64> = (0..size).map(|s| s as f64).collect();
        for found in steady_reward(&chain, &values).unwrap() {
            assert!((found - 50.0).abs() < 1e-9, "{found}");
        }
    }
}
