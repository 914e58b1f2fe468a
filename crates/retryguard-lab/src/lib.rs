//! Five real services, faults, load and experiments: what retry policies really do.
//!
//! - [`System`]: gateway → orders → payments, inventory and notifications, over loopback HTTP on our own
//!   library, in one process with embedded databases or one service a process.
//! - [`faults::Faults`]: what is broken, switched by an admin interface or by an experiment.
//! - [`load::Driver`]: open and closed load, measured from the moment at which a request was meant to be sent.
//! - [`experiment`]: a configuration under a fault: warm-up, fault, recovery, and what was measured.
//! - [`demo`]: a storm, first without protection and then with it, live in a terminal and on a page.
//!
//! Only a policy file says which patterns are on.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod answer;
pub mod chance;
pub mod clock;
mod configuration;
pub mod counts;
pub mod database;
pub mod demo;
pub mod experiment;
pub mod faults;
pub mod load;
mod name;
mod openapi;
mod recorder;
mod runtime;
pub mod scale;
mod serve;
mod services;
pub mod settings;
mod site;
pub mod station;
pub mod system;
pub mod trace;

pub use configuration::Configuration;
pub use name::Name;
pub use runtime::{Interrupted, block_on, interrupt, log_to_stderr, standard_input_closed};
pub use scale::TimeScale;
pub use serve::{ServeOptions, serve};
pub use settings::Settings;
pub use system::System;
