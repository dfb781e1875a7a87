//! The Durable Object: one hub, one database, one alarm.
//!
//! A request is handled in one turn of the event loop: the command commits, the alarm is moved if the command calls for
//! it, those who wait are woken, and messages are on their way; only then is anything awaited. The answer does not wait for
//! the messages.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use worker::{DurableObject, Env, Socket, State, WebSocket, WebSocketIncomingMessage, console_error, durable_object};

use super::alarm::{self, Alarm};
use super::broadcast::{Broadcast, Published};
use super::database::ObjectDatabase;
use super::dispatch::{self, Dispatcher};
use super::outbound;
use super::{Panicked, RuntimeEntropy, clock, config, convert, entry, guarded, guarded_now, problems};
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
#[durable_object]
pub struct TaskHub {
    object: AssertUnwindSafe<Result<Rc<Object>, Rc<[SettingError]>>>,
}

impl DurableObject for TaskHub {
    fn new(state: State, env: Env) -> Self {
        Self { object: AssertUnwindSafe(config::settings(&env).map(|settings| Rc::new(Object::new(state, settings)))) }
    }

    async fn fetch(&self, request: worker::Request) -> worker::Result<worker::Response> {
        let object = match &*self.object {
            Ok(object) => Rc::clone(object),
            Err(errors) => return convert::response(problems::misconfigured(errors)),
        };
        match guarded(object.answer(request)).await {
            Ok(Answered::Plain(response)) => convert::response(response),
            Ok(Answered::Upgraded(response)) => Ok(response),
            Err(Panicked) => convert::response(problems::internal()),
        }
    }

    async fn alarm(&self) -> worker::Result<worker::Response> {
        match &*self.object {
            Ok(object) => alarm::ring(object).await?,
            Err(_) => console_error!("the alarm rang, but the settings are wrong: see /healthz"),
        }
        worker::Response::empty()
    }

    async fn websocket_message(&self, socket: WebSocket, _message: WebSocketIncomingMessage) -> worker::Result<()> {
        if let Ok(object) = &*self.object
            && guarded_now(|| object.broadcast.hear(&socket)).is_err()
        {
            console_error!("answering a message of a socket panicked");
        }
        Ok(())
    }

    async fn websocket_close(&self, socket: WebSocket, _code: usize, _: String, was_clean: bool) -> worker::Result<()> {
        // Who is gone is noticed when it is to be told something. The runtime leaves it to us to answer a close frame.
        if was_clean {
            let _ = socket.close(Some(NORMAL_CLOSE), Some(""));
        }
        Ok(())
    }

    async fn websocket_error(&self, _: WebSocket, _error: worker::Error) -> worker::Result<()> {
        Ok(())
    }

    async fn connect(&self, _: Socket) -> worker::Result<()> {
        Err(worker::Error::RustError("the hub takes requests only".to_owned()))
    }
}

/// What came of a request.
enum Answered {
    /// A response.
    Plain(Response),
    /// The runtime's response that hands over a socket, or the refusal of that.
    Upgraded(worker::Response),
}

impl From<Response> for Answered {
    fn from(response: Response) -> Self {
        Self::Plain(response)
    }
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

    /// Answers a request, waiting if its handler wants to.
    async fn answer(self: Rc<Self>, mut web_request: worker::Request) -> Answered {
        if let Err(reason) = self.open().await {
            return problems::cannot_open(&reason).into();
        }
        let mut request = convert::head(web_request.inner());
        #[cfg(feature = "test-hooks")]
        super::test_routes::follow_script(&request);
        let Ok(body) = web_request.bytes().await else { return problems::broken_body().into() };
        request.body = body;
        if request.path == entry::SWEEP_PATH {
            alarm::sweep_now(&self).await;
            return Response::empty(204).into();
        }
        #[cfg(feature = "test-hooks")]
        if let Some(response) = super::test_routes::answer(&self, &request).await {
            return response.into();
        }
        let signal = web_request.inner().signal();
        self.handle(request, || signal.aborted()).await
    }

    /// Calls the handler until it replies, reading the document that it asks for. A client that is gone is not served any
    /// more: it would claim a task and never learn of it.
    async fn handle(self: &Rc<Self>, mut request: Request, is_gone: impl Fn() -> bool) -> Answered {
        let mut spent = RowsUsed::default();
        for _ in 0..RESUMES_MAX {
            let before = self.database.rows_used();
            let outcome = self.run_at(&request.origin, clock(), |hub| {
                #[cfg(feature = "test-hooks")]
                super::test_routes::arm(&request);
                router::handle(hub, &request)
            });
            let after = self.database.rows_used();
            spent.read += after.read - before.read;
            spent.written += after.written - before.written;
            let mut wait = match outcome {
                Ok(Outcome::Reply(response)) => {
                    self.learn_origin(&request, response.status);
                    return with_rows(response, spent).into();
                }
                Ok(Outcome::Upgrade(socket)) => {
                    self.learn_origin(&request, SWITCHING);
                    return match self.broadcast.open(self, &socket) {
                        Ok(response) => Answered::Upgraded(response),
                        Err(error) => {
                            console_error!("no response for a socket: {error}");
                            problems::internal().into()
                        }
                    };
                }
                Ok(Outcome::Wait(wait)) => wait,
                Ok(Outcome::Fetch(fetch)) => {
                    let fetched = guarded(outbound::fetch(&fetch)).await;
                    request.fetched =
                        Some(fetched.unwrap_or_else(|Panicked| Fetched::Failed("reading it failed".to_owned())));
                    continue;
                }
                Ok(Outcome::Send(wanted)) => {
                    request.sent = Some(outbound::send_and_tell(&wanted).await);
                    continue;
                }
                Err(Panicked) => return problems::internal().into(),
            };
            if !self.broadcast.waiting.wait(&wait).await {
                wait.until = wait.until.min(clock());
            }
            if is_gone() {
                return Response::empty(CLIENT_GONE).into();
            }
            request.resumed = Some(wait);
        }
        console_error!("{} {} was resumed too often", request.method, request.path);
        problems::internal().into()
    }

    /// Remembers where the hub is reached, from requests only that proved themselves: executors are sent there with their
    /// keys.
    fn learn_origin(&self, request: &Request, status: u16) {
        let is_guarded = Route::of(&request.method, &request.path).is_ok_and(|route| route.access() != Access::Anyone);
        if is_guarded && status < 400 {
            self.origin.borrow_mut().clone_from(&request.origin);
        }
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
        let wrote = self.database.rows_used().written > written_before;
        if wrote {
            self.alarm.follow(self, || hub.next_due());
        } else if self.alarm.is_overdue(clock()) {
            alarm::mend(self);
        }
        self.set_going(hub.take_effects(), wrote);
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

/// With the test hooks, every answer says how many rows it took; otherwise nothing is added.
fn with_rows(response: Response, spent: RowsUsed) -> Response {
    if cfg!(feature = "test-hooks") {
        let RowsUsed { read, written } = spent;
        return response.with("x-rows-read", read.to_string()).with("x-rows-written", written.to_string());
    }
    response
}
