//! The states in which a model starts.

use super::successors::state_error;
use crate::error::Error;
use crate::program::Program;

/// How many combinations of values an `init` block may range over.
const MAX_CANDIDATES: u64 = 10_000_000;

pub(super) fn initial_states(program: &Program) -> Result<Vec<Vec<i64>>, Error> {
    let Some((condition, span)) = &program.init else {
        return Ok(vec![program.variables.iter().map(|v| v.init).collect()]);
    };
    let candidates = program
        .variables
        .iter()
        .try_fold(1u64, |product, variable| {
            product.checked_mul(variable.high.abs_diff(variable.low).checked_add(1)?)
        })
        .filter(|candidates| *candidates <= MAX_CANDIDATES);
    if candidates.is_none() {
        return Err(Error::Limit {
            what: "combinations of values for the `init` block",
            limit: MAX_CANDIDATES,
            help: "give initial values to the variables instead",
        });
    }
    let mut state: Vec<i64> = program.variables.iter().map(|v| v.low).collect();
    let mut found = Vec::new();
    loop {
        let holds = condition
            .truth(&state)
            .map_err(|fault| state_error(program, &state, fault.reason().to_owned(), *span))?;
        if holds {
            found.push(state.clone());
        }
        let mut place = 0;
        loop {
            if place == state.len() {
                if found.is_empty() {
                    return Err(Error::at(*span, "no state satisfies the `init` block"));
                }
                return Ok(found);
            }
            if state[place] < program.variables[place].high {
                state[place] += 1;
                break;
            }
            state[place] = program.variables[place].low;
            place += 1;
        }
    }
}
