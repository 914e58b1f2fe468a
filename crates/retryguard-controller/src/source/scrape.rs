//! The controller's own scraper as a source of signals.
