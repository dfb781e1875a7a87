//! HTTP as values.
//!
//! Owns: requests and responses, credentials, the routes, and the shape of every error. It refuses to know the platform:
//! `edge` turns its own requests into these and back.

pub mod auth;
pub mod body;
pub mod cors;
pub mod front;
pub mod message;
pub mod page;
pub mod problem;
pub mod route;
pub mod router;
pub mod socket;
pub mod upload;
