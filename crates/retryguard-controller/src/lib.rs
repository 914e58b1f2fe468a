//! Watches services in any language and switches their retries off while they do harm.
//!
//! The layers, each of which uses only those before it:
//!
//! 1. [`domain`]: targets, counts, guards, the desired state and the plan.
//! 2. [`reconcile`]: the reconciler, the control loop, and the traits of sources, actuators and leader election.
//! 3. [`config`]: the file `controller.yaml`, written, checked, compiled.
//! 4. [`adapters`]: the sources, actuators, elections and ports that implement those traits.
//! 5. [`start`]: from a configuration to its parts.
//! 6. [`process`]: a controller that runs until a signal ends it.
//!
//! A source says what happened to each target in the last interval, a guard per target (`retryguard_core::guard`)
//! decides, the plan compares what is desired with what the data plane has, and an actuator brings the two together.
//! Nothing of it is on the path of a request.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapters;
pub mod clock;
pub mod config;
pub mod domain;
pub mod process;
pub mod reconcile;
pub mod secret;
pub mod start;
