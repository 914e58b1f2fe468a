//! Linear systems on chains: `rate(s) x(s) = b(s) + Σ q(s,t) x(t)` over the states that are asked for.

use super::direct::{Direct, exits, within};
use super::eliminate::{Factor, Made, Room, least_bytes};
use super::gradients::Gradients;
use super::iterate::{Budget, Iterate, LEAST_STEPS};
use super::krylov::{Krylov, right_side};
use super::lane::Lane;
use super::scc::{Components, components};
use super::shares::{Settled, Shares};
use crate::chain::{Chain, Memory};
use crate::error::Error;

/// Multiplications for each transition up to which a component is eliminated without trying anything else.
pub(super) const CHEAP_WORK: f64 = 4_000.0;

/// States from which on a component is swept some times before it is eliminated.
const LARGE: usize = 500;

/// A system made ready: its factors serve any number of right-hand sides.
pub(super) struct System<'c> {
    chain: &'c Chain,
    /// The order of solution.
    parts: Vec<Part>,
}

enum Part {
    /// A state that leads nowhere within its component, with one over its rate of leaving.
    Single(u32, f64),
    Direct(Box<Direct>),
    /// A component whose elimination is dear.
    Iterate(Box<Iterate>),
}

impl<'c> System<'c> {
    /// The system over the states where `inside` holds; transitions to others count as leaving, and `extra` adds rates of
    /// leaving that the chain does not list. Factors are paid from the bytes in `spare`.
    pub(super) fn new(
        chain: &'c Chain,
        inside: &[bool],
        extra: impl Fn(usize) -> f64,
        spare: &mut u64,
    ) -> Result<System<'c>, Error> {
        let states = chain.states() as u64;
        if states * Components::BYTES > *spare {
            return Err(Memory::full(chain.memory));
        }
        let found = components_within(chain, inside);
        // The list of parts, which may grow to twice what it holds, and what is counted below.
        let lists = states * (2 * size_of::<Part>() as u64 + 12);
        *spare = spare
            .checked_sub(lists)
            .ok_or_else(|| Memory::full(chain.memory))?;
        let mut local = vec![u32::MAX; chain.states()];
        let mut parts = Vec::new();
        for component in found.iter() {
            let first = component[0] as usize;
            if !inside[first] {
                continue;
            }
            if component.len() == 1 {
                parts.push(Part::Single(
                    component[0],
                    1.0 / (chain.exit_rate(first) + extra(first)),
                ));
                continue;
            }
            parts.push(part(chain, component, &mut local, &extra, spare)?);
        }
        Ok(System { chain, parts })
    }

    /// Solves in place: `x` holds `b` where the system is, and known values elsewhere, which count through the transitions
    /// that lead there.
    pub(super) fn solve<L: Lane>(&self, x: &mut [L]) -> Result<(), Error> {
        let mut scratch: Vec<L> = Vec::new();
        for part in &self.parts {
            part.solve(self.chain, x, &mut scratch)?;
        }
        Ok(())
    }
}

impl Part {
    fn solve<L: Lane>(&self, chain: &Chain, x: &mut [L], scratch: &mut Vec<L>) -> Result<(), Error> {
        match self {
            Part::Single(state, scale) => {
                let s = *state as usize;
                let mut sum = x[s];
                for (to, rate) in chain.row(s) {
                    if to != s {
                        sum.add_scaled(rate, x[to]);
                    }
                }
                x[s] = sum.scaled(*scale);
            }
            Part::Direct(direct) => direct.solve(x, scratch),
            Part::Iterate(iterate) => iterate.solve(chain, x)?,
        }
        Ok(())
    }
}

/// The same for one right-hand side. A factor is then only worth its price where sweeps do not settle soon, and each is forgotten when
/// its component is solved.
pub(super) fn solve_once(chain: &Chain, inside: &[bool], x: &mut [f64]) -> Result<(), Error> {
    let states = chain.states() as u64;
    Memory::fits(chain.memory, states * Components::BYTES)?;
    let mut local = vec![u32::MAX; chain.states()];
    let mut scratch = Vec::new();
    for component in components_within(chain, inside).iter() {
        let first = component[0];
        if !inside[first as usize] {
            continue;
        }
        if component.len() == 1 {
            Part::Single(first, 1.0 / chain.exit_rate(first as usize)).solve(chain, x, &mut scratch)?;
            continue;
        }
        // What was found, and the list above.
        let mut spare = Memory::spare(chain.memory).saturating_sub(12 * states);
        let transitions = component.iter().map(|s| chain.row(*s as usize).count()).sum();
        if component.len() >= LARGE
            && Shares::settling_bytes(component.len(), transitions) <= spare
            && settle(chain, component, &mut local, x, spare)
        {
            continue;
        }
        part(chain, component, &mut local, &|_| 0.0, &mut spare)?.solve(chain, x, &mut scratch)?;
    }
    Ok(())
}

/// Solves a component in place by a few sweeps, or by a few steps of gradients where sweeps show that these settle soon: a plan of the
/// elimination costs more. Otherwise `x` is left as it was.
fn settle(chain: &Chain, component: &[u32], local: &mut [u32], x: &mut [f64], spare: u64) -> bool {
    let leaving: Vec<f64> = component.iter().map(|s| chain.exit_rate(*s as usize)).collect();
    let shares = Shares::within(chain, component, &leaving, local);
    match shares.settle(&right_side(chain, component, &leaving, x)) {
        Settled::Solved(found) => {
            for (s, value) in component.iter().zip(found) {
                x[*s as usize] = value;
            }
            true
        }
        Settled::Soon => {
            let entries = shares.entries();
            let bytes = Shares::bytes(component.len(), entries) + Gradients::bytes(component.len(), entries);
            bytes <= spare
                && Krylov::of(shares, component, &leaving)
                    .is_some_and(|krylov| krylov.solve(chain, x, LEAST_STEPS))
        }
        Settled::No => false,
    }
}

/// The components of the states where `inside` holds, and every other state by itself.
fn components_within(chain: &Chain, inside: &[bool]) -> Components {
    let row = |s: usize| if inside[s] { chain.targets(s) } else { &[] };
    components(chain.states(), row, |to| inside[to])
}

fn part(
    chain: &Chain,
    component: &[u32],
    local: &mut [u32],
    extra: &impl Fn(usize) -> f64,
    spare: &mut u64,
) -> Result<Part, Error> {
    let transitions: usize = component.iter().map(|s| chain.targets(*s as usize).len()).sum();
    let room = Room {
        work: CHEAP_WORK * transitions as f64,
        // The exits are kept beside what is eliminated.
        bytes: spare.saturating_sub(16 * component.len() as u64),
    };
    let mut budget = Budget::without_plan();
    if least_bytes(component.len(), transitions) <= room.bytes {
        let exit = exits(chain, component, local, extra);
        match Factor::make(within(chain, component, local), exit, room) {
            Made::Factor(factor) => {
                let direct = Direct::new(chain, component, factor, local);
                *spare = spare.saturating_sub(direct.bytes());
                return Ok(Part::Direct(Box::new(direct)));
            }
            Made::TooDear(planned) => budget = Budget::new(planned.work(), component.len() + transitions),
            Made::TooLarge => {}
        }
    }
    let iterate = Iterate::new(chain, component, extra, budget, local, spare)?;
    Ok(Part::Iterate(Box::new(iterate)))
}
