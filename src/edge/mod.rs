//! The only place that names `worker`: everything between Cloudflare's runtime and the hub.
//!
//! Owns: the Worker's two events (`entry`), the Durable Object (`object`) with its alarm (`alarm`), who is told of changes
//! (`broadcast`: `waiting` calls, executors `listening`, those `watching`, and their `sockets`), the database over its SQLite
//! (`database`), sending (`dispatch` and `outbound`), bodies that are too large for memory (`streaming`), and the way in and out of the
//! runtime's values (`convert`, `config`, and `glue` with its JavaScript).
//!
//! Invariants: a panic anywhere is caught and answered (`guarded`), never left to the runtime; every call of the object and
//! every request to the outside has a time limit; between a command and the alarm that it needs nothing is awaited. It
//! refuses to know what a command does.

mod alarm;
mod broadcast;
mod config;
mod convert;
mod database;
mod dispatch;
mod entry;
mod glue;
mod listening;
mod object;
mod outbound;
mod problems;
mod sockets;
mod streaming;
#[cfg(feature = "test-hooks")]
mod test_routes;
mod waiting;
mod watching;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};

/// Something panicked. The panic hook has already written its message and place to the log.
struct Panicked;

impl From<Box<dyn Any + Send>> for Panicked {
    fn from(_payload: Box<dyn Any + Send>) -> Self {
        Self
    }
}

/// Runs `body`, which must leave nothing half done in memory when it panics.
fn guarded_now<T>(body: impl FnOnce() -> T) -> Result<T, Panicked> {
    std::panic::catch_unwind(AssertUnwindSafe(body)).map_err(Panicked::from)
}

/// Runs a future that must leave nothing half done in memory when it panics.
async fn guarded<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(Panicked::from)
}

/// What the future gives, or `None` when it takes longer than this. The future is dropped then.
async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    match select(Box::pin(future), worker::Delay::from(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(((), _)) => None,
    }
}

/// Milliseconds of Unix time.
#[expect(clippy::cast_possible_truncation, reason = "the clock gives whole milliseconds, far below 2^53")]
fn clock() -> i64 {
    #[cfg(feature = "test-hooks")]
    if let Some(now) = test_routes::scripted_now() {
        return now;
    }
    js_sys::Date::now() as i64
}

/// Random bytes of the runtime.
struct RuntimeEntropy;

impl crate::hub::Entropy for RuntimeEntropy {
    #[expect(
        clippy::expect_used,
        reason = "without randomness no secret may be made; the panic is caught and answered"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        #[cfg(feature = "test-hooks")]
        if test_routes::scripted_fill(bytes) {
            return;
        }
        getrandom::fill(bytes).expect("the runtime has a source of randomness");
    }
}
