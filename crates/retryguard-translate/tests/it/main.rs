//! Files of other systems as policies, and back.

mod accepted;
mod drawn;
mod files;
mod round_trips;
