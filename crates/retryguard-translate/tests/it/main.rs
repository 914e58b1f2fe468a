//! Files of other systems as policies, and back.

mod accepted;
mod drawn;
mod files;
mod judged;
mod round_trips;
