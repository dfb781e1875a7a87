//! What a command changed, told to everybody in the object who waits for it: calls that wait (`waiting`), executors that listen
//! (`listening`), and those who watch the events (`watching`).
//!
//! Invariants: nothing is told before the command has committed, and the runtime sends nothing before that is on disk; telling
//! writes no row, and waits for nobody.

use std::rc::Rc;

use wasm_bindgen::JsValue;
use worker::{State, WebSocket, console_error, web_sys};

use super::listening::Listening;
use super::object::Object;
use super::sockets::{Attached, Sockets};
use super::waiting::Waiting;
use super::watching::Watching;
use super::{convert, problems};
use crate::http::socket::Socket;

/// What a command did that somebody may wait for.
pub struct Published<'p> {
    /// Tasks that changed.
    pub changed: &'p [String],
    /// Addresses at which a task became claimable.
    pub ready: &'p [String],
    /// Executors whose sockets must close.
    pub cut_off: &'p [String],
    /// Whether anything was written: there may be events of tasks that did not change.
    pub wrote: bool,
}

/// Everybody who waits.
pub struct Broadcast {
    /// Calls.
    pub waiting: Rc<Waiting>,
    /// Executors' sockets.
    pub listening: Rc<Listening>,
    /// Sockets that watch the events.
    pub watching: Watching,
    sockets: Sockets,
}

impl Broadcast {
    /// Everybody who waits in this object.
    pub fn new(state: &State) -> Self {
        let sockets = Sockets::new(state);
        let (listening, watching) = (Rc::new(Listening::new(sockets.clone())), Watching::new(sockets.clone()));
        Self { waiting: Rc::default(), listening, watching, sockets }
    }

    /// Tells everybody what a command did, after it has committed.
    pub fn publish(&self, object: &Rc<Object>, published: &Published<'_>) {
        let Published { changed, ready, cut_off, wrote } = published;
        if !cut_off.is_empty() {
            self.listening.cut_off(cut_off);
        }
        self.waiting.wake(changed, ready);
        self.listening.wake(ready);
        if *wrote || !changed.is_empty() {
            self.watching.publish(object, changed);
        }
    }

    /// Opens a socket, in the turn in which that was decided. The response hands its other end to the client.
    pub fn open(&self, object: &Rc<Object>, socket: &Socket) -> JsValue {
        let opened = match socket {
            Socket::Listen { executor, addresses, is_ready } => self.listening.open(executor, addresses, *is_ready),
            Socket::Events { after, newest, grant, until } => {
                let cursor = after.unwrap_or(*newest);
                let (grant, until) = (grant.clone().unwrap_or_default(), until.unwrap_or_default());
                let carried = Attached { cursor, grant, until, ..Attached::default() };
                self.watching.open(object, *newest, carried).map_err(Err)
            }
        };
        match opened {
            Ok(response) => web_sys::Response::from(response).into(),
            Err(Ok(refusal)) => convert::response(&refusal),
            Err(Err(error)) => {
                console_error!("a socket cannot be opened: {error}");
                convert::response(&problems::internal())
            }
        }
    }

    /// How much lies unread in each open socket with this tag, in bytes.
    #[cfg(feature = "test-hooks")]
    pub fn unread_bytes(&self, tag: &str) -> Vec<u32> {
        self.sockets.tagged(tag).iter().map(super::sockets::LiveSocket::unread_bytes).collect()
    }

    /// A client said something that is no ping.
    pub fn hear(&self, socket: &WebSocket) {
        let Some(mut socket) = self.sockets.of_event(socket) else { return };
        if !socket.is_open() {
            return;
        }
        socket.correct();
        if socket.attached.executor.is_empty() {
            self.watching.replace(&socket);
        }
    }
}
