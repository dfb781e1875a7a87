//! What only a build with `test-hooks` serves: panics and a clock by header, and the routes under `/__test/`.
//!
//! `x-test-panic` names the point at which the request panics. `x-test-now` (milliseconds) and `x-test-entropy` (a seed)
//! take the place of clock and chance for the request, so that a scripted run can be compared with another one; no wakes
//! are sent then. `x-test-stall` (milliseconds) is how long the body of the upload that brings it may stand still.
//!
//! | route | does |
//! |---|---|
//! | `POST /__test/tick {"now": ms}` | handles the timers that are due at that time, and sends a batch of the messages that are |
//! | `GET /__test/alarm` | when the alarm is set: `{armed_at}` |
//! | `POST /__test/lose-alarm` | removes the alarm behind the object's back |
//! | `GET /__test/rows` | rows read and written since the object was loaded, alarms included |
//! | `GET /__test/requests` | requests that reached the object since it was loaded, but for those of this table |
//! | `GET /__test/due` | whether a timer has run out, and how many tasks a batch of the sweep takes: `{due, batch}` |
//! | `POST /__test/history {"tasks": n, "state": "finished"}` | adds n tasks that are `finished`, `ready` or `expired` |
//! | `GET /__test/sockets` | open sockets, and how long the object has been in memory: `{listening, events, unread_bytes_max, in_memory_ms}` |
//! | any `/__test/hang` | never answers |

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::object::Object;
use super::{Panicked, clock};
use super::{listening, watching};
use crate::domain::limits::{SWEEP_BATCH_MAX, SWEEP_BATCHES_MAX};
use crate::domain::secret::sha256_hex;
use crate::hooks;
use crate::http::message::{Request, Response};
use crate::hub;
use crate::store::database::Database as _;
use crate::store::history::{self, Fill};
use crate::store::tasks;

const PREFIX: &str = "/__test/";
const PANIC: &str = "x-test-panic";
const STALL: &str = "x-test-stall";
const NOW: &str = "x-test-now";
const ENTROPY: &str = "x-test-entropy";

/// Clock and chance of a scripted request.
struct Script {
    now: i64,
    seed: String,
    fills: Cell<u32>,
}

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
}

/// Takes clock and chance from the request's headers until the next request; scripted requests come one at a time.
pub fn follow_script(request: &Request) {
    let now = now_of(request);
    let seed = request.header(ENTROPY).unwrap_or_default().to_owned();
    SCRIPT.set(now.map(|now| Script { now, seed, fills: Cell::default() }));
}

/// The clock that a request brings. The front judges by it whether a token has expired, and leaves the script alone: the
/// object may be at work still on the one before.
pub fn now_of(request: &Request) -> Option<i64> {
    request.header(NOW)?.parse().ok()
}

/// How long the body of this upload may stand still, in milliseconds.
pub fn stall_of(request: &Request) -> Option<u32> {
    request.header(STALL)?.parse().ok()
}

/// The scripted clock, if there is one.
pub fn scripted_now() -> Option<i64> {
    SCRIPT.with_borrow(|script| script.as_ref().map(|script| script.now))
}

/// Fills `bytes` as the script says; false if there is none. The native side of the comparison does the same.
pub fn scripted_fill(bytes: &mut [u8]) -> bool {
    SCRIPT.with_borrow(|script| {
        let Some(Script { seed, fills, .. }) = script else { return false };
        let digits = sha256_hex(&format!("{seed}/{}", fills.replace(fills.get() + 1)));
        for (byte, digit) in bytes.iter_mut().zip(digits.bytes().cycle()) {
            *byte = digit;
        }
        true
    })
}

/// Whether this is a test route, which the front passes on as it is.
pub fn is_test_route(request: &Request) -> bool {
    request.path.starts_with(PREFIX)
}

/// Panics in the front if the request says so.
pub fn panic_in_front(request: &Request) {
    if request.header(PANIC) == Some("front") {
        hooks::arm("front");
        hooks::panic_point("front");
    }
}

/// Arms the point that the request names for the handler that runs next, and takes back what an earlier one left.
pub fn arm(request: &Request) {
    for point in ["handler", "transaction"] {
        hooks::disarm(point);
    }
    if let Some(point @ ("handler" | "transaction" | "alarm")) = request.header(PANIC) {
        hooks::arm(point);
    }
    hooks::panic_point("handler");
}

/// Counts a request that reached the object.
pub fn count() {
    REQUESTS.set(REQUESTS.get() + 1);
}

/// The answer to a test route.
pub async fn answer(object: &Rc<Object>, request: &Request) -> Response {
    let route = request.path.strip_prefix(PREFIX).unwrap_or_default();
    let body: Json = serde_json::from_slice(&request.body).unwrap_or(Json::Null);
    let answer = match route {
        "hang" => std::future::pending().await,
        "alarm" => match object.state.storage().get_alarm().await {
            Ok(at) => json!({ "armed_at": at }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "lose-alarm" => match object.state.storage().delete_alarm().await {
            Ok(()) => json!({}),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "rows" => {
            let used = object.database.rows_used();
            json!({ "read": used.read, "written": used.written })
        }
        "sockets" => json!({
            "listening": object.broadcast.unread_bytes(listening::TAG).len(),
            "events": object.broadcast.unread_bytes(watching::TAG).len(),
            "unread_bytes_max": object.broadcast.unread_bytes(watching::TAG).into_iter().max(),
            "in_memory_ms": clock() - object.loaded_at,
        }),
        "requests" => json!({ "count": REQUESTS.get() }),
        "tick" => tick(object, body["now"].as_i64().unwrap_or_else(clock)),
        "due" => match tasks::due(&object.database, clock(), 1) {
            Ok(due) => json!({ "due": !due.is_empty(), "batch": SWEEP_BATCH_MAX }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "history" => fill(object, &body),
        _ => return Response::json(404, &json!({ "error": "no such test route" })),
    };
    Response::json(200, &answer)
}

fn tick(object: &Rc<Object>, now: i64) -> Json {
    let mut handled = 0;
    for _ in 0..SWEEP_BATCHES_MAX {
        match object.run(now, hub::sweep) {
            Ok(Ok(swept)) => {
                handled += swept.handled;
                if !swept.more {
                    break;
                }
            }
            Ok(Err(error)) => return json!({ "handled": handled, "error": error.to_string() }),
            Err(Panicked) => return json!({ "handled": handled, "error": "panicked" }),
        }
    }
    while let Ok(Ok(dispatched)) = object.run(now, |hub| hub::dispatch(hub, object.dispatcher.room()))
        && dispatched.more
    {}
    let mut after = String::new();
    while let Ok(Ok(Some(next))) = object.run(now, |hub| hub::purge(hub, &after)) {
        after = next;
    }
    let mut forgotten = object.run(now, hub::purge_files);
    while matches!(forgotten, Ok(Ok(true))) {
        forgotten = object.run(now, hub::purge_files);
    }
    let watched = object.run(now, hub::watch_silence);
    let dispatched = object.run(now, |hub| hub::dispatch(hub, object.dispatcher.room()));
    if !matches!((forgotten, watched, dispatched), (Ok(Ok(_)), Ok(Ok(())), Ok(Ok(_)))) {
        return json!({ "handled": handled, "error": "files or the outbox" });
    }
    let due = object.run(now, |hub| hub.next_due());
    json!({ "handled": handled, "next_due": due.ok().and_then(Result::ok).flatten() })
}

fn fill(object: &Rc<Object>, body: &Json) -> Json {
    let (state, tasks) = (body["state"].as_str().unwrap_or("finished"), body["tasks"].as_u64().unwrap_or_default());
    let Some(fill) = Fill::parse(state) else { return json!({ "error": "no such state" }) };
    match history::add(&object.database, clock(), fill, tasks) {
        Ok(()) => json!({ "added": tasks }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
