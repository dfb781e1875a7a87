//! OAuth over the router: clients, consent, tokens, and what holds for all of them. `rows` is named after the ways in which
//! real clients broke real servers.

mod atomic;
mod authentication;
mod authorize;
mod bearer;
pub mod client;
mod codes;
mod consent;
mod documents;
mod metadata;
mod passphrase;
mod redirects;
mod refresh;
mod registration;
mod resources;
mod revocation;
mod rows;
