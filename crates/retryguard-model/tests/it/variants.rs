//! The four patterns as other authors could have written them: the same values at about the same cost.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use retryguard_model::{Answer, Constants, Model, Options, Outcome, Properties, Value, check};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/resiliency-patterns");
    std::fs::read_to_string(path.join(name)).unwrap()
}

/// The patterns, with the parameter that each leaves open beside the availability.
const PATTERNS: &[(&str, &str)] = &[
    ("simple-proxy.prism", "CONN_TO"),
    ("retry.prism", "MAX_BO"),
    ("static-circuit-breaker.prism", "MAX_TO"),
    ("dynamic-circuit-breaker.prism", "MAX_TO"),
];

/// What another author may do differently.
#[derive(Clone, Debug)]
struct Taste {
    /// Orders names, modules and commands.
    seed: u64,
    rename: bool,
    reorder: bool,
    /// Whether a stopped timer clears its phase.
    tidy: bool,
    /// Whether the ranges of phases end later than the phases, and the start of a timer asks for it.
    wide: bool,
    /// The end of the counter of reopenings.
    end: u32,
    /// Whether that counter stops at its end, or lets no further failure happen there.
    stops: bool,
    /// Whether the breaker's timeout is a variable that each opening sets, rather than a formula of the counter.
    held: bool,
    /// Whether a timer is started and stopped by a flag of its own. Its phase stays where it was, and a start sets it.
    flagged: bool,
    /// How the timeout is spelled: a place in [`TIMEOUTS`].
    timeout: usize,
    /// How reopenings are counted: a place in [`COUNTS`].
    count: usize,
    /// Whether the client counts the successes that it still needs, down to none.
    falls: bool,
}

/// The breaker's timeout in other words.
const TIMEOUTS: &[&str] = &[
    "min(MAX_TO, MIN_TO * pow(2.0, reopens))",
    "MIN_TO * pow(2, reopens) >= MAX_TO ? MAX_TO : MIN_TO * pow(2, reopens)",
    "reopens = 0 ? MIN_TO : (reopens = 1 ? min(MAX_TO, 2 * MIN_TO) : (reopens = 2 ? min(MAX_TO, 4 * MIN_TO) : min(MAX_TO, 8 * MIN_TO)))",
    "reopens < log(MAX_TO / MIN_TO, 2) ? MIN_TO * pow(2, reopens) : MAX_TO",
    "1 / max(1 / MAX_TO, pow(0.5, reopens) / MIN_TO)",
    "min(MAX_TO, MIN_TO * pow(2, min(reopens, 30)))",
];

/// Where and how reopenings are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Count {
    AsWritten,
    /// Set back when the circuit closes, rather than when it opens.
    SetBackAtClose,
    /// Raised when the circuit goes half-open, rather than when it opens again.
    RaisedAtHalfOpen,
    /// Without a range.
    Unbounded,
    /// With another counter beside it that nothing reads.
    BesideStatistics,
    /// With another counter beside it that only its own end reads.
    BesideRow,
    /// With another counter beside it that is never set back, and without which the circuit would open for ever at its end.
    BesideProbes,
    /// With what was seen written down, in variables that only these read.
    BesideRecords,
    /// Counted down from the end.
    Falling,
}

const COUNTS: &[Count] = &[
    Count::AsWritten,
    Count::SetBackAtClose,
    Count::RaisedAtHalfOpen,
    Count::Unbounded,
    Count::BesideStatistics,
    Count::BesideRow,
    Count::BesideProbes,
    Count::BesideRecords,
    Count::Falling,
];

fn counted(text: &str, count: Count) -> String {
    let beside = |end: u32, step: &str| {
        let module = format!("\nmodule statistics\n  failed : [0..{end}] init 0;\n{step}endmodule\n");
        format!("{text}{module}")
    };
    match count {
        Count::AsWritten => text.to_owned(),
        Count::SetBackAtClose => text.replace(" & (reopens' = 0)", "").replace(
            "(circuit' = CLOSED) & (failures' = 0) & (successes' = 0)",
            "(circuit' = CLOSED) & (failures' = 0) & (successes' = 0) & (reopens' = 0)",
        ),
        Count::RaisedAtHalfOpen => text.replace(" & (reopens' = min(reopens + 1, MAX_REOPEN))", "").replace(
            "[half_open] circuit = OPEN -> (circuit' = HALF_OPEN)",
            "[half_open] circuit = OPEN -> (circuit' = HALF_OPEN) & (reopens' = min(reopens + 1, MAX_REOPEN))",
        ),
        Count::Unbounded => text.replace("reopens : [0..MAX_REOPEN] init 0", "reopens : int init 0"),
        Count::BesideStatistics => beside(50_000, "  [failure] true -> (failed' = min(failed + 1, 50000));\n"),
        Count::BesideRow => beside(
            5_000,
            "  [failure] failed < 5000 -> (failed' = failed + 1);\n  [success] true -> (failed' = 0);\n",
        ),
        Count::BesideProbes => text
            .replace("reopens : [0..MAX_REOPEN] init 0;", "reopens : [0..MAX_REOPEN] init 0;\n  probes : [0..9999] init 0;")
            .replace(
                "[half_open] circuit = OPEN -> (circuit' = HALF_OPEN)",
                "[half_open] circuit = OPEN & probes < 9999 -> (circuit' = HALF_OPEN) & (probes' = probes + 1)",
            ),
        Count::BesideRecords => {
            let records = "  seen : int init 0;\n  most : [0..MAX_REOPEN] init 0;\n  late : bool init false;\n  \
                           [failure] true -> (seen' = seen + 1) & (most' = max(most, reopens)) & (late' = seen > 50);\n  \
                           [success] true -> (seen' = seen + 1);\n";
            format!("{text}\nmodule records\n{records}endmodule\n")
        }
        Count::Falling => text
            .replace("const int MAX_REOPEN", "formula reopens = MAX_REOPEN - left;\nconst int MAX_REOPEN")
            .replace("reopens : [0..MAX_REOPEN] init 0", "left : [0..MAX_REOPEN] init MAX_REOPEN")
            .replace("(reopens' = 0)", "(left' = MAX_REOPEN)")
            .replace("(reopens' = min(reopens + 1, MAX_REOPEN))", "(left' = max(left - 1, 0))")
            .replace("(reopens' = reopens + 1)", "(left' = left - 1)"),
    }
}

/// The client with a counter of the successes that are left.
fn falling(text: &str) -> String {
    text.replace(
        "served : [0..MAX_REQ] init 0",
        "served : [0..MAX_REQ] init MAX_REQ",
    )
    .replace("served < MAX_REQ", "served > 0")
    .replace("served' = served + 1", "served' = served - 1")
    .replace("served = MAX_REQ", "served = 0")
}

fn taste() -> impl Strategy<Value = Taste> {
    let flags = any::<(bool, bool, bool, bool, bool, bool, bool, bool)>();
    let forms = (0..TIMEOUTS.len(), 0..COUNTS.len());
    let end = prop_oneof![1_500u32..12_000, Just(9_999), Just(50_000), Just(2_000_000)];
    (any::<u64>(), flags, end, forms).prop_map(|(seed, flags, end, (timeout, count))| {
        let (rename, reorder, tidy, wide, stops, held, flagged, falls) = flags;
        Taste {
            seed,
            rename,
            reorder,
            tidy,
            wide,
            end,
            stops,
            held,
            flagged,
            timeout,
            count,
            falls,
        }
    })
}

/// Sorts by a hash of the text and the seed: some order, and always the same one.
fn shuffle<T: AsRef<str>>(parts: &mut [T], seed: u64) {
    let key = |text: &str| {
        text.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23)
        })
    };
    parts.sort_by_key(|part| key(part.as_ref()));
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The modules in another order, and the commands of each in another order.
fn reordered(text: &str, seed: u64) -> String {
    let mut rest = String::new();
    let mut modules = Vec::new();
    for (place, part) in text.split("\nmodule ").enumerate() {
        if place == 0 {
            rest.push_str(part);
            continue;
        }
        let (module, after) = part.split_once("endmodule").unwrap();
        let (name, body) = module.split_once('\n').unwrap();
        let statements = body
            .split(';')
            .map(str::trim)
            .filter(|statement| !statement.is_empty());
        let (mut commands, variables): (Vec<&str>, Vec<&str>) =
            statements.partition(|statement| statement.starts_with('['));
        shuffle(&mut commands, seed);
        let all: String = variables
            .iter()
            .chain(&commands)
            .map(|s| format!("  {s};\n"))
            .collect();
        modules.push(format!("\nmodule {name}\n{all}endmodule\n"));
        rest.push_str(after);
    }
    shuffle(&mut modules, seed);
    format!("{rest}{}", modules.concat())
}

const WORDS: &[&str] = &[
    "bool",
    "ceil",
    "const",
    "ctmc",
    "double",
    "endmodule",
    "endrewards",
    "false",
    "formula",
    "init",
    "int",
    "label",
    "log",
    "max",
    "min",
    "module",
    "pow",
    "rewards",
    "true",
    "F",
    "R",
];

/// Every name replaced by one that says nothing; what stands in quotation marks stays.
fn renamed(text: &str, names: &mut BTreeMap<String, String>, seed: u64) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if next == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if next.is_ascii_alphabetic() || next == '_' {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len())
        } else if next.is_ascii_digit() {
            rest.find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(rest.len())
        } else {
            next.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        let name = next.is_ascii_alphabetic() || next == '_';
        if name && !WORDS.contains(&word) {
            let count = names.len() as u64;
            let new = names.entry(word.to_owned()).or_insert_with(|| {
                // The letter before the number changes the alphabetical order of the names.
                let letter =
                    char::from(b'a' + u8::try_from((seed.rotate_left(7) ^ (count * 11)) % 26).unwrap());
                format!("{letter}_{count}")
            });
            out.push_str(new);
        } else {
            out.push_str(word);
        }
    }
    out
}

/// The breaker's timeout as a variable.
fn held(text: &str) -> String {
    let text = text
        .replace(
            "formula open_for = min(MAX_TO, MIN_TO * pow(2.0, reopens));",
            "const int SMALL_TO = 5;\nconst int LARGE_TO = ceil(MAX_TO);",
        )
        .replace(
            "  reopens : [0..MAX_REOPEN] init 0;\n",
            "  reopens : [0..MAX_REOPEN] init 0;\n  open_for : [SMALL_TO..LARGE_TO] init SMALL_TO;\n",
        )
        .replace("(reopens' = 0)", "(reopens' = 0) & (open_for' = SMALL_TO)");
    // Both forms of the counter's step.
    [
        "(reopens' = min(reopens + 1, MAX_REOPEN))",
        "(reopens' = reopens + 1)",
    ]
    .iter()
    .fold(text, |text, step| {
        let longer = "(open_for' = min(LARGE_TO, SMALL_TO * pow(2, reopens + 1)))";
        text.replace(step, &format!("{step} & {longer}"))
    })
}

/// The timer of the response with a flag of its own.
fn flagged(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\nmodule response_timer\n") else {
        return text.to_owned();
    };
    let (_, after) = rest.split_once("endmodule").unwrap();
    let timer = "  response_phase : [1..SHAPE] init 1;\n  awaited : bool init false;\n  \
         [send] !awaited -> (awaited' = true) & (response_phase' = 1);\n  \
         [] awaited & response_phase < SHAPE -> SHAPE / RES_TO : (response_phase' = response_phase + 1);\n  \
         [response_timeout] awaited & response_phase = SHAPE -> SHAPE / RES_TO : (awaited' = false);\n  \
         [answer] awaited -> (awaited' = false);\n";
    format!("{before}\nmodule response_timer\n{timer}endmodule{after}")
}

/// The text in this taste, and what its names have become.
fn written(text: &str, taste: &Taste) -> (String, BTreeMap<String, String>) {
    let mut text = without_comments(text)
        .replace("const int MAX_REQ = 100;", "const int MAX_REQ = 5;")
        .replace("const int SHAPE = 100;", "const int SHAPE = 4;")
        .replace(
            "const bool TIDY = false;",
            &format!("const bool TIDY = {};", taste.tidy),
        )
        .replace(
            "const bool TIDY = true;",
            &format!("const bool TIDY = {};", taste.tidy),
        )
        .replace(
            "const int MAX_REOPEN = 1000;",
            &format!("const int MAX_REOPEN = {};", taste.end),
        );
    if taste.wide {
        text = text
            .replace("connect_phase : [0..SHAPE]", "connect_phase : [0..SHAPE + 1]")
            .replace("response_phase : [0..SHAPE]", "response_phase : [0..SHAPE + 1]")
            .replace("[send] true ->", "[send] response_phase <= SHAPE ->");
    }
    if taste.stops && text.contains("reopens") {
        text = text
            .replace(
                "failures = HALF_OPEN_ERR - 1\n",
                "failures = HALF_OPEN_ERR - 1 & reopens < MAX_REOPEN\n",
            )
            .replace("min(reopens + 1, MAX_REOPEN)", "reopens + 1");
    }
    if text.contains("reopens") {
        text = match taste.held {
            true => held(&text),
            false => text.replace(TIMEOUTS[0], TIMEOUTS[taste.timeout]),
        };
        // The forms that move a step know it as it is written.
        let count = COUNTS[taste.count];
        let moves = matches!(count, Count::SetBackAtClose | Count::RaisedAtHalfOpen);
        if !moves || (!taste.held && !taste.stops) {
            text = counted(&text, count);
        }
    }
    if taste.falls {
        text = falling(&text);
    }
    if taste.flagged {
        text = flagged(&text);
    }
    if taste.reorder {
        text = reordered(&text, taste.seed);
    }
    let mut names = BTreeMap::new();
    if taste.rename {
        text = renamed(&text, &mut names, taste.seed);
    }
    (text, names)
}

fn answers(
    text: &str,
    names: &BTreeMap<String, String>,
    parameter: &str,
    value: i64,
    availability: f64,
) -> Vec<Answer> {
    let name = |old: &str| names.get(old).cloned().unwrap_or_else(|| old.to_owned());
    let asked = "R{\"total_time\"}=? [ F \"done\" ]; R{\"contention_time\"}=? [ F \"done\" ]";
    let constants = Constants::from([
        (name(parameter), Value::Int(value)),
        (name("AV"), Value::Real(availability)),
    ]);
    let model = Model::parse(text).unwrap_or_else(|e| panic!("{}", e.render("model", text, "")));
    let asked_read = Properties::parse(asked).unwrap();
    check(&model, &asked_read, &constants, &Options::default())
        .unwrap_or_else(|e| panic!("{}", e.render("model", text, asked)))
}

fn number(answer: &Answer) -> f64 {
    match answer.outcome {
        Outcome::Number(value) => value,
        other => panic!("{other:?} {:?}", answer.notes),
    }
}

const PLAIN: Taste = Taste {
    seed: 0,
    rename: false,
    reorder: false,
    tidy: true,
    wide: false,
    end: 3,
    stops: false,
    held: false,
    flagged: false,
    timeout: 0,
    count: 0,
    falls: false,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// The plain form has tidy timers and a counter that ends where the timeout does, so that nothing is left to find.
    #[test]
    fn values_and_cost_do_not_depend_on_taste(
        taste in taste(),
        pattern in 0..PATTERNS.len(),
        value in prop::sample::select(vec![10i64, 20, 40]),
        availability in prop::sample::select(vec![0.5, 0.7, 0.9]),
    ) {
        let (name, parameter) = PATTERNS[pattern];
        let text = file(name);
        let (plain, no_names) = written(&text, &PLAIN);
        let wanted = answers(&plain, &no_names, parameter, value, availability);
        let (other, names) = written(&text, &taste);
        let found = answers(&other, &names, parameter, value, availability);
        for (wanted, found) in wanted.iter().zip(&found) {
            let (a, b) = (number(wanted), number(found));
            prop_assert!((a / b - 1.0).abs() < 1e-9, "{} {}: {:?}", a, b, found.notes);
            prop_assert!(
                found.states as f64 <= 1.2 * wanted.states as f64,
                "{} states instead of {}: {:?}", found.states, wanted.states, found.notes
            );
        }
    }
}

/// The breaker in `taste` beside the plain one.
fn as_cheap_as_plain(taste: &Taste, availability: f64) {
    let text = file("dynamic-circuit-breaker.prism");
    let (plain, no_names) = written(&text, &PLAIN);
    let (other, names) = written(&text, taste);
    let wanted = answers(&plain, &no_names, "MAX_TO", 40, availability);
    let found = answers(&other, &names, "MAX_TO", 40, availability);
    for (wanted, found) in wanted.iter().zip(&found) {
        assert!(
            (number(wanted) / number(found) - 1.0).abs() < 1e-9,
            "{taste:?} {wanted:?} {found:?}"
        );
        assert!(
            found.states as f64 <= 1.2 * wanted.states as f64,
            "{taste:?} {found:?}"
        );
    }
}

/// A range of millions is looked at by its thresholds, however the timeout is spelled and the counter ends.
#[test]
fn a_counter_to_millions_leaves_a_handful_of_values() {
    for timeout in 0..TIMEOUTS.len() {
        for stops in [false, true] {
            let taste = Taste {
                end: 2_000_000,
                timeout,
                stops,
                ..PLAIN
            };
            as_cheap_as_plain(&taste, 0.5);
        }
    }
}

/// A counter of all openings is not mistaken for one whose levels matter more than the requests that are served.
#[test]
fn a_counter_that_is_never_set_back_costs_nothing() {
    let count = COUNTS
        .iter()
        .position(|count| *count == Count::BesideProbes)
        .unwrap();
    for availability in [0.5, 0.9] {
        for end in [1_000, 2_000_000] {
            let taste = Taste { count, end, ..PLAIN };
            as_cheap_as_plain(&taste, availability);
        }
    }
}

/// A client of which all failures are counted, and that fails no more at the end.
#[test]
fn an_end_of_a_counter_without_a_reset_counts_where_it_can_be_reached() {
    for (end, failing, out_of_reach) in [
        (400, 0.3, true),
        (1_000, 0.5, true),
        (400, 0.97, false),
        (2_000, 0.999, false),
        (350, 0.9, false),
    ] {
        let text = format!(
            "ctmc\nmodule client\n failures : [0..{end}];\n done : [0..4];\n \
             [] done<4 -> 1-{failing} : (done'=done+1);\n \
             [] done<4 & failures<{end} -> {failing} : (failures'=failures+1);\n \
             [] done=4 -> true;\nendmodule\nrewards \"time\" true : 1; [] failures<{end} : 2; endrewards\n"
        );
        let (found, exact) = (ask(&text, true), ask(&text, false));
        assert!(
            (number(&found) / number(&exact) - 1.0).abs() < 1e-9,
            "{found:?} {exact:?}"
        );
        let taken = found.notes.iter().any(|note| note.contains("are taken as one"));
        assert_eq!(taken, out_of_reach, "{end} {failing} {:?}", found.notes);
    }
}

/// A client that waits longer after each failure, up to a limit, and forgets them at a success. `end` is where the counter cannot rise.
fn counting(end: u32, failing: f64) -> String {
    format!(
        "ctmc\nmodule client\n failures : [0..{end}];\n done : [0..4];\n \
         [] done<4 -> (1-{failing})/(1+min(3,failures)) : (failures'=0)&(done'=done+1);\n \
         [] done<4 & failures<{end} -> {failing}/(1+min(3,failures)) : (failures'=failures+1);\n \
         [] done=4 -> true;\nendmodule\nrewards \"time\" true : 1; endrewards\n"
    )
}

fn ask(text: &str, reduce: bool) -> Answer {
    let options = Options {
        reduce,
        ..Options::default()
    };
    let asked = Properties::parse("R{\"time\"}=? [ F done=4 ]").unwrap();
    let model = Model::parse(text).unwrap();
    check(&model, &asked, &Constants::new(), &options)
        .unwrap()
        .remove(0)
}

/// Where the end of a counter is reached now and then, its values are not taken as one: the answer is that of the chain as written.
#[test]
fn an_end_that_can_be_reached_counts() {
    for (end, failing) in [(100, 0.99), (100, 0.5), (2_000, 0.999), (400, 0.3)] {
        let text = counting(end, failing);
        let (found, exact) = (ask(&text, true), ask(&text, false));
        assert!(
            (number(&found) / number(&exact) - 1.0).abs() < 1e-9,
            "{found:?} {exact:?}"
        );
        let taken = found.notes.iter().any(|note| note.contains("are taken as one"));
        assert_eq!(taken, end == 400, "{:?}", found.notes);
    }
}

/// A counter that nothing reads but its own end, and that is set back to its first value: a reset ends a run of rises.
#[test]
fn a_reset_begins_anew() {
    let text = counting(9_999, 0.5).replace("/(1+min(3,failures))", "");
    let found = ask(&text, true);
    assert!((number(&found) - 8.0).abs() < 1e-9, "{found:?}");
    assert!(found.states < 30, "{} {:?}", found.states, found.notes);
}

/// The note says from where to where, and how unlikely the end is.
#[test]
fn an_end_out_of_reach_is_noted() {
    let found = ask(&counting(9_999, 0.5), true);
    let note = "failures: the values from 3 to 9998 are taken as one; each time it rises, it gets to 9999 with a probability below 1e-";
    assert!(
        found.notes.iter().any(|text| text.starts_with(note)),
        "{:?}",
        found.notes
    );
    assert!(found.states < 30, "{}", found.states);
    // Each success takes a geometric number of failures, and the waits before each follow.
    let one: f64 = (0..200)
        .map(|n: i32| 0.5f64.powi(n) * f64::from(1 + n.min(3)))
        .sum();
    assert!(
        (number(&found) / (4.0 * one) - 1.0).abs() < 1e-9,
        "{found:?} {one}"
    );
}

/// A counter that begins at its end is back there after one step, however long its range is.
#[test]
fn a_counter_that_begins_at_its_end_is_there_often() {
    let text = "ctmc\nmodule client\n left : [0..700] init 0;\n done : [0..4];\n [] done<4 -> 1 : (done'=done+1);\n \
                [] done<4 -> left=0 ? 3 : 1 : (left'=max(left-1, 0));\n [] done<4 -> 2 : (left'=max(left, 5));\n \
                [] done=4 -> true;\nendmodule\nrewards \"time\" left<5 : 1; left>=5 : 2; endrewards\n";
    let (found, exact) = (ask(text, true), ask(text, false));
    assert!(
        (number(&found) / number(&exact) - 1.0).abs() < 1e-9,
        "{found:?} {exact:?}"
    );
}

/// Something that is never negative and says less and less of a counter, or all of it.
fn said_of_a_counter() -> impl Strategy<Value = String> {
    let number = 1..12i32;
    prop_oneof![
        number.clone().prop_map(|k| format!("min(max(x, 0), {k})")),
        number.clone().prop_map(|k| format!("floor(max(x, 0) / {k})")),
        number.clone().prop_map(|k| format!("mod(x + 5, {k})")),
        number.clone().prop_map(|k| format!("(x >= {k} ? 2 : 0.5)")),
        number.clone().prop_map(|k| format!("min({k}, pow(2.0, x))")),
        number
            .clone()
            .prop_map(|k| format!("min({k}, pow(2, max(x, 0)))")),
        number.clone().prop_map(|k| format!("max(1 / {k}, 1 / (x + 6))")),
        number
            .clone()
            .prop_map(|k| format!("(log(x + 7, 2) < {k} / 3 ? x + 5 : {k})")),
        number
            .clone()
            .prop_map(|k| format!("(x = {k} ? 3 : (y > 0 & x > 4 ? 1 : 2))")),
        number.prop_map(|k| format!("min(x + 5 + y, {k})")),
    ]
}

fn condition_of_a_counter() -> impl Strategy<Value = String> {
    let more = said_of_a_counter().prop_map(|said| format!("{said} > 1"));
    prop_oneof![
        Just("true".to_owned()),
        (-3..20i32).prop_map(|k| format!("x < {k}")),
        (-3..20i32).prop_map(|k| format!("x >= {k}")),
        (0..20i32).prop_map(|k| format!("(x != {k} | y = 1)")),
        more
    ]
}

fn step_of_a_counter(end: i32) -> impl Strategy<Value = String> {
    let number = 0..12i32;
    prop_oneof![
        (1..3i32).prop_map(move |k| format!("min(x + {k}, {end})")),
        (1..3i32).prop_map(|k| format!("max(x - {k}, -5)")),
        number.clone().prop_map(|k| format!("{k}")),
        number.clone().prop_map(|k| format!("x < {k} ? x + 1 : {k}")),
        number.clone().prop_map(|k| format!("max(x, {k})")),
        number.prop_map(move |k| format!("(x > {k} & y = 1) ? {end} : x")),
    ]
}

fn counter_model() -> impl Strategy<Value = String> {
    prop_oneof![Just(14), Just(60), Just(700)].prop_flat_map(|end| {
        let said = prop::collection::vec(said_of_a_counter(), 5);
        let conditions = prop::collection::vec(condition_of_a_counter(), 2);
        let steps = prop::collection::vec(step_of_a_counter(end), 3);
        (said, conditions, steps).prop_map(move |(said, conditions, steps)| {
            format!(
                "ctmc\nmodule m\n x : [-5..{end}] init 0;\n y : [0..2];\n done : [0..4];\n \
                 [] done<4 -> 0.2 + {} : (done'=done+1)&(x'={});\n \
                 [] done<4 & {} -> 0.1 + {} : (x'={});\n \
                 [] done<4 & y<2 & {} -> 0.1 + {} : (y'=y+1)&(x'={});\n \
                 [] done<4 & y>0 -> 0.3 + {} : (y'=0);\n \
                 [] done=4 -> true;\nendmodule\nrewards \"time\" true : 1 + {}; [] y=0 : 1; endrewards\n",
                said[0],
                steps[0],
                conditions[0],
                said[1],
                steps[1],
                conditions[1],
                said[2],
                steps[2],
                said[3],
                said[4]
            )
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is said of a counter, values that are taken as one change no answer.
    #[test]
    fn values_taken_as_one_change_no_answer(text in counter_model()) {
        let (found, exact) = (ask(&text, true), ask(&text, false));
        prop_assert!(
            (number(&found) / number(&exact) - 1.0).abs() < 1e-9,
            "{}\n{:?} {:?}", text, found, exact
        );
    }
}
