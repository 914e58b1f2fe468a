//! The repository's own checks, and the installation of the real servers that tests and evidence run against.

pub mod background;
pub mod book;
pub mod cycles;
pub mod guides;
pub mod image;
pub mod layers;
pub mod links;
pub mod pages;
pub mod parts;
pub mod shell;
pub mod tidy;
pub mod wording;
