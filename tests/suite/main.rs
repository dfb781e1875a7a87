//! The native suite: one binary, no sleeps, no wall clock.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod commands;
mod lifecycle;
mod mcp;
mod routes;
mod secrets;
mod settings;
mod support;
mod target;
mod text;
mod wakes;
