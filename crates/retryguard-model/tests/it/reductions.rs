//! That the reductions happen, and what they and truncation are worth.

use std::path::Path;

use retryguard_model::{Answer, Constants, Model, Options, Outcome, Properties, Value, check};

fn answers(model: &str, properties: &str, constants: &Constants, options: &Options) -> Vec<Answer> {
    check(
        &Model::parse(model).unwrap(),
        &Properties::parse(properties).unwrap(),
        constants,
        options,
    )
    .unwrap_or_else(|e| panic!("{}", e.render("model", model, properties)))
}

fn file(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../models")
            .join(name),
    )
    .unwrap()
}

fn number(answer: &Answer) -> f64 {
    match answer.outcome {
        Outcome::Number(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ten_clients_are_counted_rather_than_named() {
    let asked = file("clients/long-run.props");
    // A budget that refills at once is not a budget, so the model of named clients and the one that counts them must agree.
    let named = answers(
        &file("clients/ten-clients.prism"),
        &asked,
        &Constants::from([("REFILL".into(), Value::Real(1e6))]),
        &Options::default(),
    );
    assert_eq!(named[0].states, 1716);
    let counted = answers(
        &file("clients/guard.prism"),
        &asked,
        &Constants::from([("GUARDED".into(), Value::Bool(false))]),
        &Options::default(),
    );
    for (a, b) in named.iter().zip(&counted) {
        assert!((number(a) / number(b) - 1.0).abs() < 1e-6, "{a:?} {b:?}");
    }
}

#[test]
fn a_budget_and_a_guard_each_cut_retries() {
    let asked = file("clients/long-run.props");
    let retries = |name: &str, constant: &str, value: Value| {
        let constants = Constants::from([(constant.to_owned(), value)]);
        number(&answers(&file(name), &asked, &constants, &Options::default())[1])
    };
    let free = retries("clients/ten-clients.prism", "REFILL", Value::Real(1e6));
    let budget = retries("clients/ten-clients.prism", "REFILL", Value::Real(0.1));
    let guard = retries("clients/guard.prism", "GUARDED", Value::Bool(true));
    assert!(budget < 0.5 * free, "{budget} {free}");
    assert!(guard < 0.9 * free, "{guard} {free}");
}

#[test]
fn a_counter_to_1000_leaves_a_handful_of_values() {
    let small = file("resiliency-patterns/dynamic-circuit-breaker.prism")
        .replace("const int SHAPE = 100;", "const int SHAPE = 5;");
    let constants = Constants::from([("AV".into(), Value::Real(0.5)), ("MAX_TO".into(), Value::Int(40))]);
    let asked = file("resiliency-patterns/times.props");
    let found = answers(&small, &asked, &constants, &Options::default());
    assert!(
        found[0]
            .notes
            .iter()
            .any(|note| note == "reopens: 1001 values behave as 4"),
        "{:?}",
        found[0].notes
    );
    assert!(found[0].states < 20_000);
    // The counter stays out of reach of its end, so a short one says the same.
    let short = small.replace("MAX_REOPEN = 1000", "MAX_REOPEN = 3");
    let same = answers(&short, &asked, &constants, &Options::default());
    for (a, b) in found.iter().zip(&same) {
        assert!((number(a) / number(b) - 1.0).abs() < 1e-10);
    }
}

/// A walk that drifts home on a line too long to explore.
const WALK: &str = "ctmc\nmodule m\n x : [0..1000000000] init 3;\n [] x>0 & x<1000000000 -> 1 : (x'=x+1);\n \
                    [] x>0 -> 2 : (x'=x-1);\n [] x=0 -> true;\nendmodule\nrewards \"time\" x>0 : 1; endrewards\n";

#[test]
fn what_is_too_large_is_truncated_with_a_bound() {
    let options = Options {
        max_states: 2_000,
        ..Options::default()
    };
    let found = answers(
        WALK,
        "P=? [ F<=5 x=10 ]\nP=? [ F x=0 ]\nR{\"time\"}=? [ C<=4 ]",
        &Constants::new(),
        &options,
    );
    let Outcome::Between(low, high) = found[1].outcome else {
        panic!("{:?}", found[1]);
    };
    // It comes home for certain.
    assert!(
        low > 1.0 - 1e-4 && low <= 1.0 && (high - 1.0).abs() < 1e-9,
        "{low} {high}"
    );
    assert!(found[0].notes[0].starts_with("truncated"), "{:?}", found[0].notes);
    // The same questions on a line that can be explored to its end must lie between.
    let short = WALK.replace("1000000000", "400");
    let exact = answers(
        &short,
        "P=? [ F<=5 x=10 ]\nP=? [ F x=0 ]\nR{\"time\"}=? [ C<=4 ]",
        &Constants::new(),
        &Options::default(),
    );
    for (found, exact) in found.iter().zip(&exact) {
        let Outcome::Between(low, high) = found.outcome else {
            panic!("{found:?}");
        };
        let exact = number(exact);
        assert!(
            low <= exact + 1e-9 && exact <= high + 1e-9,
            "{low} {exact} {high}"
        );
        assert!(high - low < 1e-3, "{low} {high}");
    }
}

/// Driven away from its target: nothing beyond the edge brings it back, and the note says so.
#[test]
fn a_reward_that_nothing_drives_back_has_no_bound() {
    let options = Options {
        truncate: Some(1e-6),
        ..Options::default()
    };
    let away = WALK.replace("-> 1 : (x'=x+1)", "-> 3 : (x'=x+1)");
    let found = answers(&away, "R{\"time\"}=? [ F x=0 ]", &Constants::new(), &options);
    let Outcome::Between(_, high) = found[0].outcome else {
        panic!("{found:?}");
    };
    assert!(high.is_infinite());
    assert_eq!(
        found[0].outcome.number(),
        None,
        "a lower bound alone is no answer"
    );
    let told = found[0].notes.join("\n");
    assert!(
        told.contains("no upper bound: beyond the edge nothing drives the chain back")
            && told.contains("--max-states"),
        "{told}"
    );
}

/// Three shapes of what lies beyond an edge: a walk, a queue whose server breaks and whose arrivals change, a count that a success
/// forgets. The second model of each can be explored to its end, and says the same to more digits than are compared.
#[test]
fn a_truncated_reward_lies_between_its_bounds() {
    let queue = |end: u32| {
        format!(
            "ctmc\nmodule queue\n x : [0..{end}] init 2;\n [] x>0 & x<{end} -> (kind=0 ? 0.2 : kind=1 ? 0.8 : 1.4) : (x'=x+1);\n \
             [] x>0 & up -> 2*min(x,3) : (x'=x-1);\n [] x=0 -> true;\nendmodule\n\
             module server\n up : bool init true;\n [] up -> 0.1 : (up'=false);\n [] !up -> 0.5 : (up'=true);\nendmodule\n\
             module weather\n kind : [0..2] init 0;\n [] kind<2 -> 0.3 : (kind'=kind+1);\n [] kind>0 -> 0.4 : (kind'=kind-1);\n\
             endmodule\nrewards \"time\" x>0 : 1; [] true : 0.25; endrewards\n"
        )
    };
    let count = |end: u32| {
        format!(
            "ctmc\nmodule client\n tries : [0..{end}];\n done : [0..5];\n busy : bool init false;\n \
             [] !busy & done<5 -> 1/(1+min(tries,4)) : (busy'=true);\n \
             [] busy & done<5 -> 3 : (busy'=false)&(done'=done+1)&(tries'=0) + 1 : (busy'=false)&(tries'=min(tries+1,{end}));\n \
             [] done=5 -> true;\nendmodule\nrewards \"time\" true : 1; endrewards\n"
        )
    };
    let walk = |end: u32| WALK.replace("1000000000", &end.to_string());
    for (long, short, asked) in [
        (walk(1_000_000_000), walk(400), "R{\"time\"}=? [ F x=0 ]"),
        (queue(1_000_000), queue(400), "R{\"time\"}=? [ F x=0 ]"),
        (count(1_000_000), count(60), "R{\"time\"}=? [ F done=5 ]"),
    ] {
        let exact = number(&answers(&short, asked, &Constants::new(), &Options::default())[0]);
        let mut width = f64::INFINITY;
        for limit in [1e-4, 1e-8, 1e-12] {
            let options = Options {
                truncate: Some(limit),
                reduce: false,
                ..Options::default()
            };
            let found = answers(&long, asked, &Constants::new(), &options);
            let Outcome::Between(low, high) = found[0].outcome else {
                panic!("{found:?}");
            };
            assert!(
                low <= exact * (1.0 + 1e-9) && exact <= high * (1.0 + 1e-9),
                "{low} {exact} {high}"
            );
            assert!(high - low < width, "{limit}: {low} {high}");
            width = high - low;
        }
        assert!(width < 0.01 * exact, "{width} {exact}");
    }
}

/// The walk's time home is known in closed form: the distance over the difference of the rates.
#[test]
fn the_bounds_enclose_the_closed_form() {
    for (start, up, down) in [(1u32, 0.5, 1.0), (7, 1.0, 1.1), (40, 0.1, 9.0)] {
        let text = WALK
            .replace("init 3", &format!("init {start}"))
            .replace("-> 1 : (x'=x+1)", &format!("-> {up} : (x'=x+1)"))
            .replace("-> 2 : (x'=x-1)", &format!("-> {down} : (x'=x-1)"));
        let options = Options {
            truncate: Some(1e-14),
            ..Options::default()
        };
        let found = answers(&text, "R{\"time\"}=? [ F x=0 ]", &Constants::new(), &options);
        let Outcome::Between(low, high) = found[0].outcome else {
            panic!("{found:?}");
        };
        let exact = f64::from(start) / (down - up);
        assert!(
            low <= exact && exact <= high && high.is_finite(),
            "{low} {exact} {high}"
        );
    }
}

/// Queues that know nothing of one another have a closed form; together they are a mesh that is swept, not eliminated.
#[test]
fn the_long_run_of_a_mesh_is_that_of_its_parts() {
    let queues: [(&str, f64, f64); 3] = [("x", 0.9, 1.0), ("y", 1.2, 1.5), ("z", 0.5, 1.3)];
    let (last, mut text, mut exact) = (19, String::from("ctmc\n"), 0.0);
    for (name, up, down) in queues {
        text.push_str(&format!(
            "module {name}q\n {name} : [0..{last}];\n [] {name}<{last} -> {up} : ({name}'={name}+1);\n \
             [] {name}>0 -> {down} : ({name}'={name}-1);\nendmodule\n"
        ));
        let weights: Vec<f64> = (0..=last).map(|n| (up / down).powi(n)).collect();
        let sum: f64 = weights.iter().sum();
        exact += (0..)
            .zip(&weights)
            .map(|(n, w)| f64::from(n) * w / sum)
            .sum::<f64>();
    }
    text.push_str("rewards true : x+y+z; endrewards\n");
    let found = answers(&text, "R=? [ S ]", &Constants::new(), &Options::default());
    assert!(
        (number(&found[0]) / exact - 1.0).abs() < 1e-9,
        "{found:?} {exact}"
    );
}

#[test]
fn stiff_chains_keep_their_digits() {
    // Up with 1e9, out with 1e-9: the expected time is 1e18 plus a little, known in closed form.
    let text = "ctmc\nmodule m\n s : [0..2];\n [] s=0 -> 1e9 : (s'=1);\n [] s=1 -> 1e9 : (s'=0) + 1e-9 : (s'=2);\n [] s=2 -> true;\n\
                endmodule\nrewards \"time\" s<2 : 1; endrewards\n";
    let found = answers(
        text,
        "R{\"time\"}=? [ F s=2 ]",
        &Constants::new(),
        &Options::default(),
    );
    let exact = 1e-9 + (1.0 + 1e9 * 1e-9) / 1e-9;
    assert!((number(&found[0]) / exact - 1.0).abs() < 1e-12, "{found:?}");
}
