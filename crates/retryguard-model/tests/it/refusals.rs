//! What an error says back: the line, the reason, and what to do.

use retryguard_model::{Constants, Options, Outcome};

use crate::language::{FLIP, answer_with, refusal};

#[test]
fn errors_name_the_line_and_the_reason() {
    let property = "P=? [ F true ]";
    for (model, expected) in [
        (
            "ctmc\nmodule m\n x : [0..1]\nendmodule",
            "model.prism:3:12: expected `;` after the variable, found `endmodule`\n3 |  x : [0..1]\n",
        ),
        (
            "dtmc\nmodule m\nendmodule",
            "model.prism:1:1: this checker answers questions about a `ctmc`, and this model is of the type `dtmc`",
        ),
        (
            "mdp\nmodule m\nendmodule",
            "help: Storm (https://www.stormchecker.org) reads the same language",
        ),
        (
            "\nmodule m\nendmodule",
            "model.prism:2:1: the type of the model is missing",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] x==0 -> true;\nendmodule",
            "help: equality is written `=`",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] x=0 && true -> true;\nendmodule",
            "help: and is written `&`",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] x=0 || true -> true;\nendmodule",
            "help: or is written `|`",
        ),
        ("/* a model */\nctmc", "`/*` begins no comment"),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] x%2=0 -> true;\nendmodule",
            "help: write mod(a, b)",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] true -> pow(x) : true;\nendmodule",
            "1 arguments where 2 are wanted",
        ),
        (
            "ctmc\nmodule m\n served : [0..1];\n [] serverd=0 -> true;\nendmodule",
            "help: did you mean `served`?",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [serve] true -> true;\nendmodule\nrewards \"r\"\n [sreve] true : 1;\nendrewards",
            "model.prism:7:3: no command has the action `sreve`",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] y=0 -> true;\nendmodule",
            "model.prism:4:5: `y` is not declared\n",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] x=0 -> 2^3 : true;\nendmodule",
            "help: write pow(base, exponent)",
        ),
        (
            "ctmc\nmodule m\n x : [5..1];\nendmodule",
            "the range [5..1] of `x` is empty",
        ),
        ("ctmc\nmodule m\n x : clock;\nendmodule", "is not supported"),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] x -> true;\nendmodule",
            "expected a condition, found a number",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] true -> (x'=0.5);\nendmodule",
            "help: use floor, ceil or round",
        ),
        (
            "ctmc\nconst int a = b;\nconst int b = a;\nmodule m\nendmodule",
            "is defined by itself",
        ),
        (
            "ctmc\nformula f = f+1;\nmodule m\n x : [0..1];\n [] f>0 -> true;\nendmodule",
            "refer to themselves",
        ),
        (
            "ctmc\nmodule m\n x : [0..1];\n [] true -> true;\nendmodule\nmodule n\n [] true -> (x'=1);\nendmodule",
            "belongs to another module",
        ),
        ("ctmc\nmodule F\nendmodule", "`F` is a reserved word"),
        (
            "ctmc\nmodule m\nendmodule\nsystem m / a endsystem",
            "model.prism:4:12: expected `{` before the actions to hide",
        ),
        (
            "ctmc\nmodule m\nendmodule\nsystem m {a=b} endsystem",
            "expected `<-` between the old and the new name",
        ),
    ] {
        let message = refusal(model, property);
        assert!(message.contains(expected), "{message}\ndoes not say\n{expected}");
    }
}

#[test]
fn errors_in_states_show_the_state() {
    let message = refusal(
        "ctmc\nmodule m\n x : [0..3];\n on : bool init true;\n [] on -> (x'=x+1);\nendmodule",
        "P=? [ F x=5 ]",
    );
    assert!(
        message.contains(
            "model.prism:5:11: `x` would become 4, outside its range [0..3], in state (x=3, on=true)"
        ),
        "{message}"
    );
    assert!(
        message.ends_with(
            "help: let the guard exclude this state, or change the expression or the range of the variable"
        ),
        "{message}"
    );
    let deadlock = "ctmc\nmodule m\n x : [0..3];\n [] x<3 -> (x'=x+1);\nendmodule";
    let strict = Options {
        fix_deadlocks: false,
        ..Options::default()
    };
    let refused = |model: &str| {
        let error = answer_with(model, "S=? [ x=3 ]", &Constants::new(), &strict).unwrap_err();
        error.render("model.prism", model, "")
    };
    let message = refused(deadlock);
    assert!(message.contains("deadlock in state (x=3)"), "{message}");
    assert_eq!(
        answer_with(deadlock, "S=? [ x=3 ]", &Constants::new(), &Options::default()).unwrap(),
        [Outcome::Number(1.0)]
    );
    let message = refusal(
        "ctmc\nmodule m\n x : [0..3];\n [] true -> x-1 : true;\nendmodule",
        "S=? [ x=3 ]",
    );
    assert!(
        message.contains(
            "model.prism:4:13: the rate would be -1: it must be finite and not negative, in state (x=0)"
        ),
        "{message}"
    );
    // What has the rate 0 does not happen.
    let message = refused("ctmc\nmodule m\n x : [0..3];\n [] true -> 2-x : (x'=x+1);\nendmodule");
    assert!(message.contains("deadlock in state (x=2)"), "{message}");
}

#[test]
fn errors_in_properties_are_placed_in_the_property() {
    for (property, expected) in [
        ("P=? [ F x=9 | y ]", "property:1:15: `y` is not declared"),
        ("P=? [ F \"gone\" ]", "there is no label \"gone\""),
        (
            "P>1.5 [ F x=1 ]",
            "property:1:3: no probability is compared with 1.5",
        ),
        ("S<=-0.1 [ x=1 ]", "give a bound from 0 to 1"),
        ("E [ F<=2 x=1 ]", "help: ask P>0 [ … ] for E"),
        (
            "P=? [ F<=1 G x=1 ]",
            "property:1:7: `F` with a time bound cannot be joined",
        ),
        (
            "P=? [ x=0 & G x=1 ]",
            "property:1:13: a path that begins with `G` needs parentheses",
        ),
        ("S=? [ G x=1 ]", "property:1:7: `G` stands outside the brackets"),
        (
            "P=? [ F S>0.5 [ G x=1 ] ]",
            "`G` makes a path where a condition on states is wanted",
        ),
        ("\"a\": \"b\" & x=1;\n\"b\": \"a\" | x=0;", "refer to themselves"),
        ("\"a\": P=? [ F x=1 ];\n\"b\": !\"a\";", "needs a bound"),
        ("R{\"gone\"}=? [ S ]", "there are no rewards \"gone\""),
        ("Pmax>=0.5 [ F x=1 ]", "help: a ctmc has no choices"),
        (
            "P=? [ x=1 U x=0 W x=1 ]",
            "property:1:17: U, W and R cannot be chained",
        ),
        (
            "filter(avg, x=1)",
            "property:1:13: the filter avg asks for numbers",
        ),
        ("filter(median, P=? [ F x=1 ])", "help: there are state, min, max"),
        ("filter(forall, P=? [ F x=1 ])", "help: give the question a bound"),
        ("filter(avg, P>0.5 [ F x=1 ], x=0)", "help: write =? instead"),
        (
            "1 + filter(range, P=? [ F x=1 ])",
            "property:1:5: the filter range has no single value to go on with",
        ),
        (
            "P=? [ F P>0.1 [ F x=1 {x=0} ] ]",
            "a filter `{…}` asks for numbers",
        ),
        ("P=? [ F x=1 {x=0}{avg} ]", "expected min or max"),
        (
            "filter(max, P=? [ F x=1 ], x>1)",
            "no state that can be reached is one of the filter's",
        ),
        (
            "P=? [ F x=1 {x>=0} ]",
            "2 states are the filter's, and it asks for one",
        ),
        ("P=? [ F P=? [ X x=1 ] ]", "needs a bound"),
        (
            "P=? [ F false ] / P=? [ F false ]",
            "has no value: it divides 0 by 0",
        ),
        (
            "1 + (x=1 & P>0.5 [ F x=1 ])",
            "expected a number, found a truth value",
        ),
        ("P=? [ F<=-1 x=1 ]", "expected a time"),
        (
            "/* all */ P=? [ F x=1 ]",
            "help: begin each of its lines with `//`",
        ),
        ("P=? [ F[3,1] x=1 ]", "the interval of time is empty"),
        ("P=? [ F x=1", "expected `]`"),
    ] {
        let message = refusal(FLIP, property);
        assert!(message.contains(expected), "{message}\ndoes not say\n{expected}");
    }
}
