//! Those who watch the hub's events: each event once, in order, and only what is committed.
//!
//! What a watcher has been sent is one number, its cursor, which lies in the socket's attachment. Everything it is sent is
//! read after that number, in pages, so a watcher that comes late, one that reads slowly, and one that is up to date are the
//! same. Nothing is kept for a slow one: while too much lies unread in its socket it is sent nothing, and one that reads
//! nothing at all is closed.
//!
//! The grant by which a socket was opened is looked at each time before something is sent: what was revoked gets nothing more.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use worker::{Delay, console_error};

use super::clock;
use super::object::Object;
use super::sockets::{Attached, LiveSocket, Sockets};
use crate::domain::limits::{
    CHANGES_KEPT_MAX, EVENT_SOCKETS_MAX, EVENTS_PAGE_MAX, SOCKET_STUCK_MS, SOCKET_UNREAD_BYTES_MAX,
};
use crate::http::socket::Goodbye;
use crate::hub::{self, FeedEvent};
use crate::owner::feed;

/// The tag of every watcher's socket.
pub const TAG: &str = "events";
/// The pause before somebody who did not get everything gets more: where that went on, and where it did not.
const AT_ONCE: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_millis(250);

/// One watcher.
struct Watcher {
    socket: LiveSocket,
    /// Tasks that changed without an event since it was last sent something; too many are one.
    changes: Vec<String>,
    too_many_changes: bool,
    /// Since when it has taken nothing of what lies unread, and how much that is.
    stuck: Option<(i64, u32)>,
}

impl Watcher {
    fn new(socket: LiveSocket) -> Self {
        Self { socket, changes: Vec::new(), too_many_changes: false, stuck: None }
    }

    fn cursor(&self) -> i64 {
        self.socket.attached.cursor
    }

    fn move_to(&mut self, seq: i64) {
        self.socket.attached.cursor = seq;
        self.socket.attach();
    }

    fn note_changes(&mut self, changed: &[&String]) {
        for id in changed {
            if self.changes.len() >= CHANGES_KEPT_MAX {
                self.too_many_changes = true;
                return;
            }
            if !self.changes.contains(*id) {
                self.changes.push((*id).clone());
            }
        }
    }

    fn has_changes(&self) -> bool {
        self.too_many_changes || !self.changes.is_empty()
    }

    /// Whether it has room for more. One that has not taken anything for too long is closed.
    fn has_room(&mut self, now: i64) -> bool {
        let unread = self.socket.unread_bytes();
        if unread <= SOCKET_UNREAD_BYTES_MAX {
            self.stuck = None;
            return true;
        }
        match self.stuck {
            Some((since, before)) if unread >= before => {
                if now - since >= SOCKET_STUCK_MS {
                    self.socket.close(Goodbye::Stuck);
                }
            }
            _ => self.stuck = Some((now, unread)),
        }
        false
    }

    fn send_changes(&mut self) {
        for id in std::mem::take(&mut self.changes) {
            self.socket.send(&feed::changed(Some(&id)));
        }
        if std::mem::take(&mut self.too_many_changes) {
            self.socket.send(&feed::changed(None));
        }
    }
}

/// What came of one turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Everybody has everything.
    Done,
    /// Somebody is to get more, and somebody got something.
    More,
    /// Somebody is to get more, and cannot take it now.
    Stuck,
}

/// Pages that were read in this turn, by the event before them: watchers that are up to date share one.
type Pages = Vec<(i64, Rc<[FeedEvent]>)>;

/// Everybody who watches.
pub struct Watching {
    sockets: Sockets,
    /// Unknown until the sockets were looked at.
    watchers: RefCell<Option<Vec<Watcher>>>,
    /// The newest event that was published.
    head: Cell<i64>,
    /// Whether somebody is being sent what was left over.
    is_catching_up: Cell<bool>,
}

impl Watching {
    /// Those of this object.
    pub fn new(sockets: Sockets) -> Self {
        Self { sockets, watchers: RefCell::default(), head: Cell::default(), is_catching_up: Cell::default() }
    }

    /// Opens a socket and begins to send. Where there are too many, the one that was heard from longest ago makes room.
    pub fn open(&self, object: &Rc<Object>, newest: i64, carried: Attached) -> Result<worker::Response, worker::Error> {
        let mut watchers = self.take();
        while watchers.len() >= EVENT_SOCKETS_MAX {
            let Some(oldest) = (0..watchers.len()).min_by_key(|at| watchers[*at].socket.heard_at()) else { break };
            watchers.swap_remove(oldest).socket.close(Goodbye::Displaced);
        }
        if watchers.is_empty() {
            self.head.set(newest);
        }
        let opened = self.sockets.open(carried, &[TAG]);
        if let Ok((socket, _)) = &opened {
            socket.send(&feed::hello(newest));
            watchers.push(Watcher::new(socket.clone()));
        }
        self.watchers.replace(Some(watchers));
        self.catch_up(object);
        Ok(opened?.1)
    }

    /// Sends what a command has written and changed. `changed` names tasks, also those that have a new event.
    pub fn publish(&self, object: &Rc<Object>, changed: &[String]) {
        let mut watchers = self.take();
        if !watchers.is_empty() {
            let told = self.newly_written(object);
            let untold: Vec<&String> = changed.iter().filter(|id| !told.contains(*id)).collect();
            for watcher in &mut watchers {
                watcher.note_changes(&untold);
            }
        }
        let is_nobody = watchers.is_empty();
        self.watchers.replace(Some(watchers));
        if !is_nobody && self.turn(object) != Turn::Done {
            self.catch_up(object);
        }
    }

    /// Takes over what a message of this client has changed in what its socket carries.
    pub fn replace(&self, socket: &LiveSocket) {
        let mut watchers = self.take();
        for watcher in watchers.iter_mut().filter(|watcher| watcher.socket.is(socket)) {
            watcher.socket = socket.clone();
        }
        self.watchers.replace(Some(watchers));
    }

    /// The watchers whose sockets are open. While the object was out of memory nothing was written, so the one that has the
    /// most has everything.
    fn take(&self) -> Vec<Watcher> {
        let known = self.watchers.take();
        let was_known = known.is_some();
        let mut watchers =
            known.unwrap_or_else(|| self.sockets.tagged(TAG).into_iter().map(Watcher::new).collect::<Vec<_>>());
        watchers.retain(|watcher| watcher.socket.is_open());
        if !was_known {
            self.head.set(watchers.iter().map(Watcher::cursor).max().unwrap_or(0));
        }
        watchers
    }

    /// Moves `head` over the events that were written since, and returns their tasks.
    fn newly_written(&self, object: &Rc<Object>) -> Vec<String> {
        let mut tasks = Vec::new();
        while let Some(events) = read(object, self.head.get()) {
            let Some(last) = events.last() else { break };
            self.head.set(last.seq);
            tasks.extend(events.iter().map(|event| event.task_id.clone()));
            if events.len() < EVENTS_PAGE_MAX {
                break;
            }
        }
        tasks
    }

    /// Sends everybody a page at most.
    fn turn(&self, object: &Rc<Object>) -> Turn {
        let (mut pages, mut watchers) = (Pages::new(), self.take());
        let (mut is_done, mut got_something) = (true, false);
        for watcher in &mut watchers {
            let before = watcher.cursor();
            let has_all = self.serve(object, watcher, &mut pages);
            is_done &= has_all;
            got_something |= watcher.cursor() > before;
        }
        watchers.retain(|watcher| watcher.socket.is_open());
        self.watchers.replace(Some(watchers));
        match (is_done, got_something) {
            (true, _) => Turn::Done,
            (false, true) => Turn::More,
            (false, false) => Turn::Stuck,
        }
    }

    /// Sends one watcher what it lacks, as far as it goes in one turn. Returns whether it has everything.
    fn serve(&self, object: &Rc<Object>, watcher: &mut Watcher, pages: &mut Pages) -> bool {
        let now = clock();
        let has_all = watcher.cursor() >= self.head.get();
        if has_all && !watcher.has_changes() {
            return true;
        }
        match is_permitted(object, watcher, now) {
            Some(true) => {}
            Some(false) => {
                watcher.socket.close(Goodbye::TokenEnded);
                return true;
            }
            None => return false,
        }
        if !watcher.has_room(now) {
            return !watcher.socket.is_open();
        }
        if !has_all {
            let Some(page) = page(object, watcher.cursor(), pages) else { return false };
            let mut sent = watcher.cursor();
            for event in page.iter() {
                if watcher.socket.unread_bytes() > SOCKET_UNREAD_BYTES_MAX {
                    break;
                }
                watcher.socket.send(&feed::event(event));
                sent = event.seq;
            }
            // A page that is empty although there should be more: those events were purged.
            watcher.move_to(if page.is_empty() { self.head.get() } else { sent });
        }
        let has_all = watcher.cursor() >= self.head.get();
        if has_all {
            watcher.send_changes();
        }
        has_all
    }

    /// Sends what is left over, with other events' turns in between, until everybody has everything.
    fn catch_up(&self, object: &Rc<Object>) {
        if self.is_catching_up.replace(true) {
            return;
        }
        let object = Rc::clone(object);
        let state = Rc::clone(&object);
        state.state.wait_until(async move {
            let watching = &object.broadcast.watching;
            loop {
                let pause = match super::guarded_now(|| watching.turn(&object)) {
                    Ok(Turn::Done) | Err(super::Panicked) => break,
                    Ok(Turn::More) => AT_ONCE,
                    Ok(Turn::Stuck) => LATER,
                };
                Delay::from(pause).await;
            }
            watching.is_catching_up.set(false);
        });
    }
}

/// A page of events; `None` if it cannot be read now.
fn read(object: &Rc<Object>, after: i64) -> Option<Vec<FeedEvent>> {
    match object.look(clock(), |hub| hub::events_after(hub, after, EVENTS_PAGE_MAX)) {
        Ok(Ok(events)) => Some(events),
        Ok(Err(error)) => {
            console_error!("the events cannot be read: {error}");
            None
        }
        Err(super::Panicked) => None,
    }
}

fn page(object: &Rc<Object>, after: i64, pages: &mut Pages) -> Option<Rc<[FeedEvent]>> {
    if let Some((_, page)) = pages.iter().find(|(before, _)| *before == after) {
        return Some(Rc::clone(page));
    }
    let page: Rc<[FeedEvent]> = read(object, after)?.into();
    pages.push((after, Rc::clone(&page)));
    Some(page)
}

/// Whether the token and the grant of a socket hold still; `None` if that cannot be known now.
fn is_permitted(object: &Rc<Object>, watcher: &Watcher, now: i64) -> Option<bool> {
    let Attached { grant, until, .. } = &watcher.socket.attached;
    if *until != 0 && *until <= now {
        return Some(false);
    }
    if grant.is_empty() {
        return Some(true);
    }
    match object.look(now, |hub| hub::is_granted(hub, grant)) {
        Ok(Ok(is_granted)) => Some(is_granted),
        Ok(Err(error)) => {
            console_error!("a grant cannot be read: {error}");
            None
        }
        Err(super::Panicked) => None,
    }
}
