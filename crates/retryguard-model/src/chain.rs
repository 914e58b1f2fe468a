//! A continuous-time Markov chain in compressed rows.

use rustc_hash::FxHashMap;

use crate::error::{Error, MEMORY};

/// States are numbered from zero in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    /// Where the transitions of each state start, and at the end where the last ones stop.
    pub(crate) rows: Vec<usize>,
    pub(crate) columns: Vec<u32>,
    pub(crate) rates: Vec<f64>,
    pub(crate) initial: Vec<u32>,
    /// For each wanted reward structure: what a state earns per unit of time.
    pub(crate) state_rewards: Vec<Vec<f64>>,
    /// For each wanted reward structure: what the transitions of a state earn per unit of time.
    pub(crate) transition_rewards: Vec<Vec<f64>>,
    /// For each wanted condition: where it holds.
    pub(crate) conditions: Vec<Vec<bool>>,
    /// For each wanted number: its value in each state.
    pub(crate) values: Vec<Vec<f64>>,
    /// States that nothing leaves, which were given a loop.
    pub(crate) deadlocks: Vec<u32>,
    /// The first of them, as an answer shows it.
    pub(crate) first_deadlock: Option<String>,
    /// Where exploration stopped because nothing asked depends on what follows.
    pub(crate) stopped: Vec<bool>,
    /// Where exploration stopped because the state is too unlikely.
    pub(crate) cut: Vec<u32>,
    pub(crate) levels: Option<Levels>,
    /// For each counter whose end is taken to be out of reach.
    pub(crate) rises: Vec<Rises>,
    /// The values of the variables, state after state, if they were wanted.
    pub(crate) valuations: Vec<i64>,
    /// The memory limit for solving; `None` where memory is not counted.
    pub(crate) memory: Option<Memory>,
}

/// Where a counter rises within a run of values that are taken as one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rises {
    /// For each state, whether the counter is in the run.
    pub(crate) inside: Vec<bool>,
    /// Transitions by which it rises: from, to, rate. The rows of the chain have them too.
    pub(crate) moves: Vec<(u32, u32, f64)>,
    /// Transitions by which it is set to a value of the run, and begins anew.
    pub(crate) resets: Vec<(u32, u32, f64)>,
    /// Transitions to a higher level that set it back as well: from and to, in order.
    pub(crate) resetting_exits: Vec<(u32, u32)>,
    /// Whether a transition to a higher level was met that rises as well, or both sets it back and does not.
    pub(crate) unclear: bool,
}

/// The bytes that a check may take, and those that the chain took of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) limit: u64,
    pub(crate) used: u64,
}

impl Memory {
    /// Bytes that may still be taken.
    pub(crate) fn spare(memory: Option<Memory>) -> u64 {
        memory.map_or(u64::MAX, |memory| memory.limit.saturating_sub(memory.used))
    }

    /// Whether so many bytes more may be taken, asked before they are.
    pub(crate) fn fits(memory: Option<Memory>, bytes: u64) -> Result<(), Error> {
        if bytes > Memory::spare(memory) {
            return Err(Memory::full(memory));
        }
        Ok(())
    }

    /// The same of a text that is made of the chain.
    pub(crate) fn text_fits(memory: Option<Memory>, bytes: u64) -> Result<(), Error> {
        if bytes > Memory::spare(memory) {
            return Err(Error::Limit {
                what: MEMORY,
                limit: memory.map_or(u64::MAX, |memory| memory.limit),
                help: "the chain fits, its text does not: raise it with --max-memory, or make counters and Erlang shapes smaller",
            });
        }
        Ok(())
    }

    /// Said when what solves a chain does not fit.
    pub(crate) fn full(memory: Option<Memory>) -> Error {
        Error::Limit {
            what: MEMORY,
            limit: memory.map_or(u64::MAX, |memory| memory.limit),
            help: "the chain fits; the factors, vectors or steps that solve it do not: raise it with --max-memory, or make counters and Erlang \
                   shapes smaller",
        }
    }
}

/// A counter that only rises: which of its heights have equal blocks.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) variable: usize,
    /// The height at which the model starts.
    pub(crate) bottom: i64,
    /// The block of each height from the bottom up.
    pub(crate) class: Vec<u32>,
    /// A height of each block.
    pub(crate) representatives: Vec<i64>,
    /// Blocks entered from each block by a rise.
    pub(crate) above: FxHashMap<(u32, u32), Vec<u32>>,
}

impl Level {
    pub(crate) fn class_of(&self, height: i64) -> u32 {
        let place = usize::try_from(height - self.bottom).expect("a level variable only rises");
        self.class[place]
    }

    /// The block of the height at `place`, counted from the bottom.
    pub(crate) fn class_at(&self, place: usize) -> u32 {
        self.class[place]
    }

    pub(crate) fn representative(&self, class: u32) -> i64 {
        self.representatives[class as usize]
    }

    /// The blocks that a rise may enter, by the height it starts from.
    pub(crate) fn above(&self, class: u32, rise: u32) -> Vec<u32> {
        self.above.get(&(class, rise)).cloned().unwrap_or_default()
    }

    pub(crate) fn levels(&self) -> usize {
        self.class.len()
    }

    pub(crate) fn distinct(&self) -> usize {
        self.representatives.len()
    }
}

/// A chain of equal levels: the transitions to a higher level stand apart from those within one.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) plan: Level,
    /// The block that each state belongs to.
    pub(crate) class: Vec<u32>,
    /// Where the exits of each state start, as in [`Chain::rows`].
    pub(crate) rows: Vec<usize>,
    pub(crate) exits: Vec<Exit>,
}

/// A transition to a higher level. From one state it may lead into several blocks, by the level that it starts on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// How many levels up.
    pub(crate) rise: u32,
    /// The block that it enters.
    pub(crate) class: u32,
    pub(crate) target: u32,
    pub(crate) rate: f64,
    /// Whether this is the first listing of its transition: its rate counts once.
    pub(crate) first: bool,
}

impl Chain {
    pub(crate) fn states(&self) -> usize {
        self.rows.len().saturating_sub(1)
    }

    pub(crate) fn transitions(&self) -> usize {
        self.columns.len() + self.levels.as_ref().map_or(0, |levels| levels.exits.len())
    }

    /// The transitions of `state`, self-loops among them.
    pub(crate) fn row(&self, state: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.rows[state]..self.rows[state + 1];
        self.columns[range.clone()]
            .iter()
            .zip(&self.rates[range])
            .map(|(column, rate)| (*column as usize, *rate))
    }

    /// Where the transitions of `state` lead.
    pub(crate) fn targets(&self, state: usize) -> &[u32] {
        &self.columns[self.rows[state]..self.rows[state + 1]]
    }

    /// The rate at which `state` is left, self-loops not counted.
    pub(crate) fn exit_rate(&self, state: usize) -> f64 {
        self.row(state)
            .filter(|(column, _)| *column != state)
            .map(|(_, rate)| rate)
            .sum()
    }

    /// The predecessors of each state, in compressed rows.
    pub(crate) fn predecessors(&self) -> (Vec<usize>, Vec<u32>) {
        let states = self.states();
        // The start of each row stands one place too high until the row is full: then it is the end of the row before.
        let mut starts = vec![0usize; states + 2];
        for column in &self.columns {
            starts[*column as usize + 2] += 1;
        }
        for place in 2..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut sources = vec![0u32; self.columns.len()];
        for state in 0..states {
            for column in self.targets(state) {
                let at = &mut starts[*column as usize + 1];
                sources[*at] = index(state);
                *at += 1;
            }
        }
        starts.pop();
        (starts, sources)
    }
}

/// A state's number. The builder refuses to make more states than fit.
pub(crate) fn index(state: usize) -> u32 {
    u32::try_from(state).expect("the builder bounds the number of states")
}
