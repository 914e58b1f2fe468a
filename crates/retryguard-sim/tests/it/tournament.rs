//! The tournament: what must hold for every winner.

use std::path::Path;

use retryguard_sim::{
    comparison::Plan,
    streams::Seed,
    tournament::{HELD_OUT, WORLDS, policies, run, scenario},
};

#[test]
fn there_are_twenty_worlds_and_more_and_all_can_be_read() {
    assert!(WORLDS.len() >= 20);
    assert!(HELD_OUT.len() >= 12);
    for (folder, worlds) in [("tournament", WORLDS), ("tournament-held-out", HELD_OUT)] {
        for (name, text) in worlds {
            assert_eq!(scenario(name, text).name, *name);
        }
        let files = std::fs::read_dir(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("scenarios")
                .join(folder),
        )
        .unwrap();
        let written = files
            .filter(|file| file.as_ref().unwrap().path().extension().unwrap() == "yaml")
            .count();
        assert_eq!(written, worlds.len(), "every file of {folder} takes part");
    }
}

#[test]
fn no_policy_exceeds_the_oracle_and_no_result_is_missing() {
    let mut client_policies = policies();
    // The whole field runs in the command; these are the ones that differ most.
    client_policies.retain(|it| {
        [
            "none",
            "immediate",
            "fixed",
            "aws-adaptive",
            "retryguard",
            "oracle",
        ]
        .contains(&it.name.as_str())
    });
    let plan = Plan {
        seed: Seed(1),
        replications: 1,
        threads: 2,
    };
    let tournament = run(WORLDS, &client_policies, &plan, &|_| ());
    assert_eq!(tournament.rows.len(), WORLDS.len());
    let above = tournament.above_the_oracle();
    assert!(above.is_empty(), "{above:?}");
    for row in &tournament.rows {
        assert!(
            row.scores
                .iter()
                .all(|score| score.goodput.is_finite() && score.cost.is_finite()),
            "{}",
            row.world
        );
    }
    // Where a queue has no end and no caller waits for it, only a policy that stops sending comes back.
    let ours = tournament
        .policies
        .iter()
        .position(|name| name == "retryguard")
        .unwrap();
    let metastable = tournament
        .rows
        .iter()
        .find(|row| row.world == "metastable")
        .unwrap();
    assert!(metastable.scores[ours].goodput > 0.9);
}
