//! Results of the simulator and of the linter as tables for a terminal, pages with charts, JSON, CSV and SARIF.
//!
//! [`scenario`] runs a scenario file and reports it, [`fleets`] a file of periodic fleets, [`tournament`] every known policy in
//! many scenarios. [`simulate`] chooses among them as the command line asks. [`lint`] writes what the linter found. [`chart`] draws lines over a common axis as SVG and does not depend on the others.

pub mod chart;
pub mod fleets;
pub mod lint;
mod number;
pub mod progress;
pub mod scenario;
pub mod simulate;
pub mod table;
pub mod tournament;
mod units;
pub mod verdict;
