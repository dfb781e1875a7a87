//! Executors that listen: who is told when there is work, and whose sockets close.
//!
//! Invariants: a socket that was not heard from for too long counts for nothing, and closes when it is met; what is kept here
//! is only which executor serves which address, and is made anew from the sockets when the object comes back into memory.
//! It refuses to know tasks.

use std::cell::RefCell;

use super::clock;
use super::sockets::{Attached, LiveSocket, Sockets};
use crate::domain::limits::{EXECUTOR_SOCKETS_MAX, LISTENING_SOCKETS_MAX};
use crate::http::message::Response;
use crate::http::socket::{Goodbye, WAKE, too_many};

/// The tag of every listening socket.
pub const TAG: &str = "listen";
/// Sockets that are closing, of clients that do not go, and open ones together; beyond, none is accepted.
const SOCKETS_MAX: usize = 4 * LISTENING_SOCKETS_MAX;
/// A socket with more than this unread has been sent a wake that its client has yet to read, which will do.
const UNREAD_BYTES_MAX: u32 = 4_096;

/// The tag of one executor's sockets.
fn tag(executor: &str) -> String {
    format!("executor:{executor}")
}

/// Closes what was not heard from for too long, and returns the rest.
fn living(sockets: Vec<LiveSocket>, now: i64) -> Vec<LiveSocket> {
    let (living, silent): (Vec<_>, Vec<_>) = sockets.into_iter().partition(|socket| socket.is_alive(now));
    for socket in silent {
        socket.close(Goodbye::Silent);
    }
    living
}

/// Executors with their addresses, each once.
type Known = Vec<(String, Vec<String>)>;

/// The executors' sockets.
pub struct Listening {
    sockets: Sockets,
    /// Executors that may have sockets, with their addresses. Unknown until the sockets were looked at.
    executors: RefCell<Option<Known>>,
}

impl Listening {
    /// Those of this object.
    pub fn new(sockets: Sockets) -> Self {
        Self { sockets, executors: RefCell::default() }
    }

    /// Whether a wake would reach this executor now. Closes nothing: it is asked in the middle of commands.
    pub fn is_listening(&self, executor: &str) -> bool {
        let now = clock();
        let may_have = self.with_executors(|executors| executors.iter().any(|(known, _)| known == executor));
        may_have && self.sockets.tagged(&tag(executor)).iter().any(|socket| socket.is_alive(now))
    }

    /// Opens a socket. The executor's oldest makes room where there are too many.
    pub fn open(
        &self,
        executor: &str,
        addresses: &[String],
        is_ready: bool,
    ) -> Result<worker::Response, Result<Response, worker::Error>> {
        let now = clock();
        let mut own = living(self.sockets.tagged(&tag(executor)), now);
        own.sort_by_key(|socket| socket.attached.accepted_at);
        let is_full = living(self.sockets.tagged(TAG), now).len() >= LISTENING_SOCKETS_MAX;
        if is_full && own.is_empty() || self.sockets.count(TAG) >= SOCKETS_MAX {
            return Err(Ok(too_many()));
        }
        let room_for = if is_full { own.len() } else { EXECUTOR_SOCKETS_MAX };
        let surplus = (own.len() + 1).saturating_sub(room_for);
        for socket in own.drain(..surplus) {
            socket.close(Goodbye::Displaced);
        }
        let carried = Attached { executor: executor.to_owned(), addresses: addresses.to_vec(), ..Attached::default() };
        let (socket, response) = self.sockets.open(carried, &[TAG, &tag(executor)]).map_err(Err)?;
        self.with_executors(|executors| {
            executors.retain(|(known, _)| known != executor);
            executors.push((executor.to_owned(), addresses.to_vec()));
        });
        if is_ready {
            socket.send(WAKE);
        }
        Ok(response)
    }

    /// Tells everybody who serves one of these addresses that there is work.
    pub fn wake(&self, ready: &[String]) {
        if ready.is_empty() {
            return;
        }
        let serves = |addresses: &[String]| addresses.iter().any(|address| ready.contains(address));
        let woken: Vec<String> = self.with_executors(|executors| {
            executors.iter().filter(|(_, addresses)| serves(addresses)).map(|(executor, _)| executor.clone()).collect()
        });
        let now = clock();
        for executor in woken {
            let sockets = living(self.sockets.tagged(&tag(&executor)), now);
            if sockets.is_empty() {
                self.with_executors(|executors| executors.retain(|(known, _)| *known != executor));
            }
            for socket in sockets.iter().filter(|socket| socket.unread_bytes() <= UNREAD_BYTES_MAX) {
                socket.send(WAKE);
            }
        }
    }

    /// Closes every socket of these executors.
    pub fn cut_off(&self, executors: &[String]) {
        for executor in executors {
            for socket in self.sockets.tagged(&tag(executor)) {
                socket.close(Goodbye::CutOff);
            }
            self.with_executors(|executors| executors.retain(|(known, _)| known != executor));
        }
    }

    fn with_executors<T>(&self, body: impl FnOnce(&mut Known) -> T) -> T {
        let mut executors = self.executors.borrow_mut();
        body(executors.get_or_insert_with(|| self.learn()))
    }

    /// Who has sockets, by what these carry.
    fn learn(&self) -> Known {
        let carried = self.sockets.tagged(TAG).into_iter().map(|socket| socket.attached);
        let mut known = Known::new();
        for Attached { executor, addresses, .. } in carried {
            if known.iter().all(|(other, _)| *other != executor) {
                known.push((executor, addresses));
            }
        }
        known
    }
}
