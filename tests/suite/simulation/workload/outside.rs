//! What nobody in the world decides: receivers of wakes, restarts, the alarm, the purge.

use super::*;

/// Messages that meet their fate in one step.
const RECEIVERS_MAX: u64 = 4;
/// Whether a message is still claimed as it was when it was sent.
const CLAIMED: &str = "SELECT 1 FROM outbox WHERE state = 'due' AND next_at = ?1 AND id = ?2";

impl Workload {
    /// Receivers accept, refuse, ask to be left alone, time out, or the hub never learns; or it had too much to send.
    pub(super) fn receivers(&mut self) {
        for _ in 0..=self.chance.below(RECEIVERS_MAX) {
            self.receiver();
        }
    }

    fn receiver(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = self.chance.below(self.in_flight.len() as u64) as usize;
        let order = self.in_flight.swap_remove(index);
        let outcome = match self.chance.below(20) {
            0..=9 => Delivery::Accepted,
            10..=12 => Delivery::Unknown,
            13..=15 => Delivery::rejected("answered 500"),
            16 => {
                let retry_after_ms = Some(self.chance.below(7_200_000) as i64);
                Delivery::Rejected { why: "answered 429".to_owned(), retry_after_ms }
            }
            17 => Delivery::NotTried,
            _ => return,
        };
        self.delivered(&order, &outcome);
    }

    pub(super) fn delivered(&mut self, order: &Order, outcome: &Delivery) {
        let claim = [order.row.next_at.into(), (&order.row.id).into()];
        let is_claimed = !self.db.execute(CLAIMED, &claim).expect("the outbox can be read").is_empty();
        let (answer, _) = self.command(|hub| record_delivery(hub, order, outcome));
        let (kind, subject) = (order.row.kind.as_str(), &order.row.subject);
        let task = order.row.task_id.as_deref().unwrap_or("it");
        self.note(|| format!("the {kind} to {subject} for {task} ends as {outcome:?}: {answer:?}"));
        match answer {
            Ok(()) => {
                self.auditor.messages.recorded(order, outcome, self.now.get());
                if order.row.kind == Kind::Wake {
                    let log = self.auditor.wakes.entry(subject.clone()).or_default();
                    let refused = matches!(outcome, Delivery::Rejected { .. });
                    log.refused |= refused && is_claimed && log.sent_at == Some(order.claimed_at);
                }
            }
            Err(error) => self.failure(&error),
        }
        if let Some(id) = &order.row.task_id
            && self.auditor.tasks.contains_key(id)
        {
            self.check(&id.clone());
        }
    }

    /// The object is loaded anew: memory is gone, wakes on their way are never recorded, the alarm stays or was lost.
    pub(super) fn restart(&mut self) {
        self.tally.restarts += 1;
        self.note_common("the object is loaded anew");
        self.presence = Presence::default();
        if self.chance.percent(50) {
            self.in_flight.clear();
        }
        if self.chance.percent(30) {
            self.alarm.set(None);
        }
        self.is_certain.set(false);
        migrate(&self.db).expect("an existing database opens");
    }

    pub(super) fn alarm_by_chance(&mut self) {
        self.ring();
        if self.chance.percent(30) {
            self.ring();
        }
    }

    pub(super) fn ring(&mut self) {
        self.alarm.set(None);
        for _ in 0..100 {
            let (swept, effects) = self.command_without_failure(sweep);
            let swept = swept.expect("the database works");
            assert!(swept.trouble.is_empty(), "the sweep met {:?}", swept.trouble);
            self.resent(&effects);
            if !swept.more {
                break;
            }
        }
        self.swept();
        for _ in 0..100 {
            let room = self.chance.below(20) as usize;
            let (dispatched, effects) = self.command_without_failure(|hub| dispatch(hub, room));
            let dispatched = dispatched.expect("the database works");
            assert!(dispatched.trouble.is_empty(), "the sweep met {:?}", dispatched.trouble);
            self.resent(&effects);
            if !dispatched.more {
                break;
            }
        }
        // When it has rung, the next is looked up.
        self.alarm.set(None);
        self.is_certain.set(false);
        self.command_without_failure(|_| ());
    }

    pub(super) fn resent(&mut self, effects: &Effects) {
        // What the sweep sends again because its outcome was never recorded is not covered by itself.
        self.ordered(effects, true);
    }

    pub(super) fn swept(&mut self) {
        for id in self.auditor.swept(self.now.get()) {
            let standing = &self.auditor.tasks[&id].standing;
            let text = || format!("{id} is swept: the model says {standing:?}");
            self.trace.note(self.tally.steps, self.now.get(), text);
            if let Standing::Failed(_) = self.auditor.tasks[&id].standing {
                self.tally.failed += 1;
            }
            if let Standing::Asked(_) = self.auditor.tasks[&id].standing {
                self.tally.asked += 1;
            }
            self.check(&id);
        }
    }

    pub(super) fn purge(&mut self) {
        self.note_common("what is old is purged");
        let before = self.auditor.tasks.len();
        let mut after = String::new();
        for _ in 0..100 {
            match self.command(|hub| purge(hub, &after)).0 {
                Ok(Some(next)) => after = next,
                Ok(None) => break,
                // The same batch again: the model forgets all of them at once.
                Err(error) => self.failure(&error),
            }
        }
        match self.command(purge_outbox).0 {
            Ok(()) => self.auditor.messages.purged(&self.db),
            Err(error) => self.failure(&error),
        }
        self.auditor.purged(self.now.get());
        self.tally.purged += (before - self.auditor.tasks.len()) as u64;
    }
}
