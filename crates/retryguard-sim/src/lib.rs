//! The simulator: the machines of `retryguard-core` in a whole world.
//!
//! What is simulated is what will run: every call in here is driven through the very
//! [`Call`](retryguard_core::Call) and [`Target`](retryguard_core::Target) that production uses. Time is
//! simulated, and chance comes from [`streams`] that are keyed by seed, entity and purpose, so that two
//! policies get the same random numbers and the same seed gives the same bytes.
//!
//! ```
//! use retryguard_sim::{
//!     comparison::{Plan, compare},
//!     scenario::Scenario,
//!     streams::Seed,
//! };
//!
//! let text = "
//! duration: 60s
//! services: {shop: {workers: 10, queue: 100, time: 100ms}}
//! clients: {users: {calls: shop, rate: 80, deadline: 2s}}
//! faults: [{service: shop, capacity: 20%, from: 20s, until: 30s}]
//! policies: [immediate, retryguard]
//! ";
//! let scenario = Scenario::parse(text, "shop", &mut |_| Err("no files".to_owned()))?;
//! let plan = Plan { seed: Seed(1), replications: 1, threads: 1 };
//! let found = compare(&scenario.world, &scenario.policies, &scenario.fixed, &plan, &|_| ());
//! assert!(found[1].mean("goodputPerSecond") > found[0].mean("goodputPerSecond"));
//! # Ok::<(), retryguard_policy::Diagnostics>(())
//! ```

pub mod calibrate;
pub mod client_policy;
pub mod comparison;
pub mod contest;
pub mod distribution;
pub mod draw;
pub mod engine;
pub mod fleet;
pub mod kernel;
pub mod scenario;
pub mod statistics;
pub mod streams;
pub mod tournament;
pub mod world;
