//! The object's hibernating WebSockets, and what each carries with it.
//!
//! Between events the runtime may take the object out of memory and keep its sockets. What must survive that lies in the
//! socket's attachment; tags find sockets again. The bindings' own functions are not used where they panic on an error of the
//! runtime, or where the runtime can do more than they know: when a socket was last heard from, and how much of what it was
//! sent still lies unread. It refuses to know what a socket is for.

use std::cell::Cell;

use serde::{Deserialize, Serialize};
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

/// What a socket carries through hibernation. The runtime's limit is 2,048 bytes, hence the short names; it is flat because
/// nested forms take thousands of bytes to read.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Attached {
    /// Tells it from those accepted in the same millisecond.
    #[serde(rename = "n")]
    pub(super) number: u32,
    /// When it was accepted, in milliseconds.
    #[serde(rename = "t")]
    pub accepted_at: i64,
    /// Messages that the hub did not know.
    #[serde(rename = "m")]
    pub(super) mistakes: u32,
    /// Who listens: an executor's name. Empty if it is no executor.
    #[serde(rename = "x")]
    pub executor: String,
    /// Where it finds work.
    #[serde(rename = "a")]
    pub addresses: Vec<String>,
    /// The last event that was sent to somebody who watches.
    #[serde(rename = "c")]
    pub cursor: i64,
    /// By which grant; empty with the owner's own token.
    #[serde(rename = "g")]
    pub grant: String,
    /// When its token ends, in milliseconds; 0 if it does not.
    #[serde(rename = "u")]
    pub until: i64,
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
        let text = serde_json::to_string(&self.attached).unwrap_or_default();
        if let Err(error) = self.raw.attach(&text) {
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
        let attached = serde_json::from_str(&text).ok()?;
        Some(LiveSocket { raw, state: self.state.clone(), attached })
    }

    /// Accepts a new socket that carries this under these tags. Returns it, and the response that hands the other end to the
    /// client.
    pub fn open(&self, attached: Attached, tags: &[&str]) -> Result<(LiveSocket, worker::Response), worker::Error> {
        thread_local! {
            static NUMBER: Cell<u32> = const { Cell::new(0) };
        }
        let pair = WebSocketPair::new()?;
        self.state.answer_pings(&WebSocketRequestResponsePair::new(PING, PONG)?)?;
        let server: &worker::web_sys::WebSocket = pair.server.as_ref();
        let raw: RawSocket = JsValue::from(server).unchecked_into();
        self.state.accept(&raw, tags.iter().map(|tag| JsValue::from_str(tag)).collect())?;
        let number = NUMBER.replace(NUMBER.get().wrapping_add(1));
        let attached = Attached { number, accepted_at: clock(), ..attached };
        let socket = LiveSocket { raw, state: self.state.clone(), attached };
        socket.attach();
        Ok((socket, worker::Response::from_websocket(pair.client)?))
    }
}
