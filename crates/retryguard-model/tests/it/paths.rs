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

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What is likely happens on some path, what every path does is certain, and both follow the laws of branching time.
    #[test]
    fn some_path_is_no_less_than_a_likely_one(
        rates in prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => 1u8..9], 36),
        first in path(), second in path(),
    ) {
        let (a, b) = (&first, &second);
        let text = chain(&rates);
        for path in [
            format!("({a}) & ({b})"),
            format!("F ({a})"),
            format!("G (({a}) | ({b}))"),
            format!("({a}) U ({b})"),
            format!("X (X ({b}))"),
        ] {
            let asked = format!(
                "filter(forall, P>1e-9 [ {path} ] => E [ {path} ]); \
                 filter(forall, A [ {path} ] => P>0.999999999 [ {path} ]); \
                 filter(forall, E [ {path} ] <=> !A [ !({path}) ]); \
                 filter(forall, E [ X ({path}) ] <=> E [ X E [ {path} ] ])"
            );
            let model = Model::parse(&text).unwrap();
            let read = Properties::parse(&asked).unwrap();
            for answer in check(&model, &read, &Constants::new(), &Options::default()).unwrap() {
                prop_assert_eq!(answer.outcome, Outcome::Truth(true), "{} {}", text, answer.property);
            }
        }
    }
}

/// Paths whose operators can be told one by one: the answers are known without pairs and promises.
#[test]
fn some_path_of_several_operators() {
    let text = "ctmc\nmodule m\n x : [0..3];\n [] x=0 -> 1 : (x'=1) + 1 : (x'=2);\n [] x=1 -> 1 : (x'=0);\n [] x>=2 -> true;\nendmodule\n";
    let model = Model::parse(text).unwrap();
    for (asked, wanted) in [
        ("E [ G F x=1 ]", true),
        ("A [ F G x=2 ]", false),
        ("A [ (F G x=2) | (G F x=1) ]", true),
        ("E [ (F x=1) & (F G x=2) ]", true),
        ("E [ (G F x=1) & (F x=2) ]", false),
        ("A [ G (x=1 => (X x=0)) ]", true),
        ("E [ X (x=2 & (X x!=2)) ]", false),
        ("E [ (x=0 U x=1) & (X G x=1) ]", false),
    ] {
        let read = Properties::parse(asked).unwrap();
        let found = check(&model, &read, &Constants::new(), &Options::default()).unwrap();
        assert_eq!(found[0].outcome, Outcome::Truth(wanted), "{asked}");
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
