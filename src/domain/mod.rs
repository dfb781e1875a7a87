//! What the hub means by a task, and every rule about its life.
//!
//! Owns: ids, limits, settings, the transition table, leases, retry budget, the formats of secrets, tokens, enrolment codes and
//! times, scopes, which addresses a webhook may have, files' names and links, what the owner is told of and may do by a link, the
//! ledger of outside actions, and what a storage that fails means. Invariant:
//! everything here is a pure function of its arguments. It refuses to know SQL, HTTP, the clock and randomness: `now` and
//! `entropy` come in as arguments.

pub mod action;
pub mod enrolment;
pub mod executor;
pub mod file;
pub mod ids;
pub mod ledger;
pub mod lifecycle;
pub mod limits;
pub mod moment;
pub mod notice;
pub mod ntfy;
pub mod passphrase;
pub mod retry;
pub mod scope;
pub mod secret;
pub mod settings;
pub mod storage;
pub mod target;
pub mod task;
pub mod text;
pub mod token;
pub mod wake;
