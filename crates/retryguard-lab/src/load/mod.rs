//! The load: who sends how many orders when, and what became of them.

mod closed;
mod driver;
mod measurements;
mod open;
mod orders;
mod plan;
mod progress;

pub use driver::Driver;
pub use measurements::{Live, Measurements, Slice, Verdict};
pub use plan::{Plan, Shape, Window};
pub use progress::{run_shown, say};
