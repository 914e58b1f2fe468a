//! The limit on memory holds, and says what to do.

use std::sync::atomic::{AtomicU64, Ordering};

use retryguard_model::{Answer, Constants, Error, Model, Options, Outcome, Properties, check};

use crate::language::answer_with;

/// A queue of so many places, in which nothing can be reduced.
fn queue(places: u64) -> String {
    format!(
        "ctmc\nmodule m\n x : [0..{places}];\n [] x<{places} -> 1 : (x'=x+1);\n [] x>0 -> 2 : (x'=x-1);\nendmodule\n"
    )
}

fn ask(model: &str, property: &str, options: &Options) -> Result<Vec<Answer>, Error> {
    let model = Model::parse(model).unwrap();
    check(
        &model,
        &Properties::parse(property).unwrap(),
        &Constants::new(),
        options,
    )
}

fn with_memory(max_memory: u64) -> Options {
    Options {
        max_memory,
        ..Options::default()
    }
}

/// The least memory with which a question is answered to the end.
fn least_memory(model: &str, property: &str) -> u64 {
    let enough = |bytes: u64| {
        ask(model, property, &with_memory(bytes))
            .is_ok_and(|answers| !matches!(answers[0].outcome, Outcome::Between(..)))
    };
    let (mut too_little, mut plenty) = (0, 1 << 30);
    assert!(enough(plenty) && !enough(too_little));
    while plenty - too_little > 1 {
        let middle = too_little + (plenty - too_little) / 2;
        if enough(middle) {
            plenty = middle;
        } else {
            too_little = middle;
        }
    }
    plenty
}

/// One chain that is smaller than what is built between two looks at the limit, one that ends between two looks.
#[test]
fn one_byte_less_than_needed_is_refused() {
    for places in [999, 19_999] {
        let (model, property) = (queue(places), "S=? [ x=0 ]");
        let least = least_memory(&model, property);
        // A state has a key in a list and one in a table, and its places in the solver; each of its two transitions a target and a rate.
        let each = least / (places + 1);
        assert!((30..1_000).contains(&each), "{each} bytes for each state");
        let refused = ask(&model, property, &with_memory(least - 1)).unwrap_err();
        assert!(
            matches!(refused, Error::Limit { what: "bytes of memory", limit, .. } if limit == least - 1),
            "{refused:?}"
        );
        assert!(
            refused.to_string().contains("raise it with --max-memory"),
            "{refused}"
        );
    }
}

/// A question that can be answered on a part of the space is, instead of being refused.
#[test]
fn too_little_memory_truncates_where_it_can() {
    let (model, property) = (queue(999), "P=? [ F[1,3] x=20 ]");
    let plain = |max_memory| Options {
        reduce: false,
        ..with_memory(max_memory)
    };
    let exact = ask(&model, property, &plain(1 << 30)).unwrap()[0]
        .outcome
        .number()
        .unwrap();
    let found = ask(&model, property, &plain(20_000)).unwrap().remove(0);
    let Outcome::Between(low, high) = found.outcome else {
        panic!("{found:?}");
    };
    assert!(
        low <= exact && exact <= high && high - low < 1e-4,
        "{low} {exact} {high}"
    );
    assert!(found.notes[0].starts_with("truncated"), "{:?}", found.notes);
}

/// A space far beyond the limit is left when the limit is met, not when the machine is full.
#[test]
fn the_limit_stops_the_building() {
    static BUILT: AtomicU64 = AtomicU64::new(0);
    let options = Options {
        progress: Some(|states| {
            BUILT.fetch_max(states, Ordering::Relaxed);
        }),
        ..with_memory(8 << 20)
    };
    let refused = ask(&queue(1_000_000_000), "S=? [ x=0 ]", &options).unwrap_err();
    assert!(matches!(refused, Error::Limit { .. }), "{refused:?}");
    let built = BUILT.load(Ordering::Relaxed);
    assert!((40_000..300_000).contains(&built), "{built} states in 8 MiB");
}

/// A grid fills when it is eliminated: its factors take more than it does. What needs no factor is answered where they do not fit.
#[test]
fn factors_count_too() {
    let side = |name: &str| {
        format!(
            "module {name}m\n {name} : [0..39];\n [] {name}<39 -> 1 : ({name}'={name}+1);\n [] {name}>0 -> 2 : ({name}'={name}-1);\nendmodule\n"
        )
    };
    let grid = format!(
        "ctmc\n{}{}rewards \"x\" true : x+2*y; endrewards\n",
        side("x"),
        side("y")
    );
    let (chain, factors) = (
        least_memory(&grid, "R=? [ I=0.1 ]"),
        least_memory(&grid, "S=? [ x=0 ]"),
    );
    assert!(factors > chain, "{chain} {factors}");
    let refused = ask(&grid, "S=? [ x=0 ]", &with_memory(factors - 1)).unwrap_err();
    assert!(
        matches!(refused, Error::Limit { what: "bytes of memory", limit, .. } if limit == factors - 1),
        "{refused:?}"
    );
    let told = refused.to_string();
    assert!(
        told.contains("factors") && told.contains("raise it with --max-memory"),
        "{told}"
    );
    // The same on the way of reaching a target.
    let reward = "R=? [ F x=39 & y=39 ]";
    let least = least_memory(&grid, reward);
    assert!(least > chain, "{chain} {least}");
}

/// The variable that gives a process of its own its check: megabytes, side and property.
#[cfg(target_os = "linux")]
const JOB: &str = "RETRYGUARD_MODEL_LIMIT_JOB";
/// Bytes that a process has beside the check: the program and what the allocator keeps for itself.
#[cfg(target_os = "linux")]
const PROGRAM: u64 = 16 << 20;

/// A cube of three queues in a row, in which nothing can be reduced.
#[cfg(target_os = "linux")]
fn cube(side: u64) -> String {
    format!(
        "ctmc\nmodule m\n x : [0..{side}];\n y : [0..{side}];\n z : [0..{side}];\n\
         [] x<{side} -> 1 : (x'=x+1);\n [] x>0 & y<{side} -> 3 : (x'=x-1) & (y'=y+1);\n\
         [] y>0 & z<{side} -> 2.5 : (y'=y-1) & (z'=z+1);\n [] z>0 -> 2.2 : (z'=z-1);\nendmodule\n\
         rewards \"all\" true : x+y+z; endrewards\n"
    )
}

/// Does nothing but for [`no_check_takes_more_than_its_limit`], which starts it in processes of its own: the most memory that a process
/// ever had is that of its one check then.
#[cfg(target_os = "linux")]
#[test]
fn one_check_of_a_process() {
    let Ok(job) = std::env::var(JOB) else {
        return;
    };
    let mut parts = job.splitn(3, ' ');
    let mut next = || parts.next().unwrap();
    let (limit, side, property): (u64, u64, &str) =
        (next().parse().unwrap(), next().parse().unwrap(), next());
    let outcome = match ask(&cube(side), property, &with_memory(limit << 20)) {
        Ok(answers) => format!("answered {:?}", answers[0].outcome),
        Err(Error::Limit {
            what: "bytes of memory",
            ..
        }) => "refused".to_owned(),
        Err(other) => panic!("{other}"),
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .unwrap();
    println!("\nPEAK {} {outcome}", peak * 1024);
}

/// Row by row copies of a chain once took four times the limit. Long runs and rewards, in components that are eliminated first and in
/// those that are too large for it, and steps of time.
#[cfg(target_os = "linux")]
#[test]
fn no_check_takes_more_than_its_limit() {
    let program = std::env::current_exe().unwrap();
    for (side, property) in [
        (16, "R=? [ S ]"),
        (48, "R=? [ S ]"),
        (16, "R=? [ F z=16 ]"),
        (48, "P=? [ F<=3 z=5 ]"),
    ] {
        let mut answered = Vec::new();
        for megabytes in [1, 24, 48, 1024] {
            let output = std::process::Command::new(&program)
                .args(["--exact", "limits::one_check_of_a_process", "--nocapture"])
                .env(JOB, format!("{megabytes} {side} {property}"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let line = text.lines().find_map(|line| line.strip_prefix("PEAK "));
            let line = line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
            let (peak, outcome) = line.split_once(' ').unwrap();
            let peak: u64 = peak.parse().unwrap();
            assert!(
                peak <= (megabytes << 20) + PROGRAM,
                "{property} on {side}: {peak} bytes in {megabytes} MiB: {outcome}"
            );
            answered.push(outcome.starts_with("answered"));
        }
        assert!(answered[3], "{property} on {side}: {answered:?}");
        // The steps of time are counted on a part of the space where the whole does not fit.
        assert!(
            !answered[0] || property.starts_with('P'),
            "{property} on {side}: {answered:?}"
        );
    }
}

/// A walk without an end is refused before it fills the memory, with a cure; a question that needs a part of it is answered.
#[test]
fn a_variable_without_a_range_does_not_go_on_for_ever() {
    let walk =
        "ctmc\nmodule m\n x : int init 0;\n [] true -> 1 : (x'=x+1);\n [] x>0 -> 2 : (x'=x-1);\nendmodule\n";
    let options = Options {
        max_states: 1_000_000,
        ..Options::default()
    };
    let error = answer_with(walk, "S=? [ x=0 ]", &Constants::new(), &options).unwrap_err();
    let message = error.render("model.prism", walk, "");
    assert!(
        message.contains("`x` has no range and still changes after 40000 states"),
        "{message}"
    );
    assert!(message.contains("give it a range"), "{message}");
    let found = answer_with(walk, "P=? [ F x=5 ]", &Constants::new(), &options);
    assert_eq!(found.unwrap(), [Outcome::Number(1.0)]);
}
