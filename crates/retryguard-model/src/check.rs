//! From a model and its properties to answers.

use std::collections::BTreeMap;

use crate::build::{Wanted, build};
use crate::chain::Chain;
use crate::clock::Stopwatch;
use crate::drift::Bounded;
use crate::elaborate::properties::{Formula, Operator, Query, resolve};
use crate::elaborate::{Scope, Value, elaborate};
use crate::error::{Error, SEPARATOR};
use crate::export::Which;
use crate::expr::Expr;
use crate::options::Options;
use crate::program::Program;
use crate::questions::{Question, collect, common_stop, names_initial, within_a_time};
use crate::reduce::Reduction;
use crate::solve;
use crate::syntax::{ast, parse_model, parse_properties};
use crate::truncated::{self, Explored};

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    tree: ast::Model,
}

/// Properties that were read.
#[derive(Clone, Debug)]
pub struct Properties {
    file: ast::PropertyFile,
}

/// Values for the constants that a model leaves open.
pub type Constants = BTreeMap<String, Value>;

impl Model {
    /// Reads a model in the PRISM language.
    pub fn parse(text: &str) -> Result<Model, Error> {
        Ok(Model {
            tree: parse_model(text)?,
        })
    }

    /// The constants that need a value, in the order of the text.
    pub fn open_constants(&self) -> Vec<&str> {
        self.tree
            .constants
            .iter()
            .filter(|constant| constant.value.is_none())
            .map(|constant| constant.name.text.as_str())
            .collect()
    }
}

impl Properties {
    /// Reads properties, one or many.
    pub fn parse(text: &str) -> Result<Properties, Error> {
        let file = parse_properties(text).map_err(Error::in_properties)?;
        Ok(Properties { file })
    }

    /// Reads properties from several texts, each with the name by which [`Error::render_among`] calls it. They share one scope.
    pub fn parse_among(texts: &[(&str, &str)]) -> Result<Properties, Error> {
        let all: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
        Properties::parse(&all.join(SEPARATOR))
    }

    /// The number of properties.
    pub fn len(&self) -> usize {
        self.file.properties.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.file.properties.is_empty()
    }

    /// The constants of the property file that need a value.
    pub fn open_constants(&self) -> Vec<&str> {
        self.file
            .constants
            .iter()
            .filter(|constant| constant.value.is_none())
            .map(|constant| constant.name.text.as_str())
            .collect()
    }
}

/// The answer to one property.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The name of the property, if it has one.
    pub name: Option<String>,
    /// The property as written.
    pub property: String,
    /// The answer.
    pub outcome: Outcome,
    /// States of the chain that was solved.
    pub states: u64,
    /// Transitions of the chain that was solved.
    pub transitions: u64,
    /// Time to build the chain, which properties asked together share.
    pub build_seconds: f64,
    /// Time to solve, which properties answered together share.
    pub solve_seconds: f64,
    /// What was reduced, in words.
    pub notes: Vec<String>,
}

/// What a property came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A number, infinite for a reward that has no bound.
    Number(f64),
    /// The least and the largest of the initial states, where there are several that differ.
    Range(f64, f64),
    /// A number known to lie between two others, the larger of them perhaps infinite: the space was truncated.
    Between(f64, f64),
    /// A yes or a no, in every initial state.
    Truth(bool),
}

impl Outcome {
    /// The number, or the middle of the two that enclose it. A lower bound alone is no number: whoever took it for one would
    /// be wrong by nobody knows how much.
    pub fn number(&self) -> Option<f64> {
        match self {
            Outcome::Number(value) => Some(*value),
            Outcome::Between(low, high) if high.is_finite() => Some(low + (high - low) / 2.0),
            Outcome::Between(..) | Outcome::Range(..) | Outcome::Truth(_) => None,
        }
    }
}

/// Answers `properties` about `model` with the given values of its open constants.
pub fn check(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Answer>, Error> {
    let (program, scope) = elaborate(&model.tree, &properties.file, constants)?;
    open_constant(&model.tree, &properties.file, &scope)?;
    let mut questions = Vec::new();
    for property in &properties.file.properties {
        let formula = resolve(&scope, &program, &properties.file.properties, property)?;
        questions.push((property, formula));
    }
    Session {
        program: &program,
        options,
    }
    .answer(&questions)
}

/// The chain with every label and every reward structure, for others to read, and what was reduced in words.
pub(crate) fn whole_chain(
    model: &Model,
    constants: &Constants,
    options: &Options,
    which: Which,
) -> Result<(Program, Chain, Vec<String>), Error> {
    let file = ast::PropertyFile::default();
    let (program, scope) = elaborate(&model.tree, &file, constants)?;
    open_constant(&model.tree, &file, &scope)?;
    let wanted = Wanted {
        rewards: (0..program.rewards.len()).collect(),
        conditions: program
            .labels
            .iter()
            .map(|(_, condition)| condition.clone())
            .collect(),
        stop: None,
        valuations: true,
    };
    let reduction = match which {
        Which::Written => Reduction::default(),
        Which::Reduced => Reduction::without_levels(&program, &wanted),
    };
    let chain = build(&program, &wanted, &reduction, options)?;
    Ok((program, chain, reduction.notes))
}

/// Every constant must have a value, as PRISM asks, also one that nothing uses.
fn open_constant(model: &ast::Model, file: &ast::PropertyFile, scope: &Scope<'_>) -> Result<(), Error> {
    for constant in model.constants.iter().chain(&file.constants) {
        if constant.value.is_none() && !scope.has_value(&constant.name.text) {
            return Err(Error::OpenConstant {
                name: constant.name.text.clone(),
            });
        }
    }
    Ok(())
}

/// Likelihoods below which states are left unexplored, tried from the finest.
const TRUNCATIONS: &[f64] = &[1e-20, 1e-14, 1e-10, 1e-7, 1e-5];

fn cut_note(limit: f64, chain: &Chain) -> String {
    format!(
        "truncated: {} states reached with a likelihood below {limit:e} are not explored",
        chain.cut.len()
    )
}

/// Said with a reward whose upper bound is infinite.
const NO_UPPER_BOUND: &str = "the value is at least the one given; lower --truncate, or raise --max-states and --max-memory, until \
     nothing is truncated; or ask for the reward within a time, R=? [ C<=t ], of states that earn a constant";

struct Session<'s> {
    program: &'s Program,
    options: &'s Options,
}

/// A chain and where it keeps what was wanted of it.
struct Built {
    chain: Chain,
    wanted: Wanted,
    reduction: Reduction,
    build_seconds: f64,
    notes: Vec<String>,
}

impl Session<'_> {
    fn answer(&self, questions: &[Question<'_>]) -> Result<Vec<Answer>, Error> {
        let wanted = self.wanted(questions);
        if self.options.reduce
            && self.options.truncate.is_none()
            && wanted.stop.is_some()
            && !questions.iter().any(|(_, formula)| within_a_time(formula))
            && let Some(answers) = self.by_levels(questions, &wanted)?
        {
            return Ok(answers);
        }
        let watch = Stopwatch::start();
        // Merging states would move the label "init" to others.
        let reduction = if self.options.reduce && !questions.iter().any(|(_, f)| names_initial(f)) {
            Reduction::without_levels(self.program, &wanted)
        } else {
            Reduction::default()
        };
        let (chain, mut notes) = self.build_or_truncate(questions, &wanted, &reduction)?;
        notes.extend(reduction.notes.iter().cloned());
        let built = Built {
            chain,
            wanted,
            reduction,
            build_seconds: watch.seconds(),
            notes,
        };
        questions
            .iter()
            .map(|(property, formula)| self.answer_one(&built, property, formula))
            .collect()
    }

    /// Builds the chain, and where it is too large for the limits, as much of it as is likely to be reached.
    fn build_or_truncate(
        &self,
        questions: &[Question<'_>],
        wanted: &Wanted,
        reduction: &Reduction,
    ) -> Result<(Chain, Vec<String>), Error> {
        let can = self.program.init.is_none() && questions.iter().all(|(_, f)| truncated::supports(f));
        if self.options.truncate.is_some() && !can {
            return Err(Error::Property {
                reason: "a truncated space can answer P of F, U and G, R of F and C<=t only".to_owned(),
            });
        }
        // An upper bound on a reward is sought from the values of the variables at the edge.
        let kept = Wanted {
            valuations: questions.iter().any(|(_, formula)| {
                matches!(formula, Formula::Query(query) if matches!(query.operator, Operator::ReachReward(..)))
            }),
            ..wanted.clone()
        };
        if self.options.truncate.is_some() {
            let chain = build(self.program, &kept, reduction, self.options)?;
            let note = self.options.truncate.map(|limit| cut_note(limit, &chain));
            return Ok((chain, note.into_iter().collect()));
        }
        let first = build(self.program, wanted, reduction, self.options);
        let too_large = matches!(
            first,
            Err(Error::Limit {
                what: "states" | "bytes of memory",
                ..
            })
        );
        if !too_large || !can {
            return Ok((first?, Vec::new()));
        }
        for limit in TRUNCATIONS {
            let options = Options {
                truncate: Some(*limit),
                ..self.options.clone()
            };
            if let Ok(chain) = build(self.program, &kept, reduction, &options) {
                let note = cut_note(*limit, &chain);
                return Ok((chain, vec![note]));
            }
        }
        first.map(|chain| (chain, Vec::new()))
    }

    /// The value on a truncated chain, between two numbers.
    fn between(&self, built: &Built, query: &Query, notes: &mut Vec<String>) -> Result<Outcome, Error> {
        let explored = Explored {
            program: self.program,
            chain: &built.chain,
            max_steps: self.options.max_steps,
        };
        let (least, most) = match &query.operator {
            Operator::Until(left, right, lower, upper) => {
                let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                explored.until(&left, &right, *lower, *upper)?
            }
            Operator::Globally(inner, lower, upper) => {
                let outside: Vec<bool> = self.truths(built, inner)?.iter().map(|t| !t).collect();
                let anywhere = vec![true; outside.len()];
                let (least, most) = explored.until(&anywhere, &outside, *lower, *upper)?;
                (1.0 - most, 1.0 - least)
            }
            Operator::ReachReward(place, target) => {
                let reached = self.truths(built, target)?;
                let earned = earned(&built.chain, slot(&built.wanted, *place));
                let bounded = Bounded {
                    program: self.program,
                    reduction: &built.reduction,
                    chain: &built.chain,
                    reward: *place,
                    target,
                    reached: &reached,
                    earned: &earned,
                };
                match (explored.least_reward(&reached, &earned)?, bounded.upper()?) {
                    ((least, false), _) => (least, least),
                    ((least, true), Ok(most)) => (least, most.max(least)),
                    ((least, true), Err(reason)) => {
                        notes.push(format!("no upper bound: {reason}; {NO_UPPER_BOUND}"));
                        (least, f64::INFINITY)
                    }
                }
            }
            Operator::Cumulative(place, time) => {
                let earned = earned(&built.chain, slot(&built.wanted, *place));
                explored.cumulative(*place, &earned, *time)?
            }
            _ => unreachable!("only questions that can be truncated are"),
        };
        truncated::outcome(query, least, most)
    }

    /// All that the questions need a chain to keep.
    fn wanted(&self, questions: &[Question<'_>]) -> Wanted {
        let mut wanted = Wanted::default();
        for (_, formula) in questions {
            collect(formula, &mut wanted);
        }
        wanted.stop = common_stop(questions);
        wanted
    }

    /// The way of equal levels, where all questions are rewards or probabilities of reaching one target. Anything that goes
    /// wrong on it may be due to states that only the levels together, not the model, can reach: then it is not taken.
    fn by_levels(&self, questions: &[Question<'_>], wanted: &Wanted) -> Result<Option<Vec<Answer>>, Error> {
        let watch = Stopwatch::start();
        let reduction = Reduction::find(self.program, wanted, true);
        if reduction.level.is_none() {
            return Ok(None);
        }
        let Ok(chain) = build(self.program, wanted, &reduction, self.options) else {
            return Ok(None);
        };
        let build_seconds = watch.seconds();
        let watch = Stopwatch::start();
        let Some(levels) = &chain.levels else {
            return Ok(None);
        };
        let earned: Vec<Vec<f64>> = (0..wanted.rewards.len())
            .map(|slot| earned(&chain, slot))
            .collect();
        let slices: Vec<&[f64]> = earned.iter().map(Vec::as_slice).collect();
        let Some(values) = solve::level_rewards(&chain, levels, &slices)? else {
            return Ok(None);
        };
        let solve_seconds = watch.seconds();
        let answers = questions
            .iter()
            .map(|(property, formula)| {
                let Formula::Query(query) = formula else {
                    unreachable!("only questions have a common target")
                };
                let value = match &query.operator {
                    Operator::ReachReward(place, _) => values[slot(wanted, *place)],
                    // Every level is left for certain, so the target is reached for certain.
                    _ => 1.0,
                };
                Answer {
                    name: property.name.clone(),
                    property: property.text.clone(),
                    outcome: outcome(query, &[value]),
                    states: chain.states() as u64,
                    transitions: chain.transitions() as u64,
                    build_seconds,
                    solve_seconds,
                    notes: reduction.notes.clone(),
                }
            })
            .collect();
        Ok(Some(answers))
    }

    fn answer_one(
        &self,
        built: &Built,
        property: &ast::Property,
        formula: &Formula,
    ) -> Result<Answer, Error> {
        let watch = Stopwatch::start();
        let chain = &built.chain;
        let mut notes = built.notes.clone();
        let outcome = match formula {
            Formula::Query(query) if !chain.cut.is_empty() => self.between(built, query, &mut notes)?,
            Formula::Query(query) => {
                let values = self.values(built, query)?;
                if values.iter().any(|value| value.is_nan()) {
                    return Err(Error::Property {
                        reason: "the rates of this chain are too far apart for doubles".to_owned(),
                    });
                }
                let initial: Vec<f64> = chain.initial.iter().map(|s| values[*s as usize]).collect();
                outcome(query, &initial)
            }
            other => {
                let truths = self.truths(built, other)?;
                Outcome::Truth(chain.initial.iter().all(|s| truths[*s as usize]))
            }
        };
        if matches!(outcome, Outcome::Between(_, high) if high.is_infinite())
            && !notes.iter().any(|note| note.starts_with("no upper bound"))
        {
            notes.push(format!("no upper bound: {NO_UPPER_BOUND}"));
        }
        Ok(Answer {
            name: property.name.clone(),
            property: property.text.clone(),
            outcome,
            states: chain.states() as u64,
            transitions: chain.transitions() as u64,
            build_seconds: built.build_seconds,
            solve_seconds: watch.seconds(),
            notes,
        })
    }

    /// The number that a question has in every state.
    fn values(&self, built: &Built, query: &Query) -> Result<Vec<f64>, Error> {
        let chain = &built.chain;
        let limit = self.options.max_steps;
        match &query.operator {
            Operator::Next(inner) => Ok(solve::next(chain, &self.truths(built, inner)?)),
            Operator::Until(left, right, lower, upper) => {
                let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                if *lower == 0.0 && upper.is_none() {
                    solve::until(chain, &left, &right)
                } else {
                    solve::bounded_until(chain, &left, &right, *lower, *upper, limit)
                }
            }
            Operator::Globally(inner, lower, upper) => {
                let outside: Vec<bool> = self.truths(built, inner)?.iter().map(|t| !t).collect();
                let anywhere = vec![true; outside.len()];
                let leave = if *lower == 0.0 && upper.is_none() {
                    solve::until(chain, &anywhere, &outside)?
                } else {
                    solve::bounded_until(chain, &anywhere, &outside, *lower, *upper, limit)?
                };
                Ok(leave.iter().map(|p| 1.0 - p).collect())
            }
            Operator::ReachReward(place, target) => {
                let target = self.truths(built, target)?;
                solve::reach_rewards(chain, &target, &earned(chain, slot(&built.wanted, *place)))
            }
            Operator::Cumulative(place, time) => {
                solve::cumulative(chain, &earned(chain, slot(&built.wanted, *place)), *time, limit)
            }
            Operator::Instant(place, time) => {
                // Transitions take no time, so nothing of them is earned at an instant.
                let rewards = &chain.state_rewards[slot(&built.wanted, *place)];
                solve::instant(chain, rewards, *time, limit)
            }
            Operator::SteadyReward(place) => {
                solve::steady_reward(chain, &earned(chain, slot(&built.wanted, *place)))
            }
            Operator::Steady(inner) => solve::steady_probability(chain, &self.truths(built, inner)?),
        }
    }

    /// Where a formula holds.
    fn truths(&self, built: &Built, formula: &Formula) -> Result<Vec<bool>, Error> {
        let states = built.chain.states();
        let join = |a: &Formula, b: &Formula, f: fn(bool, bool) -> bool| {
            let (a, b) = (self.truths(built, a)?, self.truths(built, b)?);
            Ok::<_, Error>(a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect())
        };
        Ok(match formula {
            Formula::Plain(Expr::Bool(value)) => vec![*value; states],
            Formula::Plain(expr) => {
                let place = built
                    .wanted
                    .conditions
                    .iter()
                    .position(|condition| condition == expr)
                    .expect("every condition was collected");
                built.chain.conditions[place].clone()
            }
            Formula::Initial => {
                let mut truths = vec![false; states];
                for s in &built.chain.initial {
                    truths[*s as usize] = true;
                }
                truths
            }
            Formula::Not(a) => self.truths(built, a)?.iter().map(|a| !a).collect(),
            Formula::And(a, b) => join(a, b, |a, b| a && b)?,
            Formula::Or(a, b) => join(a, b, |a, b| a || b)?,
            Formula::Iff(a, b) => join(a, b, |a, b| a == b)?,
            Formula::Query(query) => {
                let values = self.values(built, query)?;
                let (comparison, bound) = query.bound.expect("a question inside another has a bound");
                values
                    .iter()
                    .map(|value| comparison.holds(*value, bound))
                    .collect()
            }
        })
    }
}

/// What a state earns per unit of time, its transitions included.
fn earned(chain: &Chain, slot: usize) -> Vec<f64> {
    chain.state_rewards[slot]
        .iter()
        .zip(&chain.transition_rewards[slot])
        .map(|(state, transitions)| state + transitions)
        .collect()
}

fn slot(wanted: &Wanted, place: usize) -> usize {
    wanted
        .rewards
        .iter()
        .position(|known| *known == place)
        .expect("every reward was collected")
}

fn outcome(query: &Query, initial: &[f64]) -> Outcome {
    match query.bound {
        Some((comparison, bound)) => {
            Outcome::Truth(initial.iter().all(|value| comparison.holds(*value, bound)))
        }
        None => {
            let low = initial.iter().copied().fold(f64::INFINITY, f64::min);
            let high = initial.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if low == high {
                Outcome::Number(low)
            } else {
                Outcome::Range(low, high)
            }
        }
    }
}
