//! Numbers from chains.
//!
//! Unbounded questions become linear systems. The graph is cut into strongly connected components, solved in
//! topological order; within a component, states are eliminated one by one without a subtraction, so that rates of 9999
//! beside 0.02 cost no digits. Bounded questions are answered by uniformisation.

mod bias;
mod dense;
mod direct;
mod dissect;
mod eliminate;
mod fronts;
mod gradients;
mod graph;
mod incomplete;
mod iterate;
mod krylov;
mod lane;
mod levels;
mod linear;
mod order;
mod poisson;
mod reach;
mod rises;
mod scc;
mod shares;
mod steady;
mod ticks;
mod transient;

pub(crate) use graph::{can_reach, cycles, walk_fits};
pub(crate) use levels::level_rewards;
pub(crate) use reach::{can_stay, next, reach_rewards, rewards_to, some_next, total_rewards, until};
pub(crate) use rises::{Again, rises_again};
pub(crate) use steady::{relative_values, steady_probability, steady_reward};
pub(crate) use transient::{bounded_until, cumulative, instant};
