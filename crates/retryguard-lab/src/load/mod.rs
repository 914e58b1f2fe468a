//! The load: how many orders are sent when and by which users, and how they ended.

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
