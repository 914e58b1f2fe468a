//! Results of the simulator as tables for a terminal, pages with charts, JSON and CSV.
//!
//! [`scenario`] runs a scenario file and reports it, [`fleets`] a file of periodic fleets, [`tournament`] every known policy in
//! many scenarios. [`chart`] draws lines over a common axis as SVG and knows nothing of the others.

pub mod chart;
pub mod fleets;
mod number;
pub mod scenario;
pub mod table;
pub mod tournament;
pub mod verdict;
