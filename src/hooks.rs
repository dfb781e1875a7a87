//! Panics on demand, for the tests that show what a panic does (cargo feature `test-hooks`; nothing without it).
//!
//! Owns: the one armed point. Invariant: a build without the feature has no switch at all, `panic_point` is empty in it.

#[cfg(feature = "test-hooks")]
mod armed {
    use std::cell::Cell;

    /// The points that can be armed.
    pub const POINTS: [&str; 4] = ["front", "handler", "transaction", "alarm"];

    thread_local! {
        static ARMED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Makes the next pass through this point panic, once. Unknown names are ignored.
    pub fn arm(name: &str) {
        ARMED.set(POINTS.into_iter().find(|point| *point == name));
    }

    /// Takes back what was armed, unless it has gone off.
    pub fn disarm() {
        ARMED.set(None);
    }

    pub(super) fn goes_off(name: &str) -> bool {
        let hit = ARMED.get() == Some(name);
        if hit {
            ARMED.set(None);
        }
        hit
    }
}

#[cfg(feature = "test-hooks")]
pub use armed::{POINTS, arm, disarm};

/// Panics if a test armed this point.
#[cfg(feature = "test-hooks")]
pub fn panic_point(name: &'static str) {
    if armed::goes_off(name) {
        panic!("injected by a test at {name}");
    }
}

/// Panics if a test armed this point, which only a build with `test-hooks` can do.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub fn panic_point(_name: &'static str) {}
