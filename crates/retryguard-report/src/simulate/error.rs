//! Why there is no result.

use std::{io, path::PathBuf};

use retryguard_sim::{client_policy::ChoiceError, draw::MOST_WORLDS, scenario::ScenarioError};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The file cannot be used.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A policy cannot be used.
    #[error(transparent)]
    Policy(#[from] ChoiceError),
    /// No replication is asked for.
    #[error("--replications is 0; give at least 1")]
    NoReplications,
    /// A sweep is run without a bound on its differences.
    #[error(
        "--until-ci: the scenario has a `sweep`, and each of its worlds would stop elsewhere; remove one of the two"
    )]
    SweepUntil,
    /// Storms are counted in one world.
    #[error("--storms: the scenario has a `sweep`; remove one of the two")]
    SweepStorms,
    /// The catalogue of worlds is not divided.
    #[error("--units belongs to --draw N, or to a scenario file with a `sweep`")]
    UnitsOfDraw,
    /// Only many worlds are divided.
    #[error(
        "--units: the file has no `sweep`; units divide the worlds of a sweep, or of `retryguard simulate tournament --draw N`"
    )]
    NoSweep,
    /// What a unit of a sweep cannot do.
    #[error(
        "--units of a sweep goes without --policy, --until-ci and --storms; write the policies into the file"
    )]
    UnitsHaveNone,
    /// A world without faults has no storm.
    #[error(
        "--storms: the scenario has no `faults`, so there is nothing to recover from; add the fault that starts the storm"
    )]
    NoFaults,
    /// The policy that the others are compared with is not there.
    #[error("--against {name}: no compared policy has this name; give one of {}", known.join(", "))]
    Against {
        /// Its name.
        name: String,
        /// Those that are compared.
        known: Vec<String>,
    },
    /// Fleets are not compared as policies are.
    #[error("--until-ci, --against and --storms belong to a file with `services`; this one has `fleets`")]
    FleetsHaveNone,
    /// The file has no such fleet.
    #[error("there is no fleet {name}: the file has {}", known.join(", "))]
    NoFleet {
        /// Its name.
        name: String,
        /// Those of the file.
        known: Vec<String>,
    },
    /// A tournament has many worlds instead of many replications.
    #[error(
        "--until-ci, --against and --storms belong to a scenario file; a draw has many worlds instead of many replications"
    )]
    TournamentHasNone,
    /// Worlds are drawn for a tournament.
    #[error("--draw belongs to `retryguard simulate tournament`")]
    Draw,
    /// The number of worlds.
    #[error("--draw is {0}; give a number of worlds from 1 to {MOST_WORLDS}")]
    Worlds(u32),
    /// The number of units.
    #[error("--units is {0}; give a number from 1 to {1}, the number of worlds")]
    Units(u32, u32),
    /// The number of one unit.
    #[error("--unit is {0}; the plan has the units 0 to {1}")]
    Unit(u32, u32),
    /// The units cannot be joined.
    #[error("{}: {}", .0.display(), .1)]
    Merge(PathBuf, String),
    /// A folder or a file cannot be read or written.
    #[error("cannot {} {}", .0, .1.display())]
    File(&'static str, PathBuf, #[source] io::Error),
    /// The threads cannot be started.
    #[error("cannot start the threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}
