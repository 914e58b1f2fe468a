//! `retryguard check` on a model: what a value that is only known from below looks like, and how the command exits.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A walk that drifts home on a line too long to explore: home from 3 takes a time of 3.
const WALK: &str = "ctmc\nmodule m\n x : [0..1000000000] init 3;\n [] x>0 & x<1000000000 -> 1 : (x'=x+1);\n \
                    [] x>0 -> 2 : (x'=x-1);\n [] x=0 -> true;\nendmodule\nrewards \"time\" x>0 : 1; endrewards\n";

fn walk(name: &str, arguments: &[&str]) -> Output {
    with(WALK, name, arguments)
}

fn with(model: &str, name: &str, arguments: &[&str]) -> Output {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, model).expect("a file");
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("check")
        .arg(path)
        .args(arguments)
        .output()
        .expect("the command starts")
}

#[test]
fn a_reward_that_is_known_from_below_is_not_taken_for_an_answer() {
    let asked = ["--prop", "R{\"time\"}=? [ F x=0 ]", "--max-states", "1000"];
    // Driven away from home, nothing bounds what is beyond the edge.
    let away = WALK.replace("-> 1 : (x'=x+1)", "-> 3 : (x'=x+1)");
    let output = with(&away, "reward.prism", &asked);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("= at least "), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("# no upper bound: ")),
        "{text}"
    );
    let output = with(&away, "reward-json.prism", &[&asked[..], &["--json"]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let result = &found["results"][0];
    assert_eq!(
        (&result["value"], &result["upper"]),
        (&Value::Null, &"Infinity".into())
    );
    assert!(result["lower"].as_f64().is_some_and(|lower| lower > 3.0));
}

#[test]
fn a_truncated_reward_that_drifts_home_has_two_bounds() {
    let asked = [
        "--prop",
        "R{\"time\"}=? [ F x=0 ]",
        "--max-states",
        "1000",
        "--json",
    ];
    let output = walk("reward-home.prism", &asked);
    let found: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let result = &found["results"][0];
    let bound = |key: &str| result[key].as_f64().unwrap_or_else(|| panic!("{found}"));
    assert!(bound("lower") <= 3.0 && 3.0 <= bound("upper"), "{found}");
    assert!(bound("upper") - bound("lower") < 1e-3, "{found}");
}

#[test]
fn what_was_given_wrongly_exits_with_two_and_what_cannot_be_answered_with_one() {
    for (arguments, code, expected) in [
        (
            &["--prop", "S=? [ x=0 ]", "--max-memory", "36"][..],
            1,
            "--max-memory",
        ),
        (
            &["--prop", "S=? [ x=0 ]", "--max-memory", "35"],
            2,
            "at least 36: the program itself takes up to 32",
        ),
        (&["--prop", "P=? [ F y=0 ]"], 1, "y"),
        (
            &["--prop", "P=? [ F x=0 ]", "--const", "N"],
            2,
            "expected NAME=VALUE",
        ),
        (&[], 2, "give --prop"),
        (
            &["--prop", "P=? [ F x=0 ]", "--const", "N=1"],
            2,
            "no such constant",
        ),
        (
            &["--prop", "P=? [ F x=0 ]", "--const", "N=2:1"],
            2,
            "the range is empty",
        ),
        (
            &["--prop", "P=? [ F x=0 ]", "--truncate", "2"],
            2,
            "above 0 and below 1",
        ),
        (
            &["--export", "drn", "--prop", "P=? [ F x=0 ]"],
            2,
            "cannot be used with",
        ),
        (&["--reduced"], 2, "--export"),
        (
            &["--props", "missing.props"],
            2,
            "cannot read the properties missing.props",
        ),
    ] {
        let output = walk(&format!("exit-{}.prism", arguments.len()), arguments);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {talk}");
        assert!(
            output.stdout.is_empty() && talk.contains(expected),
            "{arguments:?}: {talk}"
        );
    }
}

/// A message names the text that is wrong and its own line in it, also where properties come from several.
#[test]
fn a_wrong_property_is_placed_in_its_own_text() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("asked.props");
    std::fs::write(&file, "// two\nP=? [ F x=0 ];\nP=? [ F y=0 ];\n").expect("a file");
    let file = file.display().to_string();
    let model = "ctmc\nmodule m\n x : [0..1];\n [] x=0 -> 1 : (x'=1);\n [] x=1 -> true;\nendmodule\n";
    let output = with(
        model,
        "several.prism",
        &["--prop", "P=? [ F x=1 ]", "--props", &file],
    );
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("asked.props:3:9: `y` is not declared"), "{talk}");
    // The others are answered.
    let answers = String::from_utf8_lossy(&output.stdout);
    assert_eq!(answers.matches(" = 1  (").count(), 2, "{answers}");
    assert_eq!(output.status.code(), Some(1));
    let output = with(
        model,
        "several-too.prism",
        &[
            "--prop",
            "P=? [ F x=1 ]",
            "--prop",
            "P=? [ F z=1 ]",
            "--props",
            &file,
        ],
    );
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("--prop:1:9: `z` is not declared"), "{talk}");
}

/// What is exported reduced has fewer states, says why, and is one chain in both languages.
#[test]
fn a_chain_is_exported_reduced() {
    let model = "ctmc\nmodule m\n x : [0..9];\n [] true -> 1 : (x'=min(x+1,9));\n [] x>2 -> 2 : (x'=0);\nendmodule\n\
                 label \"high\" = x>2;\n";
    let states = |arguments: &[&str]| {
        let output = with(model, "reduced.prism", arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            text.matches("state ")
                .count()
                .max(text.matches("[label=\"(").count()),
            text,
        )
    };
    assert_eq!(states(&["--export", "drn"]).0, 10);
    let (count, text) = states(&["--export", "drn", "--reduced"]);
    assert!(
        count == 4 && text.starts_with("// reduced: x: 10 values behave as 4\n"),
        "{text}"
    );
    let (count, text) = states(&["--export", "dot", "--reduced"]);
    assert!(count == 4 && text.contains("digraph"), "{text}");
}

/// Three queues in a row, in which nothing can be reduced.
#[cfg(target_os = "linux")]
const QUEUES: &str = "ctmc\nconst int K;\nmodule m\n x : [0..K];\n y : [0..K];\n z : [0..K];\n\
    [] x<K -> 1 : (x'=x+1);\n [] x>0 & y<K -> 3 : (x'=x-1) & (y'=y+1);\n\
    [] y>0 & z<K -> 2.5 : (y'=y-1) & (z'=z+1);\n [] z>0 -> 2.2 : (z'=z-1);\nendmodule\n\
    rewards \"all\" true : x+y+z; endrewards\n";

/// The most bytes that the command ever had. The kernel keeps that figure for as long as the process lives, so it is read until the end.
#[cfg(target_os = "linux")]
fn peak(model: &std::path::Path, arguments: &[&str]) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("check")
        .arg(model)
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the command starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
    }
    peak
}

/// The limit is that of the whole process: the program, and all instances that are solved at the same time, count too.
#[cfg(target_os = "linux")]
#[test]
fn the_command_stays_within_its_memory() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("queues.prism");
    std::fs::write(&path, QUEUES).expect("a file");
    // Without a limit all but the first take more than they are given here.
    for (megabytes, asked) in [
        (36, &["--const", "K=20", "--prop", "R=? [ S ]"][..]),
        (48, &["--const", "K=24", "--prop", "R=? [ F z=K ]"]),
        (
            40,
            &["--const", "K=30:1:35", "--threads", "3", "--prop", "R=? [ S ]"],
        ),
        (
            56,
            &["--const", "K=40", "--prop", "filter(printall, x)", "--json"],
        ),
        (48, &["--const", "K=60", "--export", "drn"]),
    ] {
        let limit = megabytes.to_string();
        let seen = peak(&path, &[asked, &["--max-memory", &limit]].concat());
        assert!(
            seen > 8 << 20,
            "{asked:?}: {seen} bytes are too few to be those of the command"
        );
        assert!(
            seen <= megabytes << 20,
            "{asked:?}: {seen} bytes in {megabytes} MiB"
        );
    }
}
