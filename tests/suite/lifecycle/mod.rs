//! The transition table of design §3, checked against expectations that were written from its text, at its boundaries, and
//! on random walks.

mod boundaries;
mod properties;
pub mod samples;
mod table;
