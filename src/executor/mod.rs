//! The executor API (design §4): its wire types (`wire`) and its handlers (`handlers`).
//!
//! Owns the words that executors read and write. Invariants: the claim token travels in the body or in `X-Claim-Token`,
//! never in a URL; every refusal says what to do next. It refuses to know SQL and the lifecycle.

mod handlers;
pub mod refusals;
pub mod wire;

pub use handlers::handle;
