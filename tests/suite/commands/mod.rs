//! The commands, one file each.

mod answer;
mod submit;
