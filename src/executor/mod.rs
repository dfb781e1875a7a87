//! The executor API (design §4): its wire types (`wire`), its handlers (`handlers`), the way in for files (`attachment`) and the
//! socket (`listen`).
//!
//! Owns the words that executors read and write. Invariants: the claim token travels in the body or in `X-Claim-Token`,
//! never in a URL; every refusal says what to do next. It refuses to know SQL and the lifecycle.

mod attachment;
mod handlers;
mod listen;
pub mod refusals;
pub mod wire;

pub use attachment::{put, receive};
pub use handlers::handle;
pub use listen::listen;
