//! What only a build with `test-hooks` serves: panics by header, and the routes under `/__test/`.
//!
//! | route | does |
//! |---|---|
//! | `POST /__test/tick {"now": ms}` | handles the timers that are due at that time |
//! | `GET /__test/alarm` | when the alarm is set: `{armed_at}` |
//! | `GET /__test/rows` | rows read and written since the object was loaded, alarms included |
//! | `POST /__test/history {"tasks": n}` | adds n finished tasks |
//! | any `/__test/hang` | never answers |

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::object::Object;
use super::{Panicked, clock};
use crate::domain::limits::SWEEP_BATCHES_MAX;
use crate::hooks;
use crate::http::message::{Request, Response};
use crate::hub;
use crate::store::database::Database as _;
use crate::store::history;

const PREFIX: &str = "/__test/";
const PANIC: &str = "x-test-panic";
/// Tasks of history that one transaction adds.
const HISTORY_BATCH: u64 = 1_000;

/// Whether the front passes this request on as it is.
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

/// The answer to a test route; `None` for every other request.
pub async fn answer(object: &Rc<Object>, request: &Request) -> Option<Response> {
    let route = request.path.strip_prefix(PREFIX)?;
    let body: Json = serde_json::from_slice(&request.body).unwrap_or(Json::Null);
    let answer = match route {
        "hang" => std::future::pending().await,
        "alarm" => match object.state.storage().get_alarm().await {
            Ok(at) => json!({ "armed_at": at }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "rows" => {
            let used = object.database.rows_used();
            json!({ "read": used.read, "written": used.written })
        }
        "tick" => tick(object, body["now"].as_i64().unwrap_or_else(clock)),
        "history" => fill(object, body["tasks"].as_u64().unwrap_or_default()),
        _ => return Some(Response::json(404, &json!({ "error": "no such test route" }))),
    };
    Some(Response::json(200, &answer))
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
    let mut after = String::new();
    while let Ok(Ok(Some(next))) = object.run(now, |hub| hub::purge(hub, &after)) {
        after = next;
    }
    let due = object.run(now, |hub| hub.next_due());
    json!({ "handled": handled, "next_due": due.ok().and_then(Result::ok).flatten() })
}

fn fill(object: &Rc<Object>, tasks: u64) -> Json {
    let mut added = 0;
    while added < tasks {
        let batch = HISTORY_BATCH.min(tasks - added);
        match history::add_finished(&object.database, clock(), batch) {
            Ok(()) => added += batch,
            Err(error) => return json!({ "added": added, "error": error.to_string() }),
        }
    }
    json!({ "added": added })
}
