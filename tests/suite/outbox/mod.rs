//! The outbox (design §3 rule 5): what is owed, how often it is tried, and what the owner sees of it.

mod callbacks;
mod dispatch;
mod owner;

use taskhub::hub::{Effects, Order, Submit};

use crate::support::task_for;

const TOLD: &str = "https://submitter.example/told";

/// A task whose submitter wants to be told of its end.
fn with_callback() -> Submit {
    Submit { callback_url: Some(TOLD.to_owned()), ..task_for("bot") }
}

/// The only message among the effects.
fn only(effects: Effects) -> Order {
    let [order] = effects.outbox.try_into().expect("one message");
    order
}
