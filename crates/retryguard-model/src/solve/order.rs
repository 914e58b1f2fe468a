//! An order of the states of a closed component in which incomplete factors are good ones.
//!
//! States far from a likely one, home, are eliminated first. A chain that is driven home is then nearly triangular, and no pivot is
//! small: elimination that begins at home would let errors grow with every step away from it.

use rustc_hash::FxHashMap;

use crate::chain::Chain;

/// Jumps of the walk that looks for a likely state.
const JUMPS: usize = 100_000;

/// A state in which a walk from `start` spends much time. The walk is the same in every run.
pub(super) fn likely(chain: &Chain, start: u32) -> u32 {
    let mut times: FxHashMap<u32, f64> = FxHashMap::default();
    let mut seed = 1u64;
    let mut state = start;
    for _ in 0..JUMPS {
        let leaving = chain.exit_rate(state as usize);
        *times.entry(state).or_default() += 1.0 / leaving;
        // The generator of Knuth, The Art of Computer Programming, volume 2, section 3.3.4.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut draw = (seed >> 11) as f64 / (1u64 << 53) as f64 * leaving;
        let range = chain.rows[state as usize]..chain.rows[state as usize + 1];
        let here = state;
        for (to, rate) in chain.columns[range.clone()].iter().zip(&chain.rates[range]) {
            if *to != here {
                state = *to;
                draw -= rate;
                if draw <= 0.0 {
                    break;
                }
            }
        }
    }
    let most = times
        .into_iter()
        .max_by(|(a, time), (b, other)| time.total_cmp(other).then(b.cmp(a)));
    most.map_or(start, |(state, _)| state)
}

/// The states of a closed component by the least number of steps to `home`, the farthest first.
pub(super) fn towards(chain: &Chain, component: &[u32], home: u32) -> Vec<u32> {
    let mut open = vec![false; chain.states()];
    for state in component {
        open[*state as usize] = true;
    }
    let (starts, sources) = chain.predecessors();
    let mut found = Vec::with_capacity(component.len());
    found.push(home);
    open[home as usize] = false;
    let mut place = 0;
    while let Some(state) = found.get(place) {
        let state = *state as usize;
        place += 1;
        for from in &sources[starts[state]..starts[state + 1]] {
            if std::mem::take(&mut open[*from as usize]) {
                found.push(*from);
            }
        }
    }
    found.reverse();
    found
}
