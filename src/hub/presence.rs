//! Who is there: which executors listen, and when each was last heard from, as far as this process remembers.
//!
//! Nothing of it is stored, so a poll that finds nothing writes nothing. Whether an executor listens is asked of the living
//! sockets at the moment it matters, without waiting: a heartbeat on a socket reaches nobody, so a copy kept here would
//! be wrong within minutes. It refuses to know what a socket is.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::domain::limits::ONLINE_MS;

/// Says whether an executor of this name holds a living socket.
type AskSockets = Box<dyn Fn(&str) -> bool>;

/// What is known of the executors' being there.
#[derive(Default)]
pub struct Presence {
    seen: RefCell<HashMap<String, i64>>,
    listening: RefCell<HashSet<String>>,
    sockets: Option<AskSockets>,
}

impl Presence {
    /// One that asks the living sockets who listens. By default nobody does.
    pub fn of_sockets(is_listening: impl Fn(&str) -> bool + 'static) -> Self {
        Self { sockets: Some(Box::new(is_listening)), ..Self::default() }
    }

    /// The executor called just now.
    pub fn seen(&self, executor: &str, now: i64) {
        self.seen.borrow_mut().insert(executor.to_owned(), now);
    }

    /// When it last called, in milliseconds. Holding a socket open is no call.
    pub fn last_seen_at(&self, executor: &str) -> Option<i64> {
        self.seen.borrow().get(executor).copied()
    }

    /// Says that it listens, or no longer does, where there are no sockets to ask.
    pub fn set_listening(&self, executor: &str, listens: bool) {
        let mut listening = self.listening.borrow_mut();
        if listens {
            listening.insert(executor.to_owned())
        } else {
            listening.remove(executor)
        };
    }

    /// Whether it would take a wake right now.
    pub fn is_listening(&self, executor: &str) -> bool {
        match &self.sockets {
            Some(is_listening) => is_listening(executor),
            None => self.listening.borrow().contains(executor),
        }
    }

    /// Whether it is there: it listens, or has called a moment ago (design §11).
    pub fn is_online(&self, executor: &str, now: i64) -> bool {
        self.last_seen_at(executor).is_some_and(|at| now - at < ONLINE_MS) || self.is_listening(executor)
    }

    /// Forgets an executor that was deleted.
    pub fn forget(&self, executor: &str) {
        self.seen.borrow_mut().remove(executor);
        self.listening.borrow_mut().remove(executor);
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("seen", &self.seen).field("listening", &self.listening).finish_non_exhaustive()
    }
}
