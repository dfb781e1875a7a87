//! The Durable Object: one hub, one database, one alarm.
//!
//! A request is handled in one turn of the event loop: the command commits, the alarm is moved if the command calls for
//! it, those who wait are woken, and messages are on their way; only then is anything awaited. The answer does not wait for
//! the messages.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use js_sys::futures::{JsFuture, future_to_promise};
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::worker_sys::DurableObjectState;
use worker::{Env, State, WebSocket, console_error, web_sys};

use super::alarm::{self, Alarm};
use super::broadcast::{Broadcast, Published};
use super::database::ObjectDatabase;
use super::dispatch::{self, Dispatcher};
use super::glue::Answer;
use super::outbound;
use super::streaming;
use super::{Panicked, RuntimeEntropy, clock, config, convert, entry, glue, guarded, guarded_now, problems};
use crate::domain::settings::{SettingError, Settings};
use crate::http::message::{Fetched, Outcome, Request, Response};
use crate::http::route::{Access, Route};
use crate::http::router;
use crate::hub::{Effects, Hub, Presence};
use crate::store::database::{Database as _, RowsUsed};
use crate::store::migrate::migrate;

/// Times that one call may be resumed; far more than any call needs.
const RESUMES_MAX: usize = 1_000;
/// Status of an answer that nobody will read, as proxies log it.
const CLIENT_GONE: u16 = 499;
/// Code of a close that is in order.
const NORMAL_CLOSE: u16 = 1_000;
/// Status of an answer that hands over a socket.
const SWITCHING: u16 = 101;

/// How long a database that could not be opened is left alone, in milliseconds.
const OPEN_AGAIN_MS: i64 = 10_000;

/// Why the database cannot be used, and when that is looked at again.
struct Unusable {
    reason: String,
    try_again_at: i64,
}

/// The class that the runtime instantiates. What it holds is safe to unwind through, because a command that panics is
/// rolled back and the rest is cells that are never left half written.
#[wasm_bindgen]
pub struct TaskHub {
    object: AssertUnwindSafe<Result<Rc<Object>, Rc<[SettingError]>>>,
    answer: AssertUnwindSafe<Closure<Answer>>,
}

#[wasm_bindgen]
impl TaskHub {
    /// Called by the runtime when the object is needed.
    #[wasm_bindgen(constructor)]
    pub fn new(state: DurableObjectState, env: Env) -> Self {
        let settings = config::settings(&env);
        let object = settings.map(|settings| Rc::new(Object::new(State::from(state), settings)));
        let answerer = AssertUnwindSafe(object.clone());
        let answer = move |web_request: web_sys::Request, head: String, body: Option<Vec<u8>>, is_unread: bool| {
            let answerer: &AssertUnwindSafe<_> = &answerer;
            match &**answerer {
                Ok(object) => guarded_now(|| object.answer(web_request, &head, body, is_unread))
                    .unwrap_or_else(|Panicked| convert::response(&problems::internal())),
                Err(errors) => convert::response(&problems::misconfigured(errors)),
            }
        };
        Self { object: AssertUnwindSafe(object), answer: AssertUnwindSafe(Closure::new(answer)) }
    }

    /// Called by the runtime with every request.
    pub fn fetch(&self, web_request: &web_sys::Request) -> Promise {
        glue::serve(web_request, &self.answer)
    }

    /// Called by the runtime when the alarm rings.
    pub fn alarm(&self) -> Promise {
        let object = self.object.0.clone();
        let ringing = async move {
            match object {
                Ok(object) => alarm::ring(&object).await.map_err(JsValue::from)?,
                Err(_) => console_error!("the alarm rang, but the settings are wrong: see /healthz"),
            }
            Ok(JsValue::UNDEFINED)
        };
        future_to_promise(AssertUnwindSafe(ringing))
    }

    /// Called by the runtime with every message of a socket.
    #[wasm_bindgen(js_name = webSocketMessage)]
    pub fn websocket_message(&self, socket: web_sys::WebSocket, _message: JsValue) {
        if let Ok(object) = &*self.object
            && guarded_now(|| object.broadcast.hear(&WebSocket::from(socket))).is_err()
        {
            console_error!("answering a message of a socket panicked");
        }
    }

    /// Called by the runtime when the other side closes a socket. Who is gone is noticed when it is to be told something; but
    /// the runtime leaves it to us to answer a close frame.
    #[wasm_bindgen(js_name = webSocketClose)]
    pub fn websocket_close(&self, socket: web_sys::WebSocket, _code: u16, _reason: JsValue, was_clean: bool) {
        if was_clean {
            let _ = WebSocket::from(socket).close(Some(NORMAL_CLOSE), Some(""));
        }
    }

    /// Called by the runtime when a socket breaks, which is noticed when it is to be told something.
    #[wasm_bindgen(js_name = webSocketError)]
    pub fn websocket_error(&self, _socket: web_sys::WebSocket, _error: JsValue) {}
}

/// Everything that lives as long as the object does in memory.
pub struct Object {
    pub(super) state: State,
    pub(super) database: ObjectDatabase,
    pub(super) alarm: Alarm,
    #[cfg(feature = "test-hooks")]
    pub(super) loaded_at: i64,
    settings: Rc<Settings>,
    presence: Presence,
    pub(super) broadcast: Broadcast,
    pub(super) dispatcher: Dispatcher,
    /// Whether the database can be used; unknown before the first event.
    opened: RefCell<Option<Result<(), Unusable>>>,
    /// Where the hub was last reached, for messages that the alarm sends.
    origin: RefCell<String>,
}

impl Object {
    fn new(state: State, settings: Rc<Settings>) -> Self {
        let broadcast = Broadcast::new(&state);
        let listening = Rc::clone(&broadcast.listening);
        Self {
            database: ObjectDatabase::new(&state),
            state,
            alarm: Alarm::default(),
            #[cfg(feature = "test-hooks")]
            loaded_at: clock(),
            settings,
            presence: Presence::of_sockets(move |executor| listening.is_listening(executor)),
            broadcast,
            dispatcher: Dispatcher::default(),
            opened: RefCell::default(),
            origin: RefCell::default(),
        }
    }

    /// Whether the database is known to be usable.
    fn is_open(&self) -> bool {
        matches!(&*self.opened.borrow(), Some(Ok(())))
    }

    /// Brings the database to the present schema and finds out about the alarm, once. A failure is answered for a while
    /// before the next try.
    pub async fn open(&self) -> Result<(), String> {
        match &*self.opened.borrow() {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) if clock() < error.try_again_at => return Err(error.reason.clone()),
            _ => {}
        }
        let migrated = match guarded_now(|| migrate(&self.database)) {
            Ok(Ok(_version)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(Panicked) => Err("its migration panicked".to_owned()),
        };
        let opened = migrated.map_err(|reason| {
            console_error!("the database cannot be opened: {reason}");
            Unusable { reason, try_again_at: clock() + OPEN_AGAIN_MS }
        });
        let result = opened.as_ref().map(|&()| ()).map_err(|error| error.reason.clone());
        *self.opened.borrow_mut() = Some(opened);
        self.alarm.learn(&self.state).await;
        result
    }

    /// Answers a request: at once if its handler replies in its first turn, otherwise by a promise.
    fn answer(
        self: &Rc<Self>,
        web_request: web_sys::Request,
        head: &str,
        body: Option<Vec<u8>>,
        is_unread: bool,
    ) -> JsValue {
        let mut request = convert::parse_head(head);
        match body {
            Some(body) => request.body = body,
            None if is_unread => return later(Rc::clone(self).answer_unread(web_request, request)),
            None => return convert::response(&problems::broken_body()),
        }
        self.answer_read(web_request, request)
    }

    /// Answers a request whose body is unread: an upload is read piece by piece, anything else as usual.
    async fn answer_unread(self: Rc<Self>, web_request: web_sys::Request, mut request: Request) -> JsValue {
        if Route::of(&request.method, &request.path).is_ok_and(|route| route.is_upload()) {
            if let Err(reason) = self.open().await {
                return convert::response(&problems::cannot_open(&reason));
            }
            #[cfg(feature = "test-hooks")]
            {
                super::test_routes::follow_script(&request);
                super::test_routes::count();
            }
            return streaming::take_in(&self, &web_request, request).await;
        }
        let read = async { JsFuture::from(web_request.array_buffer()?).await };
        match read.await {
            Ok(body) => request.body = Uint8Array::new(&body).to_vec(),
            Err(_) => return convert::response(&problems::broken_body()),
        }
        let answer = self.answer_read(web_request, request);
        JsFuture::from(Promise::resolve(&answer)).await.unwrap_or(answer)
    }

    fn answer_read(self: &Rc<Self>, web_request: web_sys::Request, request: Request) -> JsValue {
        #[cfg(feature = "test-hooks")]
        super::test_routes::follow_script(&request);
        if !self.is_open() || !is_ordinary(&request) {
            return later(Rc::clone(self).answer_special(web_request, request));
        }
        self.handle(web_request, request)
    }

    /// Answers the first requests after a start, and those that are no calls of the hub.
    async fn answer_special(self: Rc<Self>, web_request: web_sys::Request, request: Request) -> JsValue {
        if let Err(reason) = self.open().await {
            return convert::response(&problems::cannot_open(&reason));
        }
        if request.path == entry::SWEEP_PATH {
            alarm::sweep_now(&self).await;
            return convert::response(&Response::empty(204));
        }
        #[cfg(feature = "test-hooks")]
        if super::test_routes::is_test_route(&request) {
            return convert::response(&super::test_routes::answer(&self, &request).await);
        }
        let answer = self.handle(web_request, request);
        JsFuture::from(Promise::resolve(&answer)).await.unwrap_or(answer)
    }

    /// Lets the handler reply, now or by a promise.
    fn handle(self: &Rc<Self>, web_request: web_sys::Request, request: Request) -> JsValue {
        #[cfg(feature = "test-hooks")]
        super::test_routes::count();
        let mut spent = RowsUsed::default();
        match self.turn(&request, &mut spent) {
            Outcome::Reply(response) => convert::response(&with_rows(response, spent)),
            Outcome::Upgrade(socket) => self.broadcast.open(self, &socket),
            Outcome::Download(head, slice) => {
                let head = with_rows(head, spent);
                convert::taken(self.database.send_out(head.status, &convert::lines(&head), &slice))
            }
            outcome => later(Rc::clone(self).go_on(web_request, request, outcome, spent)),
        }
    }

    /// One turn of the handler.
    pub(super) fn turn(self: &Rc<Self>, request: &Request, spent: &mut RowsUsed) -> Outcome {
        let before = self.database.rows_used();
        let outcome = self.run_at(&self.origin_for(request), clock(), |hub| {
            #[cfg(feature = "test-hooks")]
            super::test_routes::arm(request);
            router::handle(hub, request)
        });
        let after = self.database.rows_used();
        spent.read += after.read - before.read;
        spent.written += after.written - before.written;
        let outcome = outcome.unwrap_or_else(|Panicked| Outcome::Reply(problems::internal()));
        match &outcome {
            Outcome::Reply(response) => self.learn_origin(request, response.status),
            Outcome::Upgrade(_) => self.learn_origin(request, SWITCHING),
            Outcome::Wait(_) | Outcome::Fetch(_) | Outcome::Send(_) => {}
            Outcome::Receive(_) | Outcome::Download(..) => {}
        }
        outcome
    }

    /// Calls the handler again until it replies, after it has waited or read the document that it asked for. A client that
    /// is gone is not served any more: it would claim a task and never learn of it.
    async fn go_on(
        self: Rc<Self>,
        web_request: web_sys::Request,
        mut request: Request,
        mut outcome: Outcome,
        mut spent: RowsUsed,
    ) -> JsValue {
        let signal = web_request.signal();
        for _ in 0..RESUMES_MAX {
            match outcome {
                Outcome::Reply(response) => return convert::response(&with_rows(response, spent)),
                Outcome::Upgrade(socket) => return self.broadcast.open(&self, &socket),
                Outcome::Wait(mut wait) => {
                    if !self.broadcast.waiting.wait(&wait).await {
                        wait.until = wait.until.min(clock());
                    }
                    if signal.aborted() {
                        return convert::response(&Response::empty(CLIENT_GONE));
                    }
                    request.resumed = Some(wait);
                }
                Outcome::Fetch(fetch) => {
                    let fetched = guarded(outbound::fetch(&fetch)).await;
                    request.fetched =
                        Some(fetched.unwrap_or_else(|Panicked| Fetched::Failed("reading it failed".to_owned())));
                }
                Outcome::Send(wanted) => request.sent = Some(outbound::send_and_tell(&wanted).await),
                Outcome::Receive(_) | Outcome::Download(..) => break,
            }
            outcome = self.turn(&request, &mut spent);
        }
        console_error!("{} {} was not answered, or resumed too often", request.method, request.path);
        convert::response(&problems::internal())
    }

    /// Remembers where the hub is reached, from requests only that proved themselves: executors are sent there with their
    /// keys.
    fn learn_origin(&self, request: &Request, status: u16) {
        if status < 400 && matches!(access(request), Some(Access::Client | Access::Owner)) {
            self.origin.borrow_mut().clone_from(&request.origin);
        }
    }

    /// Where the hub was reached, for what a request brings about. Of an executor the hub does not take that: others are sent
    /// there with their keys, and the owner with signed links.
    fn origin_for(&self, request: &Request) -> String {
        let learned = self.origin.borrow();
        let is_executor = access(request) == Some(Access::Executor);
        if is_executor && !learned.is_empty() { learned.clone() } else { request.origin.clone() }
    }

    /// Runs commands that no request asked for.
    pub fn run<T>(self: &Rc<Self>, now: i64, body: impl FnOnce(&Hub<'_>) -> T) -> Result<T, Panicked> {
        let origin = self.origin.borrow().clone();
        self.run_at(&origin, now, body)
    }

    /// Runs commands in one turn, and sets going what they want done outside. `origin` is where the hub was reached: a request
    /// that waited must not see another one's, for which its token is not good.
    fn run_at<T>(self: &Rc<Self>, origin: &str, now: i64, body: impl FnOnce(&Hub<'_>) -> T) -> Result<T, Panicked> {
        let written_before = self.database.rows_used().written;
        let hub = Hub::new(&self.database, &self.settings, &self.presence, &RuntimeEntropy, now, origin);
        let result = guarded_now(|| body(&hub));
        let effects = hub.take_effects();
        let wrote = self.database.rows_used().written > written_before;
        let timer = self.database.timers().take();
        if timer.is_some() || (wrote && self.alarm.is_overdue(clock())) {
            self.alarm.follow(self, timer, || hub.next_due());
        } else if self.alarm.is_overdue(clock()) {
            alarm::mend(self);
        }
        self.set_going(effects, wrote);
        result
    }

    /// Looks something up, which needs nothing done outside.
    pub fn look<T>(&self, now: i64, body: impl FnOnce(&Hub<'_>) -> T) -> Result<T, Panicked> {
        let origin = self.origin.borrow().clone();
        let hub = Hub::new(&self.database, &self.settings, &self.presence, &RuntimeEntropy, now, &origin);
        guarded_now(|| body(&hub))
    }

    fn set_going(self: &Rc<Self>, effects: Effects, wrote: bool) {
        let Effects { changed, ready, outbox, cut_off } = effects;
        let published = Published { changed: &changed, ready: &ready, cut_off: &cut_off, wrote };
        if guarded_now(|| self.broadcast.publish(self, &published)).is_err() {
            console_error!("telling what a command changed panicked");
        }
        #[cfg(feature = "test-hooks")]
        if super::test_routes::scripted_now().is_some() {
            return;
        }
        if !outbox.is_empty() {
            dispatch::send(self, outbox);
        }
    }
}

/// Who may make such a request; `None` if nobody can.
fn access(request: &Request) -> Option<Access> {
    Route::of(&request.method, &request.path).ok().map(|route| route.access())
}

/// Whether the request is a call of the hub, and no knock of the scheduled event or of a test.
fn is_ordinary(request: &Request) -> bool {
    #[cfg(feature = "test-hooks")]
    if super::test_routes::is_test_route(request) {
        return false;
    }
    request.path != entry::SWEEP_PATH
}

/// The promise of an answer that takes more than one turn.
fn later(answer: impl Future<Output = JsValue> + 'static) -> JsValue {
    let answer =
        async { Ok(guarded(answer).await.unwrap_or_else(|Panicked| convert::response(&problems::internal()))) };
    future_to_promise(AssertUnwindSafe(answer)).into()
}

/// With the test hooks, every answer says how many rows it took; otherwise nothing is added.
pub(super) fn with_rows(response: Response, spent: RowsUsed) -> Response {
    if cfg!(feature = "test-hooks") {
        let RowsUsed { read, written } = spent;
        return response.with("x-rows-read", read.to_string()).with("x-rows-written", written.to_string());
    }
    response
}
