//! taskhub: a task hub on Cloudflare Workers through which Claude hands work to other agents and machines, and gets it
//! back.
//!
//! A synchronous, deterministic library with all I/O at the edge. Modules in reading order:
//!
//! - [`domain`]: what a task is and every rule about its life;
//! - [`store`]: the only SQL;
//! - [`hub`]: the commands, one transaction each;
//! - [`outbound`]: requests that the hub sends, built but not sent;
//! - [`executor`], [`owner`], [`mcp`]: the three ways in;
//! - [`files`]: files by signed links;
//! - [`oauth`]: how clients come by the tokens for two of them;
//! - [`kit`]: what a machine downloads to become an executor;
//! - [`http`]: requests, responses, routes, credentials, problems;
//! - `edge` (feature `edge`): the only place that names `worker`.

pub mod domain;
pub mod executor;
pub mod faults;
pub mod files;
pub mod hooks;
pub mod http;
pub mod hub;
pub mod kit;
pub mod mcp;
pub mod oauth;
pub mod outbound;
pub mod owner;
pub mod store;

#[cfg(feature = "edge")]
mod edge;
