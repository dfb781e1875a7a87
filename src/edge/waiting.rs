//! Calls that wait in the object until something changes.
//!
//! Invariant: a call registers in the same turn in which its handler decided to wait, so no change falls between. Waking is
//! a hint: the handler looks again and may wait on. The number of waiting calls is bounded; one too many does not wait.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;

use super::{clock, within};
use crate::http::message::{Topic, Wait};

/// Calls that may wait at a time.
const WAITING_MAX: usize = 256;

struct Call {
    id: u64,
    topic: Topic,
    wake: oneshot::Sender<()>,
}

/// All calls that wait.
#[derive(Default)]
pub struct Waiting {
    calls: RefCell<Vec<Call>>,
    last_id: Cell<u64>,
}

impl Waiting {
    /// Returns once one of the topics changed (true) or the time is over (false). Registers at once, before the returned
    /// future is first polled.
    pub fn wait(self: &Rc<Self>, wait: &Wait) -> impl Future<Output = bool> + use<> {
        let ticket = self.register(&wait.on);
        let left = u64::try_from(wait.until - clock()).unwrap_or_default();
        async move {
            let Some(mut ticket) = ticket else { return false };
            within(Duration::from_millis(left), &mut ticket.woken).await.is_some()
        }
    }

    /// Wakes every call that waits for one of these tasks, or for work at one of these addresses, first come first served.
    pub fn wake(&self, changed: &[String], ready: &[String]) {
        let mut calls = self.calls.borrow_mut();
        let (woken, still) = std::mem::take(&mut *calls).into_iter().partition(|call| match &call.topic {
            Topic::Task(id) => changed.iter().any(|other| *other == id.to_string()),
            Topic::Ready(addresses) => ready.iter().any(|address| addresses.contains(address)),
        });
        *calls = still;
        drop(calls);
        let woken: Vec<Call> = woken;
        for call in woken {
            // The receiver is gone when its time is over, which is no loss.
            let _ = call.wake.send(());
        }
    }

    fn register(self: &Rc<Self>, topic: &Topic) -> Option<Ticket> {
        let mut calls = self.calls.borrow_mut();
        if calls.len() >= WAITING_MAX {
            return None;
        }
        let (wake, woken) = oneshot::channel();
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        calls.push(Call { id, topic: topic.clone(), wake });
        Some(Ticket { waiting: Rc::clone(self), id, woken })
    }
}

/// A registered call; it leaves the list when it is dropped.
struct Ticket {
    waiting: Rc<Waiting>,
    id: u64,
    woken: oneshot::Receiver<()>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.waiting.calls.borrow_mut().retain(|call| call.id != self.id);
    }
}
