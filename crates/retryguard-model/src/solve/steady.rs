//! The long run: a chain settles in one of the components that nothing leaves, and there in its stationary distribution.

use super::bias;
use super::direct::{exits, within};
use super::eliminate::{Factor, Made, Planned, Room, least_bytes};
use super::gradients::Gradients;
use super::iterate::{Budget, MAX_SWEEPS, Settling, eliminated, finished};
use super::linear::{CHEAP_WORK, solve_once};
use super::scc::{Components, components};
use super::shares::Shares;
use crate::chain::{Chain, Memory};
use crate::error::Error;

/// Sweeps that are made to find a likely state.
const LOOKS: usize = 20;
/// A weight at which all are made smaller, so that none overflows.
const HUGE: f64 = 1e200;
/// States up to which elimination is planned before anything else is tried. In larger components the plan alone costs more than most
/// solutions.
const PLANNED: usize = 100_000;
/// States from which on an average is first sought by the bias.
const MANY: usize = 1_000;
/// Steps of that where elimination may be cheap: about its price.
const FEW_STEPS: usize = 100;

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
    let (found, member) = members(chain)?;
    let mut closed = found
        .iter()
        .enumerate()
        .filter(|(number, component)| component.iter().all(|s| stays(chain, &member, *s, *number)));
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

/// The components of a chain, and the number of that of each state.
fn members(chain: &Chain) -> Result<(Components, Vec<u32>), Error> {
    let states = chain.states();
    Memory::fits(chain.memory, states as u64 * (Components::BYTES + 4))?;
    let found = components(states, |s| chain.targets(s), |_| true);
    let mut member = vec![u32::MAX; states];
    for (number, component) in (0..).zip(found.iter()) {
        for s in component {
            member[*s as usize] = number;
        }
    }
    Ok((found, member))
}

/// Whether every transition of a state stays in the component with that number.
fn stays(chain: &Chain, member: &[u32], state: u32, number: usize) -> bool {
    let targets = chain.targets(state as usize);
    targets.iter().all(|to| member[*to as usize] as usize == number)
}

fn long_run(chain: &Chain, values: &[f64]) -> Result<Vec<f64>, Error> {
    let states = chain.states();
    let (found, member) = members(chain)?;
    let mut x = vec![0.0; states];
    let mut open = vec![true; states];
    for (number, component) in found.iter().enumerate() {
        if !component.iter().all(|s| stays(chain, &member, *s, number)) {
            continue;
        }
        let average = average(chain, component, values)?;
        for s in component {
            x[*s as usize] = average;
            open[*s as usize] = false;
        }
    }
    if open.iter().any(|open| *open) {
        solve_once(chain, &open, &mut x)?;
    }
    Ok(x)
}

/// The average of `values` over the stationary distribution of a closed component.
fn average(chain: &Chain, component: &[u32], values: &[f64]) -> Result<f64, Error> {
    let size = component.len();
    let transitions: usize = component.iter().map(|s| chain.targets(*s as usize).len()).sum();
    if size >= MANY && bias::bytes(chain.states(), size, transitions) <= Memory::spare(chain.memory) {
        let steps = if size > PLANNED { bias::STEPS } else { FEW_STEPS };
        if let Some(average) = bias::average(chain, component, values, steps) {
            return Ok(average);
        }
    }
    let weights = stationary(chain, component, values)?;
    let parts = component.iter().zip(&weights);
    Ok(parts.map(|(s, weight)| weight * values[*s as usize]).sum())
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
    let full = || Memory::full(chain.memory);
    let size = component.len();
    let transitions: usize = component.iter().map(|s| chain.targets(*s as usize).len()).sum();
    let own = Visits::bytes(chain.states(), size, transitions);
    let spare = Memory::spare(chain.memory).checked_sub(own).ok_or_else(full)?;
    let mut visits = Visits::new(chain, component);
    let home = visits.begin();
    let mut elimination = Elimination::Unknown;
    if size <= PLANNED && least_bytes(size, transitions) <= spare {
        let room = Room {
            work: CHEAP_WORK * transitions as f64,
            bytes: spare,
        };
        let (rest, exit) = without(chain, component, home);
        let rows = within(chain, &rest, &mut vec![u32::MAX; chain.states()]);
        elimination = match Factor::make(rows, exit, room) {
            Made::Factor(factor) => {
                return Ok(shares_of_time(visits.by_factor(&factor, home), &visits.leaving));
            }
            Made::TooDear(planned) => Elimination::Planned(planned),
            Made::TooLarge => Elimination::OutOfReach,
        };
    }
    let (budget, planned) = match &elimination {
        Elimination::Planned(planned) => (Budget::new(planned.work(), size + transitions), planned.bytes()),
        Elimination::Unknown | Elimination::OutOfReach => (Budget::without_plan(), 0),
    };
    let left = spare.saturating_sub(planned);
    if Gradients::bytes(size, transitions) <= left {
        let wanted: Vec<f64> = component.iter().map(|s| values[*s as usize]).collect();
        if let Some(found) = visits.by_gradients(budget.steps, &wanted) {
            return Ok(shares_of_time(found, &visits.leaving));
        }
    }
    let sweeping = size as u64 * Visits::SWEEPING;
    if sweeping > left {
        return Err(full());
    }
    let spare = spare - sweeping;
    // Where a factor does not fit, sweeps go on: those of a closed component settle at last.
    let eliminate = || match elimination {
        Elimination::Planned(planned) => finished(chain, *planned, spare).ok().flatten(),
        Elimination::OutOfReach => None,
        Elimination::Unknown => {
            let (rest, exit) = without(chain, component, home);
            eliminated(chain, &rest, exit, spare).ok().flatten()
        }
    };
    let found = visits.by_sweeps(budget.sweeps, home, eliminate)?;
    Ok(shares_of_time(found, &visits.leaving))
}

/// What is known of the elimination of a component.
enum Elimination {
    /// It was not planned: the component is large.
    Unknown,
    Planned(Box<Planned>),
    /// It does not fit into memory.
    OutOfReach,
}

/// A component without the state at the place `home`, and the rates with which each other one leads there.
fn without(chain: &Chain, component: &[u32], home: usize) -> (Vec<u32>, Vec<f64>) {
    let rest: Vec<u32> = [&component[..home], &component[home + 1..]].concat();
    let exit = exits(chain, &rest, &mut vec![u32::MAX; chain.states()], &|_| 0.0);
    (rest, exit)
}

/// The parts of all time that are spent in each state, from the visits to it.
fn shares_of_time(mut visits: Vec<f64>, leaving: &[f64]) -> Vec<f64> {
    for (visits, leaving) in visits.iter_mut().zip(leaving) {
        *visits /= leaving;
    }
    let total: f64 = visits.iter().sum();
    for time in &mut visits {
        *time /= total;
    }
    visits
}

/// Visits to each state of a closed component between two visits to one of them, home, which is visited once. They have the form that
/// [`Shares`] solve, without a copy of the chain that is larger than the chain.
struct Visits {
    /// What each state has of the visits to each other one; from home, and to home, nothing once home is chosen.
    shares: Shares,
    leaving: Vec<f64>,
    /// What each state has of a visit home.
    first: Vec<f64>,
    /// About the solution.
    near: Vec<f64>,
}

impl Visits {
    /// Bytes for each state that sweeps take: the values, two earlier ones, their places, and what elimination hands back.
    const SWEEPING: u64 = 44;

    /// Bytes for a component of so many of the states: the shares, four vectors, and the places of states.
    fn bytes(states: usize, size: usize, transitions: usize) -> u64 {
        Shares::bytes(size, transitions) + (size as u64) * (8 * 4 + 8) + (states as u64) * 8
    }

    fn new(chain: &Chain, component: &[u32]) -> Visits {
        let leaving: Vec<f64> = component.iter().map(|s| chain.exit_rate(*s as usize)).collect();
        Visits {
            shares: Shares::inwards(chain, component, &leaving),
            first: vec![0.0; component.len()],
            near: leaving.clone(),
            leaving,
        }
    }

    /// Chooses the home and returns its place: a state that is among the likely ones. A home that is visited once in 1e300 would make the
    /// visits to others overflow, one that is visited once in a million makes their digits hard to prove.
    ///
    /// The visits are swept to and fro from equal times in every state: they need not settle, only gather where the chain is driven to.
    fn begin(&mut self) -> usize {
        let size = self.leaving.len();
        let (shares, visits) = (&self.shares, &mut self.near);
        for look in 0..LOOKS {
            for step in 0..size {
                let i = if look % 2 == 0 { step } else { size - 1 - step };
                let mut value = shares.spread(i, visits);
                if value > HUGE {
                    value /= HUGE;
                    for visits in visits.iter_mut() {
                        *visits /= HUGE;
                    }
                }
                visits[i] = value;
            }
        }
        let time = |place: &usize| visits[*place] / self.leaving[*place];
        let home = (0..size).max_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(0);
        self.settle_at(home);
        home
    }

    /// Takes home out of the shares: it is visited once, and what flows in from it is known.
    fn settle_at(&mut self, home: usize) {
        let scale = self.near[home];
        for visits in &mut self.near {
            *visits /= scale;
        }
        let shares = &mut self.shares;
        for (place, first) in self.first.iter_mut().enumerate() {
            let range = shares.starts[place]..shares.starts[place + 1];
            if place == home {
                shares.values[range].fill(0.0);
                *first = 1.0;
            } else if let Ok(at) =
                shares.columns[range.clone()].binary_search_by(|from| (*from as usize).cmp(&home))
            {
                *first = std::mem::take(&mut shares.values[range.start + at]);
            }
        }
    }

    /// By the factor of all states but home.
    fn by_factor(&self, factor: &Factor, home: usize) -> Vec<f64> {
        // A factor is one of rates: it takes what flows in for a visit home, and hands out times.
        let mut times = self.first.clone();
        times.remove(home);
        factor.solve_transposed(&mut times);
        times.insert(home, 1.0 / self.leaving[home]);
        for (time, leaving) in times.iter_mut().zip(&self.leaving) {
            *time *= leaving;
        }
        times
    }

    /// What is proven are the time between two visits home and what `wanted` comes to in it; where some of `wanted` is negative, the
    /// visits to every state.
    fn by_gradients(&mut self, steps: usize, wanted: &[f64]) -> Option<Vec<f64>> {
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
        let gradients = match Gradients::new(std::mem::take(&mut self.shares)) {
            Ok(gradients) => gradients,
            Err(shares) => {
                self.shares = shares;
                return None;
            }
        };
        let near = std::mem::take(&mut self.near);
        // What the first sweeps have left at 0 has no height to begin with.
        let found = if near.iter().all(|near| *near > 0.0 && near.is_finite()) {
            gradients.answer_from(near, &self.first, steps, &sums)
        } else {
            gradients.answer(&self.first, steps, &sums)
        };
        self.shares = gradients.into_shares();
        found
    }

    /// Gauss–Seidel, and after `limit` sweeps elimination where it is in reach.
    fn by_sweeps(
        &self,
        limit: u64,
        home: usize,
        eliminate: impl FnOnce() -> Option<Factor>,
    ) -> Result<Vec<f64>, Error> {
        let mut x = vec![0.0f64; self.leaving.len()];
        let mut change = f64::INFINITY;
        let mut settling = Settling::default();
        let mut eliminate = Some(eliminate);
        for sweep in 0..MAX_SWEEPS {
            if sweep == limit
                && let Some(eliminate) = eliminate.take()
                && let Some(factor) = eliminate()
            {
                return Ok(self.by_factor(&factor, home));
            }
            change = 0.0;
            for place in 0..x.len() {
                let value = self.first[place] + self.shares.spread(place, &x);
                if value > 0.0 {
                    change = f64::max(change, ((value - x[place]) / value).abs());
                }
                x[place] = value;
            }
            if settling.settled(&mut x, change) {
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
    use crate::chain::index;

    proptest! {
        /// A ring with chords. Some states earn nothing.
        #[test]
        fn every_way_finds_the_average_of_elimination_or_refuses(
            size in 3..80usize,
            chords in prop::collection::vec((0..1000usize, 0..1000usize, -2.0..2.0), 0..200),
            wanted in prop::collection::vec(prop_oneof![Just(0.0), 0.1..10.0], 80),
        ) {
            let mut rows: Vec<Vec<(usize, f64)>> = (0..size).map(|s| vec![((s + 1) % size, 1.0)]).collect();
            for (from, to, height) in &chords {
                let (from, to, rate) = (from % size, to % size, 10f64.powf(*height));
                if rows[from].iter().all(|(known, _)| *known != to) {
                    rows[from].push((to, rate));
                }
            }
            let mut chain = Chain { rows: vec![0], ..Chain::default() };
            for (to, rate) in rows.into_iter().flat_map(|row| row.into_iter().map(Some).chain([None])).map(Option::unzip) {
                chain.columns.extend(to.map(index));
                chain.rates.extend(rate);
                if to.is_none() {
                    chain.rows.push(chain.columns.len());
                }
            }
            let all: Vec<u32> = (0..size).map(index).collect();
            let wanted = &wanted[..size];
            let mut visits = Visits::new(&chain, &all);
            let home = visits.begin();
            let (rest, exit) = without(&chain, &all, home);
            let factor = eliminated(&chain, &rest, exit, u64::MAX).unwrap().expect("nothing limits it");
            let average = |visits: Vec<f64>, leaving: &[f64]| -> f64 {
                let times = shares_of_time(visits, leaving);
                times.iter().zip(wanted).map(|(time, value)| time * value).sum()
            };
            let exact = average(visits.by_factor(&factor, home), &visits.leaving);
            let swept = average(visits.by_sweeps(u64::MAX, home, || None).unwrap(), &visits.leaving);
            prop_assert!((swept - exact).abs() <= 1e-8 * exact, "{} {}", swept, exact);
            if let Some(found) = visits.by_gradients(500, wanted) {
                let found = average(found, &visits.leaving);
                prop_assert!((found - exact).abs() <= 2e-9 * exact, "{} {}", found, exact);
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
        assert_eq!(Visits::new(&chain, &all).begin(), 50);
        let values: Vec<f64> = (0..size).map(|s| s as f64).collect();
        for found in steady_reward(&chain, &values).unwrap() {
            assert!((found - 50.0).abs() < 1e-9, "{found}");
        }
    }
}
