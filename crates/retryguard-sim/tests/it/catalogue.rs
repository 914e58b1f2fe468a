//! Every scenario file can be read, and says what it claims.

use std::fs;

use super::{compared_in, folder, scenario};

#[test]
fn every_world_of_the_catalogue_is_read_and_has_a_claim() {
    let mut worlds = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        // Files of fleets are read by their own tests.
        if fs::read_to_string(&path)
            .unwrap()
            .lines()
            .any(|line| line.starts_with("fleets:"))
        {
            continue;
        }
        let scenario = scenario(path.file_stem().unwrap().to_str().unwrap());
        assert!(!scenario.claim.trim().is_empty(), "{}", scenario.name);
        worlds += 1;
    }
    assert!(worlds >= 10, "{worlds}");
}

#[test]
fn the_same_seed_and_files_give_the_same_result_on_any_number_of_threads() {
    let scenario = scenario("recovery-retry-storm");
    let print = || format!("{:?}", compared_in(&scenario.world, &scenario));
    assert_eq!(print(), print());
}
