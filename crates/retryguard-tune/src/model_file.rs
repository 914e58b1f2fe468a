//! A model file: read, solved for every instance of its constants, exported.

use std::{io, path::Path};

use rayon::prelude::*;
use retryguard_model::{Constants, Format, Model, Options, Outcome, Properties, Refused, Which};

use crate::{Row, answers};

/// A model in the PRISM language, as it stands in a file.
pub struct ModelFile {
    name: String,
    text: String,
    model: Model,
}

/// Answers, and why other properties have none.
pub struct Solved {
    /// The answers.
    pub rows: Vec<Row>,
    /// A message for each property without an answer.
    pub unanswered: Vec<String>,
}

/// Why a model has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFileError {
    /// The file cannot be read.
    #[error("cannot read the model {0}")]
    Unreadable(String, #[source] io::Error),
    /// No property is given.
    #[error("nothing is asked: give --prop 'P=? [ F … ]' or --props FILE")]
    NothingAsked,
    /// A constant is given wrongly, or not at all.
    #[error("{0}")]
    Constant(String),
    /// The model or a property has a mistake, or a limit is reached.
    #[error("{0}")]
    Model(String),
}

impl ModelFileError {
    /// Whether the user has to give something else, whatever the model says.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Model(_))
    }

    fn of(error: &retryguard_model::Error, message: String) -> Self {
        use retryguard_model::Error::{GivenConstant, OpenConstant};
        match error {
            GivenConstant { .. } | OpenConstant { .. } => Self::Constant(message),
            _ => Self::Model(message),
        }
    }
}

impl ModelFile {
    /// Reads a model.
    ///
    /// # Errors
    /// Where the file cannot be read or has a mistake.
    pub fn read(path: &Path) -> Result<Self, ModelFileError> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| ModelFileError::Unreadable(name.clone(), error))?;
        let model =
            Model::parse(&text).map_err(|error| ModelFileError::Model(error.render(&name, &text, "")))?;
        Ok(Self { name, text, model })
    }

    /// The chain of one instance in another tool's format.
    ///
    /// # Errors
    /// Where the chain cannot be built.
    pub fn export(
        &self,
        constants: &Constants,
        options: &Options,
        format: Format,
        which: Which,
    ) -> Result<String, ModelFileError> {
        retryguard_model::export(&self.model, constants, options, format, which)
            .map_err(|error| ModelFileError::of(&error, error.render(&self.name, &self.text, "")))
    }

    /// Answers properties for every instance. `asked` are their names in messages and their texts. A property that is refused does not
    /// stop the others.
    ///
    /// # Errors
    /// Where a property has a mistake or a chain cannot be built.
    pub fn solve(
        &self,
        asked: &[(String, String)],
        instances: &[Constants],
        options: &Options,
    ) -> Result<Solved, ModelFileError> {
        let asked: Vec<(&str, &str)> = asked
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let message = |error: &retryguard_model::Error| error.render_among(&self.name, &self.text, &asked);
        let properties =
            Properties::parse_among(&asked).map_err(|error| ModelFileError::of(&error, message(&error)))?;
        if properties.is_empty() {
            return Err(ModelFileError::NothingAsked);
        }
        let results = solve_all(instances.len(), options, |place, options| {
            answers::rows(&self.model, &properties, &instances[place], options)
        });
        let mut solved = Solved {
            rows: Vec::new(),
            unanswered: Vec::new(),
        };
        for (result, constants) in results.into_iter().zip(instances) {
            let placed = |error: &retryguard_model::Error| match instances.len() {
                1 => message(error),
                _ => format!("with {}: {}", answers::constants_text(constants), message(error)),
            };
            let (answered, refused) = result.map_err(|error| ModelFileError::of(&error, placed(&error)))?;
            solved.rows.extend(answered);
            solved
                .unanswered
                .extend(refused.iter().map(|refused| placed(&refused.error)));
        }
        Ok(solved)
    }
}

type Rows = Result<(Vec<Row>, Vec<Refused>), retryguard_model::Error>;

/// Every instance, several at a time. They share the memory; what does not fit into its share is solved again by itself.
fn solve_all(
    instances: usize,
    options: &Options,
    solve: impl Fn(usize, &Options) -> Rows + Sync,
) -> Vec<Rows> {
    let at_a_time = instances.min(rayon::current_num_threads()).max(1);
    let shared = Options {
        max_memory: options.max_memory / at_a_time as u64,
        ..options.clone()
    };
    let mut solved: Vec<Rows> = (0..instances)
        .into_par_iter()
        .map(|place| solve(place, &shared))
        .collect();
    if at_a_time > 1 {
        let again = solved
            .iter_mut()
            .enumerate()
            .filter(|(_, rows)| lacks_memory(rows, options));
        again.for_each(|(place, rows)| *rows = solve(place, options));
    }
    solved
}

/// Whether more memory may give more answers, or values where there are bounds that were not asked for.
fn lacks_memory(rows: &Rows, options: &Options) -> bool {
    match rows {
        Ok((answered, refused)) => {
            let between =
                |row: &Row| options.truncate.is_none() && matches!(row.answer.outcome, Outcome::Between(..));
            answered.iter().any(between) || refused.iter().any(|refused| refused.error.is_memory_limit())
        }
        Err(error) => error.is_memory_limit(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A sweep over six queues, the largest of which needs more than its share.
    #[test]
    fn instances_share_the_memory_and_the_largest_is_solved_by_itself() {
        let model = Model::parse(
            "ctmc const int K; module m x : [0..K]; [] x<K -> 1 : (x'=x+1); [] x>0 -> 2 : (x'=x-1); endmodule",
        )
        .unwrap();
        let properties = Properties::parse("S=? [ x=0 ]").unwrap();
        let instances: Vec<Constants> = [10, 20, 30, 40, 50, 19_999]
            .map(|places| Constants::from([("K".to_owned(), retryguard_model::Value::Int(places))]))
            .into();
        let options = Options {
            max_memory: 4 << 20,
            ..Options::default()
        };
        let (under_way, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let solved = pool.install(|| {
            solve_all(instances.len(), &options, |place, options| {
                let now = under_way.fetch_add(options.max_memory, Ordering::SeqCst) + options.max_memory;
                most.fetch_max(now, Ordering::SeqCst);
                let rows = answers::rows(&model, &properties, &instances[place], options);
                under_way.fetch_sub(options.max_memory, Ordering::SeqCst);
                rows
            })
        });
        assert_eq!(most.into_inner(), 4 << 20, "bytes allowed at one time");
        let values: Vec<f64> = solved
            .into_iter()
            .map(|rows| rows.unwrap().0[0].answer.outcome.number().unwrap())
            .collect();
        for (value, places) in values.iter().zip([10, 20, 30, 40, 50, 19_999]) {
            let exact = 0.5 / (1.0 - 0.5_f64.powi(places + 1));
            assert!((value - exact).abs() < 1e-12, "{value} {exact}");
        }
    }
}
