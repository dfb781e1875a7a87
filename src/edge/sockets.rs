//! The object's hibernating WebSockets, and what each carries with it.
//!
//! Between events the runtime may take the object out of memory and keep its sockets. What must survive that lies in the
//! socket's attachment; tags find sockets again. The bindings' own functions are not used where they panic on an error of the
//! runtime, or where the runtime can do more than they know: when a socket was last heard from, and how much of what it was
//! sent still lies unread. It refuses to know what a socket is for.

use std::cell::Cell;

use wasm_bindgen::prelude::*;
use worker::{State, WebSocketPair, WebSocketRequestResponsePair, console_error};

use super::clock;
use crate::domain::limits::{SOCKET_ALIVE_MS, SOCKET_MISTAKES_MAX};
use crate::http::socket::{Goodbye, PING, PONG, mistake};

#[wasm_bindgen]
extern "C" {
    /// The object's state, for its sockets.
    #[derive(Clone)]
    type SocketState;

    #[wasm_bindgen(method, catch, js_name = acceptWebSocket)]
    fn accept(this: &SocketState, socket: &RawSocket, tags: Vec<JsValue>) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch, js_name = getWebSockets)]
    fn tagged(this: &SocketState, tag: &str) -> Result<Vec<RawSocket>, JsValue>;

    #[wasm_bindgen(method, catch, js_name = setWebSocketAutoResponse)]
    fn answer_pings(this: &SocketState, pair: &WebSocketRequestResponsePair) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch, js_name = getWebSocketAutoResponseTimestamp)]
    fn pinged_at(this: &SocketState, socket: &RawSocket) -> Result<Option<js_sys::Date>, JsValue>;

    #[derive(Clone)]
    type RawSocket;

    #[wasm_bindgen(method, catch)]
    fn send(this: &RawSocket, text: &str) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn close(this: &RawSocket, code: u16, reason: &str) -> Result<(), JsValue>;

    #[wasm_bindgen(method, getter, js_name = readyState)]
    fn ready_state(this: &RawSocket) -> u16;

    #[wasm_bindgen(method, getter, js_name = bufferedAmount)]
    fn buffered_amount(this: &RawSocket) -> f64;

    #[wasm_bindgen(method, catch, js_name = serializeAttachment)]
    fn attach(this: &RawSocket, text: &str) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch, js_name = deserializeAttachment)]
    fn attached(this: &RawSocket) -> Result<JsValue, JsValue>;
}

/// `readyState` of a socket that is neither closing nor closed.
const OPEN: u16 = 1;

/// What a socket carries through hibernation: 2,048 bytes at most, as lines of text, which take far less code to read than JSON.
#[derive(Clone, Default)]
pub struct Attached {
    /// Tells it from those accepted in the same millisecond.
    pub(super) number: i64,
    /// When it was accepted, in milliseconds.
    pub accepted_at: i64,
    /// Messages that the hub did not know.
    pub(super) mistakes: i64,
    /// The last event that was sent to somebody who watches.
    pub cursor: i64,
    /// When the token of somebody who watches ends, in milliseconds; 0 if it does not.
    pub until: i64,
    /// By which grant; empty with the owner's own token.
    pub grant: String,
    /// Who listens: an executor's name. Empty if it is no executor.
    pub executor: String,
    /// Where it finds work.
    pub addresses: Vec<String>,
}

impl Attached {
    fn write(&self) -> String {
        let numbers = [self.number, self.accepted_at, self.mistakes, self.cursor, self.until].map(|n| n.to_string());
        let [texts, addresses] = [[self.grant.as_str(), self.executor.as_str()].join("\n"), self.addresses.join("\n")];
        [numbers.join("\n"), texts, addresses].join("\n")
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let mut number = || lines.next()?.parse().ok();
        let [number, accepted_at, mistakes, cursor, until] = [number()?, number()?, number()?, number()?, number()?];
        let (grant, executor) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let addresses = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Some(Self { number, accepted_at, mistakes, cursor, until, grant, executor, addresses })
    }
}

/// An open socket.
#[derive(Clone)]
pub struct LiveSocket {
    raw: RawSocket,
    state: SocketState,
    /// What it carries; `attach` keeps a change.
    pub attached: Attached,
}

impl LiveSocket {
    /// Whether it is neither closing nor closed.
    pub fn is_open(&self) -> bool {
        self.raw.ready_state() == OPEN
    }

    /// How much of what it was sent still lies here, in bytes.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a runtime that does not say gives 0")]
    pub fn unread_bytes(&self) -> u32 {
        self.raw.buffered_amount() as u32
    }

    /// When its client was last heard from: its newest ping, or when it was accepted.
    #[expect(clippy::cast_possible_truncation, reason = "whole milliseconds, far below 2^53")]
    pub fn heard_at(&self) -> i64 {
        let pinged_at = self.state.pinged_at(&self.raw).ok().flatten().map(|date| date.get_time() as i64);
        pinged_at.unwrap_or(0).max(self.attached.accepted_at)
    }

    /// Whether it has been heard from lately.
    pub fn is_alive(&self, now: i64) -> bool {
        now - self.heard_at() < SOCKET_ALIVE_MS
    }

    /// Sends a text. Whether it arrives is not known; a socket that is gone closes by itself.
    pub fn send(&self, text: &str) {
        if let Err(error) = self.raw.send(text) {
            console_error!("a socket takes no message: {error:?}");
        }
    }

    /// Closes it and says why.
    pub fn close(&self, why: Goodbye) {
        if let Err(error) = self.raw.close(why.code(), why.reason()) {
            console_error!("a socket cannot be closed: {error:?}");
        }
    }

    /// Makes what it carries survive hibernation.
    pub fn attach(&self) {
        if let Err(error) = self.raw.attach(&self.attached.write()) {
            console_error!("a socket keeps no attachment: {error:?}");
        }
    }

    /// Whether both are the same socket.
    pub fn is(&self, other: &Self) -> bool {
        let identity = |socket: &Self| (socket.attached.accepted_at, socket.attached.number);
        identity(self) == identity(other)
    }

    /// Answers a message that is no ping, and closes the socket if there were too many. It is the runtime that answers pings.
    pub fn correct(&mut self) {
        self.attached.mistakes += 1;
        if self.attached.mistakes >= SOCKET_MISTAKES_MAX {
            return self.close(Goodbye::Mistakes);
        }
        self.attach();
        self.send(&mistake());
    }
}

/// All sockets of the object.
#[derive(Clone)]
pub struct Sockets {
    state: SocketState,
}

impl Sockets {
    /// Those of this object.
    pub fn new(state: &State) -> Self {
        Self { state: JsValue::from(state.as_raw()).unchecked_into() }
    }

    /// The open ones with this tag. One that cannot be read is left out.
    pub fn tagged(&self, tag: &str) -> Vec<LiveSocket> {
        let found = self.state.tagged(tag).unwrap_or_else(|error| {
            console_error!("the sockets are not known: {error:?}");
            vec![]
        });
        found.into_iter().filter_map(|raw| self.live(raw)).filter(LiveSocket::is_open).collect()
    }

    /// How many there are with this tag, those included that are closing but whose clients have not gone.
    pub fn count(&self, tag: &str) -> usize {
        self.state.tagged(tag).map_or(0, |found| found.len())
    }

    /// The socket of which the runtime tells an event.
    pub fn of_event(&self, socket: &worker::WebSocket) -> Option<LiveSocket> {
        let socket: &worker::web_sys::WebSocket = socket.as_ref();
        self.live(JsValue::from(socket).unchecked_into())
    }

    fn live(&self, raw: RawSocket) -> Option<LiveSocket> {
        let text = raw.attached().ok()?.as_string()?;
        let attached = Attached::read(&text)?;
        Some(LiveSocket { raw, state: self.state.clone(), attached })
    }

    /// Accepts a new socket that carries this under these tags. Returns it, and the response that hands the other end to the
    /// client.
    pub fn open(&self, attached: Attached, tags: &[&str]) -> Result<(LiveSocket, worker::Response), worker::Error> {
        thread_local! {
            static NUMBER: Cell<i64> = const { Cell::new(0) };
        }
        let pair = WebSocketPair::new()?;
        self.state.answer_pings(&WebSocketRequestResponsePair::new(PING, PONG)?)?;
        let server: &worker::web_sys::WebSocket = pair.server.as_ref();
        let raw: RawSocket = JsValue::from(server).unchecked_into();
        self.state.accept(&raw, tags.iter().map(|tag| JsValue::from_str(tag)).collect())?;
        let number = NUMBER.replace(NUMBER.get() + 1);
        let attached = Attached { number, accepted_at: clock(), ..attached };
        let socket = LiveSocket { raw, state: self.state.clone(), attached };
        socket.attach();
        Ok((socket, worker::Response::from_websocket(pair.client)?))
    }
}
