//! All questions about one model: what is built for them, on which of the ways they are answered.

use crate::answer::{Answer, Outcome};
use crate::build::build;
use crate::chain::{Chain, Memory};
use crate::clock::Stopwatch;
use crate::elaborate::Value;
use crate::elaborate::properties::{Formula, Operator, Query};
use crate::error::{Error, MEMORY};
use crate::evaluate::{Evaluation, earned, slot};
use crate::options::Options;
use crate::program::Program;
use crate::questions::{Question, collect, common_stop, levels_know, needs_states};
use crate::reduce::{Reduction, reworded};
use crate::solve;
use crate::syntax::ast;
use crate::truncated::{self, NO_UPPER_BOUND};
use crate::values::Values;
use crate::wanted::Wanted;

/// Likelihoods below which states are left unexplored, tried from the finest.
const TRUNCATIONS: &[f64] = &[1e-20, 1e-14, 1e-10, 1e-7, 1e-5];

/// Bytes of a state that is listed with its value, here and in the text of the answer. The largest form is an object of JSON.
const LISTED: u64 = 1_024;

/// The note with a range that is not that of a filter.
const INITIAL_STATES_DIFFER: &str =
    "the initial states differ: the least and the largest of their values are given";

fn cut_note(limit: f64, chain: &Chain) -> String {
    format!(
        "truncated: {} states reached with a likelihood below {limit:e} are not explored",
        chain.cut.len()
    )
}

fn deadlock_note(chain: &Chain) -> Option<String> {
    let first = chain.first_deadlock.as_ref()?;
    Some(match chain.deadlocks.len() {
        1 => format!("nothing leaves the state {first}: it was given a loop"),
        count => format!("nothing leaves {count} states, {first} among them: they were given loops"),
    })
}

pub(crate) struct Session<'s> {
    pub(crate) program: &'s Program,
    pub(crate) options: &'s Options,
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
    /// Each question by itself where all together cannot be answered: one that is refused does not stop the others. An error of
    /// the model is the whole answer.
    pub(crate) fn answer_each(
        &self,
        questions: &[Question<'_>],
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        match self.answer(questions) {
            Ok(answers) => Ok(answers.into_iter().map(Ok).collect()),
            Err(error @ (Error::State { .. } | Error::Deadlock { .. } | Error::Language { .. })) => {
                Err(error)
            }
            Err(error) if questions.len() == 1 => Ok(vec![Err(error)]),
            Err(_) => questions
                .iter()
                .map(|question| match self.answer(std::slice::from_ref(question)) {
                    Ok(mut answers) => Ok(answers.pop().ok_or_else(|| Error::Property {
                        reason: "the question has no answer".to_owned(),
                    })),
                    Err(error) => Ok(Err(error)),
                })
                .collect(),
        }
    }

    pub(crate) fn answer(&self, questions: &[Question<'_>]) -> Result<Vec<Answer>, Error> {
        // What is about single states is asked apart, so that the rest can be reduced.
        let apart: Vec<bool> = questions
            .iter()
            .map(|(_, formula)| needs_states(formula))
            .collect();
        let part = |wanted: bool| -> Vec<Question<'_>> {
            let of = questions
                .iter()
                .zip(&apart)
                .filter(|(_, apart)| **apart == wanted);
            of.map(|(question, _)| question.clone()).collect()
        };
        let (single, others) = (part(true), part(false));
        if single.is_empty() || others.is_empty() {
            return self.answer_together(questions);
        }
        let mut single = self.answer_together(&single)?.into_iter();
        let mut others = self.answer_together(&others)?.into_iter();
        let next = |apart: &bool| if *apart { single.next() } else { others.next() };
        Ok(apart.iter().filter_map(next).collect())
    }

    fn answer_together(&self, questions: &[Question<'_>]) -> Result<Vec<Answer>, Error> {
        let formulas: Vec<Formula> = questions.iter().map(|(_, formula)| formula.clone()).collect();
        let other = match self.options.reduce && !formulas.iter().any(needs_states) {
            true => reworded(self.program, &self.wanted(questions), &formulas),
            false => None,
        };
        if let Some(other) = other {
            let properties = questions.iter().map(|(property, _)| *property);
            let questions: Vec<Question<'_>> = properties.zip(other.formulas).collect();
            let session = Session {
                program: &other.program,
                options: self.options,
            };
            match session.answer_as_worded(&questions) {
                Ok(mut answers) => {
                    answers
                        .iter_mut()
                        .for_each(|answer| answer.notes.extend(other.notes.iter().cloned()));
                    return Ok(answers);
                }
                // What is wrong with the model is said in its own words.
                Err(Error::State { .. } | Error::Deadlock { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.answer_as_worded(questions)
    }

    fn answer_as_worded(&self, questions: &[Question<'_>]) -> Result<Vec<Answer>, Error> {
        let wanted = self.wanted(questions);
        if self.options.reduce
            && self.options.truncate.is_none()
            && wanted.stop.is_some()
            && questions.iter().all(|(_, formula)| levels_know(formula))
            && let Some(answers) = self.by_levels(questions, &wanted)?
        {
            return Ok(answers);
        }
        let watch = Stopwatch::start();
        let reduction = if self.options.reduce && !questions.iter().any(|(_, f)| needs_states(f)) {
            Reduction::without_levels(self.program, &wanted)
        } else {
            Reduction::default()
        };
        let (chain, mut notes, reduction) = self.build_or_truncate(questions, &wanted, reduction)?;
        notes.extend(reduction.notes.iter().cloned());
        notes.extend(deadlock_note(&chain));
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
        mut reduction: Reduction,
    ) -> Result<(Chain, Vec<String>, Reduction), Error> {
        let can = self.program.init.is_none() && questions.iter().all(|(_, f)| truncated::supports(f));
        if self.options.truncate.is_some() && !can {
            return Err(Error::Property {
                reason: "a truncated space can answer P of F, U and G, R of F and C<=t only".to_owned(),
            });
        }
        // An upper bound on a reward is sought from the values of the variables at the edge.
        let kept = Wanted {
            valuations: wanted.valuations || questions.iter().any(|(_, formula)| {
                matches!(formula, Formula::Query(query) if matches!(query.operator, Operator::ReachReward(..)))
            }),
            ..wanted.clone()
        };
        if self.options.truncate.is_some() {
            let reduction = reduction.exact();
            let chain = build(self.program, &kept, &reduction, self.options)?;
            let note = self.options.truncate.map(|limit| cut_note(limit, &chain));
            return Ok((chain, note.into_iter().collect(), reduction));
        }
        let first = self.build_confirmed(wanted, &mut reduction);
        let too_large = matches!(
            first,
            Err(Error::Limit {
                what: "states" | MEMORY,
                ..
            } | Error::Unranged { .. })
        );
        if !too_large || !can {
            return Ok((first?, Vec::new(), reduction));
        }
        // An allocator gives back only part of what the attempts before took: this one leaves room for the rest.
        for limit in TRUNCATIONS {
            let options = Options {
                truncate: Some(*limit),
                max_memory: self.options.max_memory / 4 * 3,
                ..self.options.clone()
            };
            if let Ok(chain) = build(self.program, &kept, &reduction, &options) {
                let note = cut_note(*limit, &chain);
                return Ok((chain, vec![note], reduction));
            }
        }
        first.map(|chain| (chain, Vec::new(), reduction))
    }

    /// Builds the chain, without the reductions that are not confirmed on it.
    fn build_confirmed(&self, wanted: &Wanted, reduction: &mut Reduction) -> Result<Chain, Error> {
        while !reduction.unreached.is_empty() {
            match build(self.program, wanted, reduction, self.options) {
                Ok(chain) if reduction.confirm(self.program, &chain) => return Ok(chain),
                Ok(_) => {}
                // It may be due to states that the model as written never reaches.
                Err(_) => *reduction = std::mem::take(reduction).exact(),
            }
        }
        build(self.program, wanted, reduction, self.options)
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

    /// A chain of equal levels, and how it came about.
    fn levelled(&self, wanted: &Wanted) -> Option<(Chain, Reduction)> {
        if let Some(mut reduction) = Reduction::with_end_out_of_reach(self.program, wanted)
            && let Ok(chain) = build(self.program, wanted, &reduction, self.options)
            && reduction.confirm(self.program, &chain)
        {
            return Some((chain, reduction));
        }
        let mut reduction = Reduction::find(self.program, wanted, true);
        reduction.level.as_ref()?;
        let chain = self.build_confirmed(wanted, &mut reduction).ok()?;
        Some((chain, reduction))
    }

    /// The way of equal levels, where all questions are rewards or probabilities of reaching one target. Anything that goes
    /// wrong on it may be due to states that only the levels together, not the model, can reach: then it is not taken.
    fn by_levels(&self, questions: &[Question<'_>], wanted: &Wanted) -> Result<Option<Vec<Answer>>, Error> {
        let watch = Stopwatch::start();
        let Some((chain, reduction)) = self.levelled(wanted) else {
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
                    notes: reduction
                        .notes
                        .iter()
                        .cloned()
                        .chain(deadlock_note(&chain))
                        .collect(),
                    listed: Vec::new(),
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
        let evaluation = Evaluation {
            program: self.program,
            options: self.options,
            chain,
            wanted: &built.wanted,
            reduction: &built.reduction,
        };
        let mut notes = built.notes.clone();
        let mut listed = Vec::new();
        let outcome = match formula {
            Formula::Query(query) if !chain.cut.is_empty() => evaluation.between(query, &mut notes)?,
            Formula::Filter(filter) => {
                let (outcome, named) = evaluation.filtered(filter, &property.text)?;
                Memory::text_fits(chain.memory, named.len() as u64 * LISTED)?;
                let show = |(s, value): (usize, Value)| (self.program.show(evaluation.valuation(s)), value);
                listed = named.into_iter().map(show).collect();
                outcome
            }
            other => match evaluation.evaluate(other)? {
                Values::Truths(truths) => Outcome::Truth(chain.initial.iter().all(|s| truths[*s as usize])),
                Values::Numbers(values) => {
                    let initial: Vec<f64> = chain.initial.iter().map(|s| values[*s as usize]).collect();
                    number_or_range(&initial)
                }
            },
        };
        if matches!(outcome, Outcome::Range(..)) && !matches!(formula, Formula::Filter(_)) {
            notes.push(INITIAL_STATES_DIFFER.to_owned());
        }
        if matches!(outcome, Outcome::Number(value) if value.is_nan()) {
            return Err(Error::Property {
                reason: format!(
                    "{} has no value: it divides 0 by 0, or sets infinite numbers against each other",
                    property.text
                ),
            });
        }
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
            listed,
        })
    }
}

fn outcome(query: &Query, initial: &[f64]) -> Outcome {
    match query.bound {
        Some((comparison, bound)) => {
            Outcome::Truth(initial.iter().all(|value| comparison.holds(*value, bound)))
        }
        None => number_or_range(initial),
    }
}

/// One number, or the least and the largest where the initial states differ.
fn number_or_range(initial: &[f64]) -> Outcome {
    let low = initial.iter().copied().fold(f64::INFINITY, f64::min);
    let high = initial.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match initial {
        [one] => Outcome::Number(*one),
        _ if low == high => Outcome::Number(low),
        _ => Outcome::Range(low, high),
    }
}
