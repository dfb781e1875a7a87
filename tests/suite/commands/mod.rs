//! The commands, one file each, and the rules of design §3 across them.

pub mod actions;
mod answer;
mod atomic;
mod cancel;
mod claim;
mod executors;
mod fencing;
mod give_back;
mod heartbeat;
mod list;
mod purge;
mod query;
mod result;
mod submit;
mod sweep;
mod unknown;
