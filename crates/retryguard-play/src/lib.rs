//! The playground: a page on this machine on which policies meet storms.
//!
//! The page has an editor, sliders for the world and up to four policies side by side. Every change is simulated in this
//! process by the same machines that run in production, in a world that is small enough for half a second. Nothing is
//! loaded from elsewhere.

mod answer;
mod browser;
mod gallery;
mod policies;
mod server;
mod verdict;
mod world;

pub use answer::answer;
pub use browser::open;
pub use gallery::storms;
pub use policies::diagnostics;
pub use server::{Server, serve};
