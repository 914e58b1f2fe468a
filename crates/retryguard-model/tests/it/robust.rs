//! Never a panic, whatever the text.

use proptest::prelude::*;
use retryguard_model::{Constants, Model, Options, Properties, check};

/// Reads, builds and solves whatever can be read, within small limits.
fn survive(model: &str, properties: &str) {
    let options = Options {
        max_states: 2_000,
        max_memory: 64 << 20,
        max_steps: 10_000,
        ..Options::default()
    };
    match (Model::parse(model), Properties::parse(properties)) {
        (Ok(model_tree), Ok(asked)) => {
            for reduce in [true, false] {
                let options = Options {
                    reduce,
                    ..options.clone()
                };
                if let Err(error) = check(&model_tree, &asked, &Constants::new(), &options) {
                    assert!(!error.render("m", model, properties).is_empty());
                }
            }
        }
        (a, b) => {
            for error in a.err().into_iter().chain(b.err()) {
                assert!(!error.render("m", model, properties).is_empty());
            }
        }
    }
}

/// Found by the fuzzer: a question without a bound, joined with another, had no truth to be joined by.
#[test]
fn joined_questions_need_bounds() {
    let model = "ctmc\nmodule m\n x : [0..1];\n [] x=0 -> (x'=1);\n [] x=1 -> (x'=0);\nendmodule\n";
    for joined in [
        "P=? [ F x=1 ] | P=? [ F x=0 ]",
        "S=? [ x=0 ] <=> S=? [ x=1 ]",
        "!P=? [ F x=1 ]",
        "x=0 & S=? [ x=1 ]",
        "S=? [ x=1 ] => x=0",
    ] {
        let refused = check(
            &Model::parse(model).unwrap(),
            &Properties::parse(joined).unwrap(),
            &Constants::new(),
            &Options::default(),
        )
        .unwrap_err();
        assert!(
            refused.to_string().contains("needs a bound"),
            "{joined}: {refused}"
        );
        survive(model, joined);
    }
}

/// Texts of the tests, to be bent.
fn seeds() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chains");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "prism") {
            let properties = std::fs::read_to_string(path.with_extension("props")).unwrap();
            found.push((std::fs::read_to_string(&path).unwrap(), properties));
        }
    }
    found.sort();
    found
}

/// Words and signs of the language, and some that are not.
const PIECES: &[&str] = &[
    "ctmc",
    "module",
    "endmodule",
    "const",
    "int",
    "double",
    "bool",
    "formula",
    "label",
    "global",
    "init",
    "endinit",
    "rewards",
    "endrewards",
    "system",
    "endsystem",
    "x",
    "y",
    "m",
    "[",
    "]",
    "[]",
    "(",
    ")",
    "'",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "->",
    "+",
    "-",
    "*",
    "/",
    "&",
    "|",
    "=>",
    "<=>",
    "?",
    ":",
    ";",
    ",",
    "..",
    "{",
    "}",
    "\"a\"",
    "0",
    "1",
    "2",
    "0.5",
    "9223372036854775807",
    "1e308",
    "min",
    "max",
    "pow",
    "mod",
    "log",
    "floor",
    "ceil",
    "true",
    "false",
    "P",
    "R",
    "S",
    "F",
    "U",
    "X",
    "G",
    "C",
    "I",
    "=?",
    "|||",
    "||",
    "|[",
    "]|",
    "\n",
    "//",
    "\"",
    "é",
    "^",
    "func",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text(model in ".{0,200}", properties in ".{0,80}") {
        survive(&model, &properties);
        survive(&format!("ctmc\nmodule m\n{model}\nendmodule"), &properties);
    }

    #[test]
    fn arbitrary_pieces(
        model in prop::collection::vec(prop::sample::select(PIECES), 0..60),
        properties in prop::collection::vec(prop::sample::select(PIECES), 0..30),
    ) {
        let (model, properties) = (model.join(" "), properties.join(" "));
        survive(&model, &properties);
        survive(
            &format!("ctmc\nmodule m\n x : [0..3];\n y : bool;\n [] x<3 -> 1 : (x'=x+1);\n {model}\nendmodule"),
            &format!("P=? [ F x=3 ]\n{properties}"),
        );
    }

    #[test]
    fn bent_models(
        place in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, prop::sample::select(PIECES)), 1..4),
    ) {
        let seeds = seeds();
        let (mut model, properties) = seeds[place.index(seeds.len())].clone();
        for (at, length, piece) in cuts {
            let mut start = at.index(model.len() + 1);
            while !model.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + length).min(model.len());
            while !model.is_char_boundary(end) {
                end += 1;
            }
            model.replace_range(start..end, piece);
        }
        survive(&model, &properties);
    }
}

/// Random chains: elimination against sweeps, reductions against none, a bound against a long time.
mod solvers {
    use super::*;
    use retryguard_model::Outcome;

    fn chain() -> impl Strategy<Value = String> {
        prop::collection::vec((0usize..8, 0usize..8, -4i32..5), 8..24).prop_map(|edges| {
            let mut text = String::from("ctmc\nmodule m\n s : [0..7];\n");
            for (from, to, exponent) in edges {
                text.push_str(&format!(
                    " [] s={from} -> {} : (s'={to});\n",
                    10f64.powi(exponent)
                ));
            }
            for state in 0..8 {
                text.push_str(&format!(" [] s={state} -> 0.001 : (s'={state});\n"));
            }
            text.push_str("endmodule\nrewards \"r\" true : s+1; endrewards\n");
            text
        })
    }

    fn numbers(text: &str, properties: &str) -> Vec<f64> {
        let answers = check(
            &Model::parse(text).unwrap(),
            &Properties::parse(properties).unwrap(),
            &Constants::new(),
            &Options::default(),
        );
        answers
            .unwrap()
            .iter()
            .map(|answer| match answer.outcome {
                Outcome::Number(value) => value,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Probabilities add up, and a target is reached or not.
        #[test]
        fn probabilities_add_up(text in chain()) {
            let steady = numbers(&text, "S=? [s=0]\nS=? [s=1]\nS=? [s=2]\nS=? [s=3]\nS=? [s=4]\nS=? [s=5]\nS=? [s=6]\nS=? [s=7]");
            prop_assert!((steady.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let values = numbers(&text, "P=? [ F s=7 ]\nP=? [ G s!=7 ]\nP=? [ F<=1 s=7 ]\nR{\"r\"}=? [ F s=7 ]");
            prop_assert!((values[0] + values[1] - 1.0).abs() < 1e-9);
            prop_assert!(values[2] <= values[0] + 1e-9);
            // An infinite reward if and only if the target may be missed.
            if values[0] < 0.99 {
                prop_assert!(values[3].is_infinite());
            }
            if values[3].is_finite() {
                prop_assert!((values[0] - 1.0).abs() < 1e-9);
            }
        }

        /// The long-run average is what a long time earns, where the chain is quick to settle.
        #[test]
        fn rewards_of_a_step_add_up(text in chain()) {
            let values = numbers(&text, "R{\"r\"}=? [ C<=0.001 ]\nR{\"r\"}=? [ I=0 ]");
            prop_assert_eq!(values[1], 1.0);
            prop_assert!(values[0] >= 0.001 * 0.999 && values[0] <= 0.008 * 1.001);
        }
    }
}
