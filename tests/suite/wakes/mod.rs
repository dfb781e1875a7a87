//! Wakes (design §7): what is sent, what becomes of it, and what is spared.

mod coalescing;
mod outcomes;
mod requests;
mod wake_executor;

use serde_json::{Value as Json, json};
use taskhub::hub::{Effects, Order};
use taskhub::outbound::OutboundRequest;

/// A webhook without credentials.
fn hook() -> Json {
    json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } })
}

/// The only wake among the effects.
fn only(effects: Effects) -> Order {
    let [order] = effects.outbox.try_into().expect("one wake");
    order
}

fn header<'r>(request: &'r OutboundRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

fn wake_id(order: &Order) -> &str {
    header(&order.request, "webhook-id").expect("every wake has an id")
}
