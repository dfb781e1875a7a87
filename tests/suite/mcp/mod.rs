//! The MCP server over the router: envelope and ladder, schemas, every tool, waiting, paging, and what browsers are told.

mod actions;
pub mod client;
mod validate;

mod arguments;
mod cors;
mod execute;
mod files;
mod ladder;
mod paging;
mod rows;
mod schema;
mod tools;
mod waiting;
