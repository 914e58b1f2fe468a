//! Files of other systems as policies, and back.

mod accepted;
mod drawn;
mod files;
mod judged;
mod losses;
mod numbers;
mod round_trips;
mod spellings;
