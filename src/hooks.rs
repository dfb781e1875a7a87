//! Panics on demand, for the tests that show what a panic does (cargo feature `test-hooks`; nothing without it).
//!
//! Invariant: a build without the feature has no switch at all; `panic_point` is empty in it.

#[cfg(feature = "test-hooks")]
mod armed {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static ARMED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Makes the next pass through this point panic, once.
    pub fn arm(name: &str) {
        ARMED.with_borrow_mut(|armed| armed.insert(name.to_owned()));
    }

    /// Takes back what was armed, unless it has gone off. Returns whether it had not.
    pub fn disarm(name: &str) -> bool {
        ARMED.with_borrow_mut(|armed| armed.remove(name))
    }
}

#[cfg(feature = "test-hooks")]
pub use armed::{arm, disarm};

/// Panics if a test armed this point.
#[cfg(feature = "test-hooks")]
pub fn panic_point(name: &'static str) {
    if disarm(name) {
        panic!("injected by a test at {name}");
    }
}

/// Panics if a test armed this point, which only a build with `test-hooks` can do.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub fn panic_point(_name: &'static str) {}
