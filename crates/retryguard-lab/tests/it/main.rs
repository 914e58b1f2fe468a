//! The laboratory from outside: real services over loopback, on embedded databases.

mod configurations;
