//! The page of the property language, row by row.

use std::path::Path;

use retryguard_model::{Answer, Constants, Model, Options, Outcome, Properties, Refused, Value, check_each};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model-checker-properties.md");
    std::fs::read_to_string(path).unwrap()
}

/// The model in the page's first block of code.
fn model(page: &str) -> Model {
    let text = page.split("```prism\n").nth(1).unwrap();
    Model::parse(text.split("```").next().unwrap()).unwrap()
}

fn ask(model: &Model, text: &str) -> Vec<Result<Answer, Refused>> {
    let refused = |error| Refused {
        name: None,
        property: text.to_owned(),
        error,
    };
    match Properties::parse_each(text) {
        Ok(read) => check_each(model, &read, &Constants::new(), &Options::default()).unwrap(),
        Err(error) => vec![Err(refused(error))],
    }
}

fn shown(outcome: Outcome, listed: &[(String, Value)]) -> String {
    if !listed.is_empty() {
        assert_eq!(outcome, Outcome::States(listed.len()));
        let states: Vec<String> = listed.iter().map(|(s, value)| format!("{s} = {value}")).collect();
        return states.join(", ");
    }
    match outcome {
        Outcome::Number(value) if value.is_infinite() => "Infinity".to_owned(),
        Outcome::Number(value) => value.to_string(),
        Outcome::Range(low, high) => format!("{low} to {high}"),
        Outcome::Truth(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

/// The same text, or numbers that differ in the last digits only.
fn same(found: &str, wanted: &str) -> bool {
    match (found.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b || (a - b).abs() < 1e-9,
        _ => found == wanted,
    }
}

#[test]
fn every_row_of_the_page_is_true() {
    let page = page();
    let model = model(&page);
    let mut rows = 0;
    let mut wrong = Vec::new();
    for line in page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("| `"))
    {
        let cells: Vec<&str> = line.trim_matches('|').splitn(3, " | ").map(str::trim).collect();
        let [_, example, wanted] = cells.as_slice() else {
            panic!("three columns: {line}");
        };
        let example = example.trim_matches('`');
        rows += 1;
        let last = ask(&model, example).pop().unwrap();
        let found = match &last {
            Ok(answer) => shown(answer.outcome, &answer.listed),
            Err(refused) => format!("refused: {}", refused.error),
        };
        let agrees = match wanted.strip_prefix("refused: ") {
            Some(message) => found.contains(message) && last.is_err(),
            None => same(&found, wanted),
        };
        if !agrees {
            wrong.push(format!("{example}: {found}, and the page says {wanted}"));
        }
    }
    assert!(rows > 60, "{rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Three are refused, by the reader, by the resolver and by the solver; the others are answered, each in its place.
#[test]
fn a_refused_property_does_not_stop_its_file() {
    let model = model(&page());
    let text = "P=? [ F x=3 ];\nP=? [ F x== ]\n\nP=? [ F y=1 ]\nfilter(state, x)\n\"named\": P=? [ X x=1 ]\nmulti(P>0 [ F x=1 ])\nS=? [ x=3 ]";
    let answers = ask(&model, text);
    let found: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(
        found,
        [true, false, false, false, true, false, true],
        "{answers:?}"
    );
    let refused = |place: usize| answers[place].as_ref().unwrap_err();
    assert_eq!(refused(1).property, "P=? [ F x== ]");
    let messages: Vec<String> = [1, 2, 3, 5]
        .iter()
        .map(|place| refused(*place).error.render("model", "", text))
        .collect();
    assert!(messages[0].starts_with("property:2:11:"), "{}", messages[0]);
    assert!(messages[1].contains("`y` is not declared"), "{}", messages[1]);
    assert!(
        messages[2].contains("4 states are the filter's"),
        "{}",
        messages[2]
    );
    assert!(messages[3].starts_with("property:7:1:"), "{}", messages[3]);
    assert_eq!(answers[4].as_ref().unwrap().name.as_deref(), Some("named"));
}

/// What is not part of the language costs the property that it is in, not its file: a comment in another language's style, a sign, an open
/// quotation, a number too large.
#[test]
fn what_is_foreign_does_not_stop_the_file() {
    let model = model(&page());
    let text = "/* two\nlines */ P=? [ F x=3 ];\nP=? [ F x=1 ];\nP=? [ F x % 2 = 1 ];\nS=? [ x=3 ]\nP=? [ F \"low ]\nP=? [ X x=1 ]\nP=? [ F<=99999999999999999999 x=3 ];\nx=0";
    let answers = ask(&model, text);
    let messages: Vec<String> = answers
        .iter()
        .map(|answer| match answer {
            Ok(answer) => answer.property.clone(),
            Err(refused) => refused.error.render("model", "", text),
        })
        .collect();
    let wanted = [
        "property:1:1: `/*` begins no comment in this language",
        "P=? [ F x=1 ]",
        "property:4:11: `%` is not part of the language",
        "S=? [ x=3 ]",
        "property:6:9: this quotation is not closed",
        "P=? [ X x=1 ]",
        "property:8:10: `99999999999999999999` is too large for an integer",
        "x=0",
    ];
    assert_eq!(messages.len(), wanted.len(), "{messages:#?}");
    for (found, wanted) in messages.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{found}");
    }
}

/// A walk on all whole numbers is truncated, and both signs have the same probability.
#[test]
fn an_int_needs_no_range() {
    let text = "ctmc\nmodule walk\n x : int;\n [] true -> 1 : (x'=x+1) + 1 : (x'=x-1);\nendmodule\n";
    let model = Model::parse(text).unwrap();
    let read = Properties::parse("P=? [ F<=1 x>=3 ]\nP=? [ F<=1 x<=-3 ]").unwrap();
    let options = Options {
        max_states: 500,
        ..Options::default()
    };
    let answers = check_each(&model, &read, &Constants::new(), &options).unwrap();
    let values: Vec<f64> = answers
        .iter()
        .map(|answer| answer.as_ref().unwrap().outcome.number().unwrap())
        .collect();
    assert!(
        (values[0] - values[1]).abs() < 1e-6 && values[0] > 0.01,
        "{values:?}"
    );
}

/// States that nothing leaves carry the label, once they are given a loop.
#[test]
fn deadlocks_are_labelled() {
    let text =
        "ctmc\nmodule m\n x : [0..2];\n [] x=0 -> 1 : (x'=1) + 3 : (x'=2);\n [] x=2 -> true;\nendmodule\n";
    let read = Properties::parse("P=? [ F \"deadlock\" ]").unwrap();
    let answers = check_each(
        &Model::parse(text).unwrap(),
        &read,
        &Constants::new(),
        &Options::default(),
    )
    .unwrap();
    let answer = answers[0].as_ref().unwrap();
    assert_eq!(answer.outcome, Outcome::Number(0.25));
    assert_eq!(
        answer.notes,
        ["nothing leaves the state (x=1): it was given a loop"]
    );
}
