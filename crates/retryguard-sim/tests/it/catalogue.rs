//! The same inputs give the same result, and the page of the reference is true.

use std::fs;

use retryguard_sim::{client_policy::NAMES, scenario::Scenario};

use super::{compared, compared_in, folder, of, scenario};

#[test]
fn the_same_seed_and_files_give_the_same_result_on_any_number_of_threads() {
    let scenario = scenario("amplification-27");
    let print = || format!("{:?}", compared_in(&scenario.world, &scenario));
    assert_eq!(print(), print());
}

/// The page's worked example runs as it stands there, with the sweep that it suggests, and shows what it should.
#[test]
fn the_worked_example_of_the_reference_runs() {
    let page = fs::read_to_string(folder().join("../docs/scenarios.md")).unwrap();
    let blocks: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let text = blocks.concat();
    let scenario = Scenario::parse(&text, "shop", &mut |path| Err(path.to_owned())).unwrap();
    assert_eq!(scenario.world.services.len(), 3);
    assert_eq!(scenario.sweep.as_ref().unwrap().worlds.len(), 4);
    let summaries = compared(&scenario);
    let attempts = |name: &str| of(&summaries, name).mean("attempts");
    assert!(attempts("immediate") > 1.1 * attempts("none"));
    assert!(attempts("retryguard") < 1.1 * attempts("none"));
    for (name, about) in NAMES {
        assert!(
            page.contains(&format!("| `{name}` | {about} |")),
            "{name} is not on the page as it is"
        );
    }
}
