//! How often a message is sent, by whom, and when it is given up.

use taskhub::hub::{self, Delivery, Order};

use super::{only, with_callback};
use crate::support::World;

const BACKOFFS_MS: [i64; 7] = [30_000, 120_000, 600_000, 1_800_000, 7_200_000, 7_200_000, 7_200_000];

/// A hub that owes a callback, which is on its way.
fn owing() -> (World, Order) {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&with_callback());
    let order = only(world.run(|hub| hub::cancel(hub, "owner", &id, None)).1);
    (world, order)
}

fn same(left: &Order, right: &Order) -> bool {
    let id = |order: &Order| order.request.headers.iter().find(|(name, _)| *name == "webhook-id").cloned();
    left.row.id == right.row.id && left.request.body == right.request.body && id(left) == id(right)
}

/// The object may die between the commit and the sending, and between the sending and the record.
#[test]
fn what_nobody_recorded_goes_out_again_as_it_was_until_it_is_given_up() {
    let (world, first) = owing();
    assert_eq!(world.hub().next_due(), Ok(Some(world.now() + 15_000)), "the alarm rings for it");
    for _ in 0..7 {
        assert!(world.pass_and_sweep(14_999).outbox.is_empty(), "somebody may still be sending it");
        assert!(same(&only(world.pass_and_sweep(1)), &first));
    }
    assert!(world.pass_and_sweep(15_000).outbox.is_empty());
    let (due, dead) = world.run(hub::list_outbox).0.unwrap();
    assert_eq!((due.len(), dead.len(), dead[0].attempts), (0, 1, 8));
    assert_eq!(world.hub().next_due(), Ok(None));
}

#[test]
fn what_was_accepted_is_over() {
    let (world, order) = owing();
    world.record(&order, Delivery::Accepted);
    assert!(world.db.rows("SELECT * FROM outbox").is_empty());
    world.record(&order, Delivery::rejected("answered 500"));
    assert!(world.db.rows("SELECT * FROM outbox").is_empty(), "and stays so");
}

#[test]
fn what_was_refused_is_tried_ever_more_rarely_and_then_given_up() {
    for delivery in [Delivery::rejected("answered 503"), Delivery::Unknown] {
        let (world, first) = owing();
        let mut order = first.clone();
        for wait in BACKOFFS_MS {
            world.record(&order, delivery.clone());
            assert!(world.pass_and_sweep(wait - 1).outbox.is_empty(), "{wait}");
            order = only(world.pass_and_sweep(1 + wait / 5));
            assert!(same(&order, &first));
        }
        world.record(&order, delivery.clone());
        assert!(world.pass_and_sweep(86_400_000).outbox.is_empty());
        let dead = world.run(hub::list_outbox).0.unwrap().1;
        let why = if delivery == Delivery::Unknown { "no answer in time" } else { "answered 503" };
        assert_eq!((dead[0].attempts, dead[0].last_status.as_deref()), (8, Some(why)));
    }
}

#[test]
fn a_receiver_that_asks_to_be_left_alone_is_within_an_hour() {
    for (asked, waits) in [(600_000, 600_000), (1_000, 30_000), (86_400_000, 3_600_000)] {
        let (world, order) = owing();
        world.record(&order, Delivery::Rejected { why: "answered 429".to_owned(), retry_after_ms: Some(asked) });
        assert!(world.pass_and_sweep(waits - 1).outbox.is_empty());
        only(world.pass_and_sweep(1 + waits / 5));
    }
}

/// Whoever comes late is not believed: the message is somebody else's.
#[test]
fn a_record_counts_only_while_the_message_is_as_it_was_claimed() {
    let (world, first) = owing();
    let second = only(world.pass_and_sweep(15_000));
    let before = world.db.dump();
    for late in [Delivery::Accepted, Delivery::rejected("answered 500"), Delivery::Unknown, Delivery::NotTried] {
        world.record(&first, late);
        assert_eq!(world.db.dump(), before);
    }
    world.record(&second, Delivery::Accepted);
    assert!(world.db.rows("SELECT * FROM outbox").is_empty());
}

#[test]
fn what_was_not_begun_is_due_in_a_moment_and_spends_no_tries() {
    let (world, first) = owing();
    world.pass(6_000);
    assert!(world.now() > first.begin_by());
    for _ in 0..20 {
        let order = world.run(hub::list_outbox).0.unwrap().0.remove(0);
        assert!(order.attempts <= 2, "it spends at most one");
        world.record(&Order { row: order, ..first.clone() }, Delivery::NotTried);
        assert!(world.pass_and_sweep(4_999).outbox.is_empty());
        only(world.pass_and_sweep(1));
    }
}

#[test]
fn no_more_is_made_ready_than_there_is_room_for() {
    let world = World::new();
    world.executor("bot", &[]);
    for _ in 0..25 {
        let id = world.submit(&with_callback());
        world.cancel(&id).unwrap();
    }
    world.pass(15_000);
    let dispatch = |room: usize| {
        let (dispatched, effects) = world.run(|hub| hub::dispatch(hub, room));
        (effects.outbox.len(), dispatched.unwrap().more)
    };
    assert_eq!(dispatch(0), (0, false));
    assert_eq!(dispatch(3), (3, true));
    assert_eq!(dispatch(100), (10, true), "a batch is bounded");
    assert_eq!(dispatch(100), (10, true));
    assert_eq!(dispatch(100), (2, false));
    assert_eq!(dispatch(100), (0, false), "and nothing is made ready twice");
}

/// An address that was permitted once need not be so for ever.
#[test]
fn what_may_not_be_called_any_more_is_given_up() {
    let (mut world, _) = owing();
    world.db.connection().execute("UPDATE outbox SET subject = 'https://127.0.0.1/'", []).unwrap();
    world.pass(15_000);
    world.settings.targets = taskhub::domain::target::TargetPolicy::PublicOnly;
    assert!(world.pass_and_sweep(0).outbox.is_empty());
    assert!(world.db.rows("SELECT * FROM outbox WHERE state <> 'dead'").is_empty());
}

/// The answer is read for half a second at most, after the time that the request may take.
#[test]
fn who_begins_at_the_last_moment_has_time_to_record() {
    let (_, order) = owing();
    let ends_at = order.begin_by() + order.request.timeout_ms + 500;
    assert!(ends_at + 1_000 < order.row.next_at, "it ends at {ends_at}, its claim at {}", order.row.next_at);
}

/// Whoever dispatches goes on while there is more, and would never come to an end.
#[test]
fn a_database_that_takes_nothing_is_not_asked_again_at_once() {
    let world = World::new();
    world.executor("bot", &[]);
    for _ in 0..40 {
        let id = world.submit(&with_callback());
        world.cancel(&id).unwrap();
    }
    world.pass(60_000);
    world.db.connection().pragma_update(None, "query_only", true).unwrap();
    let dispatched = world.run(|hub| hub::dispatch(hub, 16)).0.unwrap();
    assert!(!dispatched.trouble.is_empty() && !dispatched.more, "{dispatched:?}");
    world.db.connection().pragma_update(None, "query_only", false).unwrap();
    let (dispatched, effects) = world.run(|hub| hub::dispatch(hub, 16));
    assert_eq!((dispatched.unwrap().more, effects.outbox.len()), (true, 10), "all of it is there");
}
