//! The command from the outside: what it prints, where, and how it exits.

mod calibrate;
mod check;
#[cfg(feature = "controller")]
mod controller;
mod dask;
mod demo;
mod first_steps;
mod fleets;
mod job;
mod lab;
#[cfg(feature = "lab-real")]
mod lab_real;
mod lint;
mod metastability;
mod page;
mod policy_model;
mod predict;
mod simulate;
mod tune;
