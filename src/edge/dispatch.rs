//! Sends what the outbox owes, beside everything else that the object does.
//!
//! Invariants: a few messages are on their way at a time, the others wait in memory for their turn, and both are bounded, by
//! `room`. A message whose turn comes too late to end within its claim is given back unsent. What is in memory here is lost
//! with the object and is no loss: its claims run out.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use worker::console_error;

use super::object::Object;
use super::outbound::{self, Sent};
use super::{Panicked, clock, guarded};
use crate::hub::{self, Delivery, Order};

/// Messages on their way at a time. The runtime permits six connections.
const SENDS_AT_A_TIME: usize = 5;
/// Messages on their way or waiting for their turn before no more are made ready.
const ORDERS_MAX: usize = 30;

/// What is on its way.
#[derive(Default)]
pub struct Dispatcher {
    queue: RefCell<VecDeque<Order>>,
    running: Cell<usize>,
}

impl Dispatcher {
    /// How many more messages may be made ready now.
    pub fn room(&self) -> usize {
        ORDERS_MAX.saturating_sub(self.queue.borrow().len() + self.running.get())
    }
}

/// Sets messages going that a command has claimed.
pub fn send(object: &Rc<Object>, orders: Vec<Order>) {
    let dispatcher = &object.dispatcher;
    dispatcher.queue.borrow_mut().extend(orders);
    let waiting = dispatcher.queue.borrow().len();
    for _ in 0..waiting.min(SENDS_AT_A_TIME.saturating_sub(dispatcher.running.get())) {
        dispatcher.running.set(dispatcher.running.get() + 1);
        let sender = Rc::clone(object);
        object.state.wait_until(async move {
            let _ = guarded(send_all(&sender)).await;
            sender.dispatcher.running.set(sender.dispatcher.running.get() - 1);
        });
    }
}

async fn send_all(object: &Rc<Object>) {
    loop {
        let Some(order) = object.dispatcher.queue.borrow_mut().pop_front() else { return };
        let delivery = send_one(&order).await;
        match object.run(clock(), |hub| hub::record_delivery(hub, &order, &delivery)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => console_error!("what became of {} was not recorded: {error}", order.row.id),
            Err(Panicked) => console_error!("recording what became of {} panicked", order.row.id),
        }
    }
}

async fn send_one(order: &Order) -> Delivery {
    if clock() > order.begin_by() {
        return Delivery::NotTried;
    }
    match guarded(outbound::send(&order.request)).await {
        Ok(Sent::Status { code: 200..=299, .. }) => Delivery::Accepted,
        Ok(Sent::Status { code, retry_after_ms }) => {
            let hint = if (300..400).contains(&code) { ", a redirect, which is not followed" } else { "" };
            Delivery::Rejected { why: format!("answered {code}{hint}"), retry_after_ms }
        }
        Ok(Sent::NoAnswer) => Delivery::Unknown,
        Ok(Sent::Failed(reason)) => Delivery::rejected(reason),
        Err(Panicked) => Delivery::rejected("sending it panicked"),
    }
}
