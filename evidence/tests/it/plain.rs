//! Agreement with Storm on the models of the benchmark, at a size that fits a test.

use std::path::{Path, PathBuf};

use retryguard_model::{Constants, Model, Options, Outcome, Properties, Value, check};
use retryguard_parts::storm;
use serde_json::json;

/// The models of the benchmark in which nothing can be reduced: a size that fits a test, and questions of every kind. They are
/// meshes large enough that no state is cheap to take out.
const PLAIN: &[(&str, &str, i64, &[&str])] = &[
    (
        "two-stations",
        "places",
        12,
        &[
            "P=? [ leaving<9 U waiting=places ]",
            "R{\"requests\"}=? [ F waiting=places ]",
            "R{\"requests\"}=? [ S ]",
        ],
    ),
    (
        "three-queues",
        "c",
        9,
        &[
            "P=? [ x<5 U z=7 ]",
            "P=? [ x<5 U<=4 z=7 ]",
            "R{\"customers\"}=? [ F z=7 ]",
            "R{\"customers\"}=? [ C<=3 ]",
            "R{\"customers\"}=? [ S ]",
            "S=? [ z>5 ]",
        ],
    ),
    (
        "polling",
        "c",
        3,
        &[
            "P=? [ n2<2 U n1=3 ]",
            "R{\"waiting\"}=? [ F n1=3 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ n1>1 ]",
        ],
    ),
    (
        "breakdowns",
        "K",
        7,
        &[
            "P=? [ up1>0 U n2=7 ]",
            "R{\"waiting\"}=? [ F up1=0 ]",
            "R{\"served\"}=? [ C<=5 ]",
            "R{\"served\"}=? [ S ]",
            "S=? [ n1>4 ]",
        ],
    ),
    (
        "tools",
        "shape",
        5,
        &[
            "P=? [ p4<2 U p1=1 & p2=1 & p3>1 ]",
            "R{\"waiting\"}=? [ F p1=1 & p2=1 & p3=1 & p4=1 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ free=0 ]",
        ],
    ),
    (
        "epidemic",
        "N",
        20,
        &[
            "P=? [ F i>=10 ]",
            "P=? [ s>10 U<=2 i>=7 ]",
            "R{\"ill\"}=? [ F i=0 ]",
            "S=? [ s>10 ]",
        ],
    ),
    (
        "../unseen/cluster",
        "N",
        3,
        &[
            "P=? [ r>1 U l<1 ]",
            "P=? [ F<=10 !\"minimum\" ]",
            "R{\"repairs\"}=? [ F !\"minimum\" ]",
            "R{\"repairs\"}=? [ C<=10 ]",
            "R{\"working\"}=? [ S ]",
            "S=? [ \"premium\" ]",
        ],
    ),
    (
        "../unseen/kanban",
        "cards",
        2,
        &[
            "P=? [ b2<1 U \"blocked\" ]",
            "P=? [ b2<1 U<=5 \"blocked\" ]",
            "R{\"parts\"}=? [ F \"blocked\" ]",
            "R{\"out\"}=? [ C<=5 ]",
            "R{\"out\"}=? [ S ]",
            "S=? [ d1>1 ]",
        ],
    ),
    (
        "../unseen/predators",
        "most",
        8,
        &[
            "P=? [ g>2 U \"foxless\" ]",
            "P=? [ g>2 U<=2 \"foxless\" ]",
            "R{\"hunted\"}=? [ F \"foxless\" ]",
            "R{\"hunted\"}=? [ C<=2 ]",
            "R{\"animals\"}=? [ S ]",
            "S=? [ h<3 ]",
        ],
    ),
    (
        "../unseen/fileserver",
        "clients",
        4,
        &[
            "P=? [ log<8 U queue>=4 ]",
            "P=? [ log<8 U<=3 queue>=4 ]",
            "R{\"waiting\"}=? [ F queue>=4 ]",
            "R{\"answers\"}=? [ C<=3 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ mode>0 ]",
        ],
    ),
    (
        "../unseen/gene",
        "most",
        6,
        &[
            "P=? [ on U p>=4 ]",
            "P=? [ on U<=3 p>=4 ]",
            "R{\"proteins\"}=? [ F pairs>=2 ]",
            "R{\"proteins\"}=? [ C<=3 ]",
            "R{\"proteins\"}=? [ S ]",
            "S=? [ !on ]",
        ],
    ),
];

#[test]
#[ignore = "needs Storm"]
fn plain_models_agree_with_storm() {
    let found: Vec<Vec<Outcome>> = PLAIN
        .iter()
        .map(|(name, constant, value, properties)| {
            let text = std::fs::read_to_string(file(name)).expect("a model");
            let constants = Constants::from([((*constant).to_owned(), Value::Int(*value))]);
            // One at a time, so that each is answered without regard to the others.
            properties
                .iter()
                .map(|property| ours(&text, property, &constants))
                .collect()
        })
        .collect();
    let python = storm::python();
    let asked: Vec<serde_json::Value> = PLAIN
        .iter()
        .map(|(name, constant, value, properties)| {
            json!({"model": file(name), "constants": format!("{constant}={value}"), "properties": properties})
        })
        .collect();
    for (((name, _, _, properties), ours), answer) in PLAIN.iter().zip(found).zip(storm::ask(&python, &asked))
    {
        let theirs = answer["values"]
            .as_array()
            .unwrap_or_else(|| panic!("{name}: {answer}"));
        for ((property, theirs), ours) in properties.iter().zip(theirs).zip(&ours) {
            assert!(
                agree(theirs, ours),
                "{name}: {property}: Storm {theirs}, we {ours:?}"
            );
        }
    }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("models/plain/{name}.prism"))
}

fn ours(model: &str, property: &str, constants: &Constants) -> Outcome {
    let parsed = Model::parse(model).unwrap_or_else(|e| panic!("{}", e.render("model", model, "")));
    let asked = Properties::parse(property).unwrap_or_else(|e| panic!("{}", e.render("", "", property)));
    let answers = check(&parsed, &asked, constants, &Options::default());
    answers.unwrap_or_else(|e| panic!("{}", e.render("model", model, property)))[0].outcome
}

fn agree(theirs: &serde_json::Value, ours: &Outcome) -> bool {
    match (theirs.as_f64(), ours) {
        (Some(a), Outcome::Number(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-9),
        _ => false,
    }
}
