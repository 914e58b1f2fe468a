//! The limit on memory holds to the byte, and says what to do.

use std::sync::atomic::{AtomicU64, Ordering};

use retryguard_model::{Answer, Constants, Error, Model, Options, Outcome, Properties, check};

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
        // A state has a key in a list and one in a table; each of its two transitions a target and a rate.
        let each = least / (places + 1);
        assert!((30..200).contains(&each), "{each} bytes for each state");
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
    assert!(factors > 2 * chain, "{chain} {factors}");
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
    assert!(least > 2 * chain, "{chain} {least}");
}
