//! What the owner is told, how often, in which words, and what the buttons of a notice do.

mod act;
mod body;
mod causes;
mod events;
mod ntfy_test;
mod settings;
mod silence;

use serde_json::Value as Json;
use taskhub::hub::{self, Delivery, Effects, Order};
use taskhub::store::outbox::Kind;

use crate::support::World;

const URL: (&str, &str) = ("NTFY_URL", "https://ntfy.example");
const TOPIC: (&str, &str) = ("NTFY_TOPIC", "topic-of-the-tests");

/// A hub that tells its owner, with these variables beside.
fn telling(vars: &[(&str, &str)]) -> World {
    World::with(&[&[URL, TOPIC], vars].concat())
}

/// The notices that these effects send.
fn notices(effects: &Effects) -> Vec<Order> {
    effects.outbox.iter().filter(|order| order.row.kind == Kind::Notice).cloned().collect()
}

/// The one notice that these effects send.
fn only(effects: &Effects) -> Order {
    let all = notices(effects);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().expect("there is one")
}

/// What a notice says.
fn said(order: &Order) -> Json {
    serde_json::from_str(&order.request.body).expect("it is JSON")
}

impl World {
    /// Does something under a claim, and returns what must happen outside.
    fn attempt_with_effects(&self, verb: &str, held: &crate::support::Held, more: Json) -> Effects {
        let mut body = serde_json::json!({ "task_id": held.id, "claim_token": held.token });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let request = crate::support::request("POST", &format!("/executor/{verb}"), &held.key, &body);
        let (outcome, effects) = self.run(|hub| taskhub::http::router::handle(hub, &request));
        let taskhub::http::message::Outcome::Reply(response) = outcome else { panic!("no answer: {outcome:?}") };
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        effects
    }

    /// Claims what is due in the outbox.
    fn dispatch(&self) -> Effects {
        let (dispatched, effects) = self.run(|hub| hub::dispatch(hub, 16));
        assert_eq!(dispatched.expect("it is claimed").trouble, []);
        effects
    }

    /// Records what became of a notice.
    fn delivered(&self, order: &Order, delivery: &Delivery) {
        self.run(|hub| hub::record_delivery(hub, order, delivery)).0.expect("it is recorded");
    }

    /// How many rows the outbox has, timers of silence aside.
    fn owed(&self) -> usize {
        self.db.rows("SELECT id FROM outbox WHERE body <> '{}'").len()
    }

    /// How many timers of silence there are.
    fn timers(&self) -> usize {
        self.db.rows("SELECT id FROM outbox WHERE body = '{}'").len()
    }
}
