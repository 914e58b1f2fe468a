//! Paths of several operators: what logic says about them holds of their probabilities.

use proptest::prelude::*;
use retryguard_model::{Constants, Model, Options, Outcome, Properties, check};

/// A chain of six states with random rates; a rate of 0 is left out.
fn chain(rates: &[u8]) -> String {
    let mut commands = String::new();
    for from in 0..6 {
        let updates: Vec<String> = (0..6)
            .filter(|to| rates[from * 6 + to] > 0)
            .map(|to| format!("{} : (x'={to})", rates[from * 6 + to]))
            .collect();
        let updates = if updates.is_empty() {
            vec!["true".to_owned()]
        } else {
            updates
        };
        commands.push_str(&format!("[] x={from} -> {};\n", updates.join(" + ")));
    }
    format!(
        "ctmc\nmodule m\nx : [0..5];\n{commands}endmodule\nlabel \"a\" = x=1|x=3|x=4;\nlabel \"b\" = x=2|x=3;\n"
    )
}

fn probabilities(model: &str, paths: &[String]) -> Vec<f64> {
    let asked: Vec<String> = paths.iter().map(|path| format!("P=? [ {path} ]")).collect();
    let model = Model::parse(model).unwrap();
    let asked = Properties::parse(&asked.join(";")).unwrap();
    let answers = check(&model, &asked, &Constants::new(), &Options::default()).unwrap();
    let number = |outcome| match outcome {
        Outcome::Number(value) => value,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(|answer| number(answer.outcome)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn probabilities_follow_logic(
        rates in prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => 1u8..9], 36),
        first in path(), second in path(),
    ) {
        let (a, b) = (&first, &second);
        let asked = [
            format!("({a}) & ({b})"),
            format!("({a}) | ({b})"),
            format!("(({a}))"),
            format!("(({b}))"),
            format!("!(({a}) & ({b}))"),
            format!("F ({a})"),
            format!("({a}) | (X (F ({a})))"),
            format!("({a}) U ({b})"),
            format!("({b}) | (({a}) & (X (({a}) U ({b}))))"),
        ];
        let p = probabilities(&chain(&rates), &asked);
        let same = |x: f64, y: f64| (x - y).abs() < 1e-9;
        prop_assert!(same(p[0] + p[1], p[2] + p[3]), "{asked:?} {p:?}");
        prop_assert!(same(p[0] + p[4], 1.0), "{asked:?} {p:?}");
        prop_assert!(same(p[5], p[6]), "{asked:?} {p:?}");
        prop_assert!(same(p[7], p[8]), "{asked:?} {p:?}");
    }
}

/// One path operator, or two.
fn path() -> impl Strategy<Value = String> {
    let one = prop::sample::select(vec![
        "F \"a\"",
        "G \"a\"",
        "X \"b\"",
        "\"a\" U \"b\"",
        "\"a\" W \"b\"",
        "\"b\" R \"a\"",
        "x!=5",
    ]);
    (one, prop::sample::select(vec!["", "X ", "F ", "G ", "!"])).prop_map(|(one, before)| match before {
        "" => one.to_owned(),
        before => format!("{before}({one})"),
    })
}
