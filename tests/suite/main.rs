//! The native suite: one binary, no sleeps, no wall clock.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod care;
mod commands;
mod docs;
mod files;
mod fuzz;
mod ledger;
mod lifecycle;
mod mcp;
mod migrations;
mod notices;
mod oauth;
mod oauth_hostile;
mod outbox;
mod routes;
mod secrets;
mod settings;
mod simulation;
mod statements;
mod store;
mod support;
mod target;
mod text;
mod tidy;
mod transcript;
mod wakes;
