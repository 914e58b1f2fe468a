//! The chain as other tools read it, so that they can disagree.

use std::fmt::Write as _;

use crate::build::build;
use crate::chain::{Chain, Memory};
use crate::elaborate::elaborate;
use crate::error::Error;
use crate::input::{Constants, Model, open_constant};
use crate::options::Options;
use crate::program::Program;
use crate::reduce::Reduction;
use crate::syntax::ast;
use crate::wanted::Wanted;

/// A language to export a chain in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Graphviz.
    Dot,
    /// The direct encoding of Storm.
    Drn,
}

/// Which of the chains that answer for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The chain as written.
    Written,
    /// The chain in which states stand for all others that no label and no reward of the model can tell from them. A counter that
    /// only rises keeps its heights: levels are a way of solving, not a chain that another tool could read.
    Reduced,
}

/// The chain of `model`, with every label and every reward.
pub fn export(
    model: &Model,
    constants: &Constants,
    options: &Options,
    format: Format,
    which: Which,
) -> Result<String, Error> {
    let (program, chain, notes) = whole_chain(model, constants, options, which)?;
    // Both languages begin a comment like that.
    let mut out: String = notes.iter().map(|note| format!("// reduced: {note}\n")).collect();
    match format {
        Format::Dot => dot(&program, &chain, &mut out)?,
        Format::Drn => drn(&program, &chain, &mut out)?,
    }
    Ok(out)
}

/// The chain with every label and every reward structure, for others to read, and what was reduced in words.
fn whole_chain(
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
        values: Vec::new(),
        stop: None,
        valuations: true,
    };
    let reduction = match which {
        Which::Written => Reduction::default(),
        Which::Reduced => Reduction::without_levels(&program, &wanted).exact(),
    };
    let chain = build(&program, &wanted, &reduction, options)?;
    Ok((program, chain, reduction.notes))
}

fn dot(program: &Program, chain: &Chain, out: &mut String) -> Result<(), Error> {
    out.push_str("digraph chain {\n  node [shape=box];\n");
    let width = program.variables.len();
    for s in 0..chain.states() {
        let values = &chain.valuations[s * width..(s + 1) * width];
        let start = if chain.initial.iter().any(|i| *i as usize == s) {
            ", style=bold"
        } else {
            ""
        };
        let _ = writeln!(out, "  {s} [label=\"{}\"{start}];", program.show(values));
        Memory::text_fits(chain.memory, out.len() as u64)?;
    }
    for s in 0..chain.states() {
        for (to, rate) in chain.row(s) {
            let _ = writeln!(out, "  {s} -> {to} [label=\"{rate}\"];");
        }
        Memory::text_fits(chain.memory, out.len() as u64)?;
    }
    out.push_str("}\n");
    Ok(())
}

/// Storm's direct encoding. What transitions earn is added to what their state earns, by their rates: the same expectation, except
/// at an instant.
fn drn(program: &Program, chain: &Chain, out: &mut String) -> Result<(), Error> {
    let names: Vec<String> = program
        .rewards
        .iter()
        .enumerate()
        .map(|(place, rewards)| {
            rewards
                .name
                .clone()
                .unwrap_or_else(|| format!("reward{}", place + 1))
        })
        .collect();
    let states = chain.states();
    let _ = writeln!(
        out,
        "@type: CTMC\n@value_type: double\n@parameters\n\n@reward_models\n{}\n@nr_states\n{states}\n@nr_choices\n{states}\n@model",
        names.join(" ")
    );
    for s in 0..states {
        let total: f64 = chain.row(s).map(|(_, rate)| rate).sum();
        let _ = write!(out, "state {s} !{total}");
        if !names.is_empty() {
            let earned: Vec<String> = (0..names.len())
                .map(|r| (chain.state_rewards[r][s] + chain.transition_rewards[r][s]).to_string())
                .collect();
            let _ = write!(out, " [{}]", earned.join(", "));
        }
        if chain.initial.iter().any(|i| *i as usize == s) {
            out.push_str(" init");
        }
        for ((name, _), truths) in program.labels.iter().zip(&chain.conditions) {
            if truths[s] {
                let _ = write!(out, " {name}");
            }
        }
        out.push_str("\n\taction 0\n");
        for (to, rate) in chain.row(s) {
            let _ = writeln!(out, "\t\t{to} : {rate}");
        }
        Memory::text_fits(chain.memory, out.len() as u64)?;
    }
    Ok(())
}
