//! The executor API (design §4): its wire types (`wire`), its handlers (`handlers`), the way in for files (`attachment`), the
//! socket (`listen`) and how a machine gets its key (`enroll`).
//!
//! Owns the words that executors read and write. Invariants: the claim token travels in the body or in `X-Claim-Token`,
//! never in a URL; every refusal says what to do next. It refuses to know SQL and the lifecycle.

mod attachment;
mod enroll;
mod handlers;
mod listen;
pub mod refusals;
pub mod wire;

pub use attachment::{files, put, receive};
pub use enroll::enroll;
pub use handlers::handle;
pub use listen::listen;
