//! What a model may say, and how much of it.

use retryguard_model::{Constants, Error, Model, Options, Outcome, Properties, Value, check};

fn answer(model: &str, property: &str) -> Result<Vec<Outcome>, Error> {
    answer_with(model, property, &Constants::new(), &Options::default())
}

pub(crate) fn answer_with(
    model: &str,
    property: &str,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Outcome>, Error> {
    let answers = check(
        &Model::parse(model)?,
        &Properties::parse(property)?,
        constants,
        options,
    )?;
    Ok(answers.into_iter().map(|answer| answer.outcome).collect())
}

fn number(model: &str, property: &str) -> f64 {
    match answer(model, property).as_deref() {
        Ok([Outcome::Number(value)]) => *value,
        other => panic!("{property}: {other:?}"),
    }
}

pub(crate) fn refusal(model: &str, property: &str) -> String {
    let error = answer(model, property).expect_err("the model is refused");
    error.render("model.prism", model, property)
}

pub(crate) const FLIP: &str =
    "ctmc\nmodule m\n  x : [0..1];\n  [] x=0 -> 2 : (x'=1);\n  [] x=1 -> 1 : (x'=0);\nendmodule\n";

#[test]
fn globally_is_the_rest_of_finally() {
    let stay = number(FLIP, "P=? [ G<=0.5 x=0 ]");
    assert!((stay - (-1.0f64).exp()).abs() < 1e-12, "{stay}");
    assert_eq!(number(FLIP, "P=? [ G x=0 ]"), 0.0);
}

#[test]
fn composition_decides_what_is_shared() {
    let modules = "ctmc\nmodule a\n x : [0..1];\n [t] x=0 -> 1 : (x'=1);\n [] x=1 -> 1 : (x'=0);\nendmodule\n\
                   module b\n y : [0..1];\n [t] y=0 -> 2 : (y'=1);\n [] y=1 -> 1 : (y'=0);\nendmodule\n";
    let alone = format!("{modules}system a ||| b endsystem\n");
    let together = format!("{modules}system a |[t]| b endsystem\n");
    // Alone each goes its own way; together the rates multiply and both move at once.
    assert!((number(&alone, "S=? [ x=1 ]") - 0.5).abs() < 1e-12);
    assert!((number(&alone, "S=? [ y=1 ]") - 2.0 / 3.0).abs() < 1e-12);
    let joint = number(&together, "S=? [ x=1 & y=1 ]");
    assert_eq!(joint, number(modules, "S=? [ x=1 & y=1 ]"));
    assert!((joint - 0.25).abs() < 1e-12, "{joint}");
}

/// Hidden, an action is its module's own; renamed, it meets those of its new name.
#[test]
fn actions_are_hidden_and_renamed() {
    let modules = "ctmc\nmodule a\n x : [0..1];\n [t] x=0 -> 1 : (x'=1);\n [] x=1 -> 1 : (x'=0);\nendmodule\n\
                   module b\n y : [0..1];\n [u] y=0 -> 2 : (y'=1);\n [] y=1 -> 1 : (y'=0);\nendmodule\n\
                   rewards \"t\" [t] true : 1; endrewards\nrewards \"none\" [] true : 1; endrewards\n";
    let with = |system: &str| format!("{modules}system {system} endsystem\n");
    let both = |text: &str| number(text, "S=? [ x=1 & y=1 ]");
    let together = with("a || b{u<-t}");
    assert!((both(&together) - 0.25).abs() < 1e-12);
    for apart in ["a || b", "a/{t} || b{u<-t}", "a || (b{u<-t})/{t}"] {
        assert!((both(&with(apart)) - 0.5 * 2.0 / 3.0).abs() < 1e-12, "{apart}");
    }
    // The pair moves from (0, 0) alone, at the rate 2, and is there a quarter of the time.
    assert!((number(&together, "R{\"t\"}=? [ S ]") - 0.5).abs() < 1e-12);
    let hidden = with("(a || b{u<-t})/{t}");
    assert_eq!(number(&hidden, "R{\"t\"}=? [ S ]"), 0.0);
    assert!(
        (number(&hidden, "R{\"none\"}=? [ S ]") - number(&together, "R{\"none\"}=? [ S ]") - 0.5).abs()
            < 1e-12
    );
    // `||` binds less than `|||`, whichever stands first.
    let third = "module c\n z : [0..1];\n [t] z=0 -> 1 : (z'=1);\n [] z=1 -> 1 : (z'=0);\nendmodule\n";
    let mixed = |system: &str| {
        number(
            &format!("{modules}{third}system {system} endsystem\n"),
            "S=? [ x=1 & z=1 ]",
        )
    };
    assert_eq!(mixed("a || b ||| c"), mixed("a || (b ||| c)"));
    assert_ne!(mixed("a || b ||| c"), mixed("(a || b) ||| c"));
}

/// A composition may be made of others by name; the one without a name is the model, or else the first.
#[test]
fn compositions_have_names() {
    let modules = "ctmc\nmodule a\n x : [0..1];\n [t] x=0 -> 1 : (x'=1);\n [] x=1 -> 1 : (x'=0);\nendmodule\n\
                   module b\n y : [0..1];\n [t] y=0 -> 2 : (y'=1);\n [] y=1 -> 1 : (y'=0);\nendmodule\n";
    let both = |systems: &str| number(&format!("{modules}{systems}"), "S=? [ x=1 & y=1 ]");
    let apart = both("system a ||| b endsystem");
    assert!((apart - 1.0 / 3.0).abs() < 1e-12, "{apart}");
    for named in [
        "system \"other\" a ||| b endsystem",
        "system \"other\" a ||| b endsystem\nsystem \"other\" endsystem",
        "system \"one\" || \"two\" endsystem\nsystem \"one\" a/{t} endsystem\nsystem \"two\" (b) endsystem",
    ] {
        assert_eq!(both(named), apart, "{named}");
    }
    for (wrong, reason) in [
        ("system \"one\" endsystem", "there is no system \"one\""),
        (
            "system \"one\" a || \"one\" endsystem",
            "stands twice in the composition, or in itself",
        ),
        (
            "system a endsystem\nsystem b endsystem",
            "a second `system` block",
        ),
    ] {
        let message = refusal(&format!("{modules}{wrong}"), "S=? [ x=1 ]");
        assert!(message.contains(reason), "{message}");
    }
}

/// A reward at an instant is the sum over the states of what they earn and how likely they are then.
#[test]
fn rewards_at_an_instant_are_those_of_the_states() {
    let text = "ctmc\nmodule m\n x : [0..3];\n [] x<3 -> 1+x : (x'=x+1);\n [] x>0 -> 0.5*x : (x'=x-1);\nendmodule\n\
                rewards \"x\" true : x*x; endrewards\n";
    let found = number(text, "R{\"x\"}=? [ I=0.4 ]");
    let by_hand: f64 = (1..=3)
        .map(|x: u8| f64::from(x * x) * number(text, &format!("P=? [ F[0.4,0.4] x={x} ]")))
        .sum();
    assert!((found / by_hand - 1.0).abs() < 1e-12, "{found} {by_hand}");
}

/// A next state that is never such has the probability 0, without a sign.
#[test]
fn nothing_is_not_negative() {
    assert!(number(FLIP, "P=? [ X x=0 ]").is_sign_positive());
}

/// One property may speak of another by its name.
#[test]
fn properties_refer_to_one_another() {
    let asked = "\"quick\": P>=0.8 [ F<=1 x=1 ];\n\"often\": S>0.5 [ x=1 ];\n\"both\": \"quick\" & \"often\";\n\
                 \"never\": !\"both\";";
    let truths = answer(FLIP, asked).unwrap();
    assert_eq!(truths, [true, true, true, false].map(Outcome::Truth));
}

/// What follows the target, or the end of the way to it, is not looked at, so a counter without a limit is not an obstacle.
#[test]
fn a_question_stops_where_its_answer_is_known() {
    let text = format!(
        "ctmc\nmodule m\n x : [0..{0}];\n [] x<{0} -> 1 : (x'=x+1);\nendmodule\n",
        i64::MAX
    );
    let stays = 2.0 * (-1.0f64).exp();
    for (property, wanted) in [
        ("P=? [ F<=1 x=2 ]", 1.0 - stays),
        ("P=? [ x<2 U<=1 x=2 ]", 1.0 - stays),
        ("P=? [ x<2 U x=2 ]", 1.0),
        ("P=? [ x!=1 U x=2 ]", 0.0),
        ("P=? [ x<2 U[0,1] x=1 ]", 1.0 - stays / 2.0),
        ("P=? [ G<=1 x<2 ]", stays),
        ("P=? [ G x<2 ]", 0.0),
    ] {
        let found = number(&text, property);
        assert!((found - wanted).abs() < 1e-12, "{property}: {found}");
    }
}

/// Asked together they have no common end, and the whole chain is built.
#[test]
fn an_early_end_changes_no_answer() {
    let text = "ctmc\nmodule m\n x : [0..9];\n y : [0..9];\n [] x<9 -> 2 : (x'=x+1);\n [] x>0 -> 1 : (x'=x-1);\n \
                [] y<9 -> 1 : (y'=y+1);\n [] y>0 -> 1+x : (y'=y-1);\nendmodule\n";
    let asked = [
        "P=? [ x<7 U y=5 ]",
        "P=? [ x<7 U<=3 y=5 ]",
        "P=? [ G<=3 x+y<8 ]",
        "P=? [ x<7 U[1,3] y=4 ]",
        "P=? [ F<=2 y=3 ]",
    ];
    let together = answer(text, &asked.join(";\n")).unwrap();
    for (property, together) in asked.iter().zip(together) {
        let (alone, together) = (number(text, property), together.number().unwrap());
        assert!(
            (alone / together - 1.0).abs() < 1e-9,
            "{property}: {alone} {together}"
        );
        assert!(alone > 1e-6 && alone < 1.0, "{property}: {alone}");
    }
}

/// A counter: from `x` the third step is made in time with a probability that is known. States that are merged elsewhere are counted one
/// by one here, also those that do nothing.
#[test]
fn filters_choose_states() {
    let text = "ctmc\nmodule m\n x : [0..3];\n [] x<3 -> 1 : (x'=x+1);\n [] x=3 -> true;\nendmodule\n\
                module idle\n y : [0..1];\n [] y=0 -> 5 : (y'=1);\n [] y=1 -> 5 : (y'=0);\nendmodule\n";
    let rest = (-1.0f64).exp();
    let from = [1.0 - 2.5 * rest, 1.0 - 2.0 * rest, 1.0 - rest, 1.0];
    for (property, wanted) in [
        ("filter(min, P=? [ F<=1 x=3 ], x<2)", from[0]),
        ("filter(max, P=? [ F<=1 x=3 ], x<2)", from[1]),
        ("filter(max, P=? [ F<=1 x=3 ])", 1.0),
        ("filter(state, P=? [ F<=1 x=3 ], \"init\")", from[0]),
        (
            "filter(sum, P=? [ F<=1 x=3 ], x<3)",
            2.0 * (from[0] + from[1] + from[2]),
        ),
        (
            "filter(avg, P=? [ F<=1 x=3 ], x<3)",
            (from[0] + from[1] + from[2]) / 3.0,
        ),
        ("filter(count, P>=0.2 [ F<=1 x=3 ], x<3)", 4.0),
        ("filter(+, P=? [ F<=1 x=3 ], x=3)", 2.0),
        ("P=? [ true U<=1 x=3 {x=1 & y=0} ]", from[1]),
        ("P=? [ F<=1 x=3 {x>0}{min} ]", from[1]),
        ("P=? [ F<=1 x=3 {x<3}{max} ]", from[2]),
    ] {
        let found = number(text, property);
        assert!((found - wanted).abs() < 1e-12, "{property}: {found} {wanted}");
    }
    let both = answer(
        text,
        "P=? [ F<=1 x=3 {x<2}{min}{max} ]; filter(range, P=? [ F<=1 x=3 ], x<2)",
    )
    .unwrap();
    for outcome in both {
        assert!(
            matches!(outcome, Outcome::Range(low, high) if (low - from[0]).abs() < 1e-12 && (high - from[1]).abs() < 1e-12),
            "{outcome:?}"
        );
    }
    let truths = answer(
        text,
        "filter(forall, P>=0.2 [ F<=1 x=3 ], x>0); filter(forall, P>=0.2 [ F<=1 x=3 ]); \
         filter(|, P>=0.2 [ F<=1 x=3 ], x<2); filter(exists, P>=0.2 [ F<=1 x=3 ], \"init\")",
    );
    assert_eq!(truths.unwrap(), [true, false, true, false].map(Outcome::Truth));
}

#[test]
fn times_are_computed_from_constants() {
    let text = "ctmc\nconst double T = 0.25;\nlabel \"two\" = x=2;\nmodule m\n x : [0..2];\n [] x<2 -> 1 : (x'=x+1);\n \
                [] x=2 -> true;\nendmodule\n";
    let wanted = 1.0 - 2.0 * (-1.0f64).exp();
    for property in [
        "P=? [ F<=4*T \"two\" ]",
        "P=? [ F <= T*8/2 \"two\" ]",
        "P=? [ true U<=2*T+T+T !(x<2) ]",
        "P=? [ F<=2-4*T (x=2) ]",
        "P=? [ F<=(4*T) x=2 ]",
        "P=? [ F<=4*(T) x=2 ]",
    ] {
        let found = number(text, property);
        assert!((found - wanted).abs() < 1e-12, "{property}: {found}");
    }
}

#[test]
fn iff_and_the_old_call_syntax_are_read() {
    let text = "stochastic\nmodule m\n x : [0..3];\n [] (x<2 <=> true) -> func(max, 1, 2) : (x'=func(min, 3, x+2));\n \
                [] x>=2 -> 1 : (x'=0);\nendmodule\n";
    assert!((number(text, "S=? [ x=0 ]") - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn open_constants_take_values_of_their_type() {
    let text = "ctmc\nconst int N;\nconst double r;\nmodule m\n x : [0..N];\n [] x<N -> r : (x'=x+1);\n [] x=N -> true;\n\
                endmodule\nrewards \"time\" true : 1; endrewards\n";
    let property = "R{\"time\"}=? [ F x=N ]";
    let given = |n: Value, r: Value| {
        let constants = Constants::from([("N".into(), n), ("r".into(), r)]);
        answer_with(text, property, &constants, &Options::default())
    };
    // A whole double may serve as a whole number, and a whole number as a double.
    assert_eq!(
        given(Value::Real(4.0), Value::Int(2)).unwrap(),
        [Outcome::Number(2.0)]
    );
    assert!(matches!(
        given(Value::Real(4.5), Value::Int(2)),
        Err(Error::GivenConstant { .. })
    ));
    assert!(matches!(
        given(Value::Bool(true), Value::Int(2)),
        Err(Error::GivenConstant { .. })
    ));
    assert!(matches!(answer(text, property), Err(Error::OpenConstant { name }) if name == "N"));
    let unknown = Constants::from([("M".into(), Value::Int(1))]);
    assert!(matches!(
        answer_with(text, property, &unknown, &Options::default()),
        Err(Error::GivenConstant { .. })
    ));
}

#[test]
fn several_initial_states_give_a_range() {
    let text = "ctmc\nmodule m\n x : [0..2];\n [] x<2 -> 1 : (x'=x+1);\n [] x=2 -> true;\nendmodule\n\
                init x<2 endinit\nrewards \"time\" true : 1; endrewards\n";
    assert_eq!(
        answer(text, "R{\"time\"}=? [ F x=2 ]").unwrap(),
        [Outcome::Range(1.0, 2.0)]
    );
    assert_eq!(
        answer(text, "P>=1 [ F x=2 ]\nP>0.5 [ X x=2 ]").unwrap(),
        [Outcome::Truth(true), Outcome::Truth(false)]
    );
}

#[test]
fn limits_hold_at_the_limit() {
    let text = "ctmc\nmodule m\n x : [0..99];\n [] x<99 -> (x'=x+1);\n [] x=99 -> (x'=0);\nendmodule\n";
    let with = |max_states| {
        let options = Options {
            max_states,
            ..Options::default()
        };
        answer_with(text, "S=? [ x=3 ]", &Constants::new(), &options)
    };
    assert!(with(100).is_ok());
    assert!(matches!(
        with(99),
        Err(Error::Limit {
            what: "states",
            limit: 99,
            ..
        })
    ));
    let steps = Options {
        max_steps: 10,
        ..Options::default()
    };
    assert!(answer_with(text, "P=? [ F<=9 x=3 ]", &Constants::new(), &steps).is_ok());
    assert!(matches!(
        answer_with(text, "P=? [ F<=11 x=3 ]", &Constants::new(), &steps),
        Err(Error::Limit { .. })
    ));
    // A wide state: sixteen words fit, one bit more does not.
    let wide = |count: usize| {
        let variables: String = (0..count)
            .map(|i| format!(" v{i} : [0..{}];\n", i64::MAX))
            .collect();
        format!("ctmc\nmodule m\n{variables} [] v0=0 -> (v0'=1);\n [] v0=1 -> (v0'=0);\nendmodule\n")
    };
    assert!(answer(&wide(16), "S=? [ v0=0 ]").is_ok());
    assert!(matches!(
        answer(&wide(17), "S=? [ v0=0 ]"),
        Err(Error::Limit { .. })
    ));
}

#[test]
fn deep_and_long_expressions_are_refused_not_overflowed() {
    let nested = format!(
        "ctmc\nconst int a = {}1{};\nmodule m\nendmodule",
        "(".repeat(5000),
        ")".repeat(5000)
    );
    assert!(refusal(&nested, "P=? [ F true ]").contains("nested deeper"));
    let long = format!("ctmc\nconst int a = 1{};\nmodule m\nendmodule", "+1".repeat(5000));
    assert!(refusal(&long, "P=? [ F true ]").contains("levels"));
    let mut doubling =
        String::from("ctmc\nmodule m\n x : [0..1];\n [] f40>0 -> true;\nendmodule\nformula f0 = x;\n");
    for i in 1..=40 {
        doubling.push_str(&format!("formula f{i} = f{0}+f{0};\n", i - 1));
    }
    assert!(refusal(&doubling, "P=? [ F true ]").contains("expand to too much text"));
}
