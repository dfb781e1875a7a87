//! The commands, one file each.

mod answer;
mod claim;
mod purge;
mod submit;
mod sweep;
