//! From a model and its properties to answers.

use crate::answer::{Answer, Refused};
use crate::elaborate::elaborate;
use crate::elaborate::properties::{Formula, resolve};
use crate::error::Error;
use crate::input::{Constants, Model, Properties, open_constant};
use crate::options::Options;
use crate::questions::Question;
use crate::session::Session;

/// Answers `properties` about `model` with the given values of its open constants. The first property that is refused is the error.
pub fn check(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Answer>, Error> {
    let answers = check_each(model, properties, constants, options)?;
    answers
        .into_iter()
        .map(|answer| answer.map_err(|refused| refused.error))
        .collect()
}

/// Answers `properties` one by one: a property that is refused does not stop the others. An error of the model is the error of all.
pub fn check_each(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Result<Answer, Refused>>, Error> {
    let file = &properties.file;
    let (program, scope) = elaborate(&model.tree, file, constants)?;
    open_constant(&model.tree, file, &scope)?;
    let resolved: Vec<Result<Formula, Error>> = file
        .properties
        .iter()
        .map(|property| resolve(&scope, &program, &file.properties, property))
        .collect();
    let questions: Vec<Question<'_>> = file
        .properties
        .iter()
        .zip(&resolved)
        .filter_map(|(property, formula)| Some((property, formula.as_ref().ok()?.clone())))
        .collect();
    let session = Session {
        program: &program,
        options,
    };
    let mut answers = match questions.is_empty() {
        true => Vec::new(),
        false => session.answer_each(&questions)?,
    }
    .into_iter();
    let mut all = Vec::with_capacity(properties.len());
    let mut unread = file.refused.iter().peekable();
    for (place, (property, formula)) in file.properties.iter().zip(resolved).enumerate() {
        while let Some((_, text, error)) = unread.next_if(|(before, _, _)| *before <= place) {
            all.push(Err(unreadable(text, error)));
        }
        let answer = match formula {
            Ok(_) => answers
                .next()
                .unwrap_or_else(|| unreachable!("every question has an answer")),
            Err(error) => Err(error),
        };
        all.push(answer.map_err(|error| Refused {
            name: property.name.clone(),
            property: property.text.clone(),
            error,
        }));
    }
    all.extend(unread.map(|(_, text, error)| Err(unreadable(text, error))));
    Ok(all)
}

fn unreadable(text: &str, error: &Error) -> Refused {
    Refused {
        name: None,
        property: text.to_owned(),
        error: error.clone(),
    }
}
