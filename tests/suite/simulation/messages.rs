//! An independent, simple model of the outbox: what is owed to the outside, what was sent, and what became of it.

use std::collections::{BTreeMap, BTreeSet};

use taskhub::hub::{Delivery, Order};
use taskhub::store::database::Value;
use taskhub::store::outbox::Kind;

use crate::support::NativeDatabase;

/// Tries of a message before it must be given up.
const TRIES_MAX: u32 = 8;
/// How long whoever sends has to begin and to record, beyond the time-out of the request.
const GRACE_MS: i64 = 5_000;
const COLLECTED: &str = "SELECT subject, count FROM outbox WHERE kind = 'notice' AND attempts = 0";
const STANDING: &str = "SELECT id, state FROM outbox";

/// Where each message stands that is in the outbox, by its id.
fn standing(db: &NativeDatabase) -> BTreeMap<String, String> {
    let standing = |row: Vec<Value>| match <[Value; 2]>::try_from(row) {
        Ok([Value::Text(id), Value::Text(state)]) => (id, state),
        other => panic!("no message: {other:?}"),
    };
    db.rows(STANDING).into_iter().map(standing).collect()
}

#[derive(Clone, Debug, Default)]
struct Message {
    body: String,
    /// Until when nobody else may send it.
    claimed_until: Option<i64>,
    tries: u32,
    accepted: bool,
}

/// The model.
#[derive(Default)]
pub struct Messages {
    sent: BTreeMap<String, Message>,
    /// What happened of which the owner is to be told, by cause, and how much of it was.
    happened: BTreeMap<String, u32>,
    told: BTreeMap<String, u32>,
    /// Callbacks of tasks that are over and whose submitter wants to be told.
    owed: BTreeSet<String>,
}

impl Messages {
    /// A task is over whose submitter wants to be told.
    pub fn owe_callback(&mut self, task: &str) {
        self.owed.insert(format!("end_{task}"));
    }

    /// Something happened of which the owner is to be told.
    pub fn owe_notice(&mut self, cause: String) {
        *self.happened.entry(cause).or_default() += 1;
    }

    /// A message goes out.
    pub fn goes_out(&mut self, order: &Order, now: i64) {
        let (id, row) = (&order.row.id, &order.row);
        if row.kind == Kind::Notice && !self.sent.contains_key(id) {
            *self.told.entry(row.subject.clone()).or_default() += row.count;
        }
        let message =
            self.sent.entry(id.clone()).or_insert_with(|| Message { body: row.body.clone(), ..Message::default() });
        assert_eq!(message.body, order.request.body, "{id} changed between two tries");
        assert!(!message.accepted, "{id} was accepted and is sent again");
        let claimed = message.claimed_until.is_some_and(|until| now < until);
        assert!(!claimed, "{id} is sent twice at once");
        message.claimed_until = Some(now + order.request.timeout_ms + GRACE_MS);
        message.tries += 1;
    }

    /// What became of it was recorded.
    pub fn recorded(&mut self, order: &Order, delivery: &Delivery, now: i64) {
        let Some(message) = self.sent.get_mut(&order.row.id) else { return };
        let current = message.claimed_until == Some(order.claimed_at + order.request.timeout_ms + GRACE_MS);
        if !current || (*delivery == Delivery::NotTried && Some(now) >= message.claimed_until) {
            return;
        }
        message.claimed_until = None;
        match delivery {
            Delivery::Accepted => message.accepted = true,
            Delivery::NotTried => message.tries = (message.tries - 1).max(1),
            Delivery::Unknown | Delivery::Rejected { .. } => {}
        }
    }

    /// Every callback that is owed was accepted, or is there to be sent, or was given up at its bound; and no other was sent.
    pub fn check(&self, db: &NativeDatabase) {
        for id in self.sent.keys().filter(|id| id.starts_with("end_")) {
            assert!(self.owed.contains(id), "{id} was sent and is not owed");
        }
        let outbox = standing(db);
        for id in &self.owed {
            let sent = self.sent.get(id).cloned().unwrap_or_default();
            match outbox.get(id).map(String::as_str) {
                Some("due") => assert!(!sent.accepted, "{id} was accepted and is kept"),
                Some(_) => assert_eq!(sent.tries, TRIES_MAX, "{id} was given up before its bound"),
                None => assert!(sent.accepted, "{id} is owed to the outside and was lost"),
            }
        }
    }

    /// What is told of a cause, and what is yet to be told, is as much as happened.
    pub fn check_notices(&self, db: &NativeDatabase) {
        let mut told = self.told.clone();
        for row in db.rows(COLLECTED) {
            let [Value::Text(cause), Value::Integer(count)] = row.as_slice() else { panic!("not collected: {row:?}") };
            *told.entry(cause.clone()).or_default() += *count as u32;
        }
        assert_eq!(told, self.happened, "the owner is told (left) of another number than happened (right)");
    }

    /// What was given up long ago may be forgotten.
    pub fn purged(&mut self, db: &NativeDatabase) {
        let outbox = standing(db);
        let dead = self.sent.iter().filter(|(id, sent)| sent.tries >= TRIES_MAX && !outbox.contains_key(*id));
        for id in dead.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.sent.remove(&id);
            self.owed.remove(&id);
        }
    }

    /// What is over and told of need not be remembered.
    pub fn forget_told(&mut self) {
        let sent = &mut self.sent;
        self.owed.retain(|id| !sent.get(id).is_some_and(|message| message.accepted));
        sent.retain(|_, message| !message.accepted);
    }
}
