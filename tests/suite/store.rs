//! The store's own fences: every change of a task names the state, attempt, lease and token that it expects, so that one
//! decided on an old reading changes nothing, even if the lifecycle was not asked again.

use taskhub::domain::lifecycle::{Event, Fence, Rules, step};
use taskhub::domain::secret::sha256_hex;
use taskhub::domain::task::{Life, State};
use taskhub::store::database::{Database as _, Value};
use taskhub::store::tasks::{self, AttemptWrites, MoveWrites, TaskHead, WakeDue};

use crate::support::{Held, World, task_for};

fn at_work() -> (World, Held, TaskHead) {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let head = head(&world, &held.id);
    (world, held, head)
}

fn head(world: &World, id: &str) -> TaskHead {
    tasks::head(&world.db, id).unwrap().unwrap()
}

fn after(world: &World, life: &Life, event: &Event) -> Life {
    step(life, event, &Rules { settings: &world.settings, now: world.now(), wakes: false, asks: false }).unwrap()
}

fn fence(held: &Held) -> Fence {
    Fence { executor: "bot".to_owned(), attempt: 1, token_hash: sha256_hex(&held.token) }
}

/// Readings that are no longer true.
fn stale(head: &TaskHead) -> [(&'static str, TaskHead); 4] {
    let with = |life: Life| TaskHead { life, ..head.clone() };
    let life = &head.life;
    [
        ("another state", with(Life { state: State::InputRequired, ..life.clone() })),
        ("another attempt", with(Life { attempt: life.attempt + 1, ..life.clone() })),
        ("another lease", with(Life { lease_expires_at: life.lease_expires_at.map(|at| at + 1), ..life.clone() })),
        ("another task", TaskHead { id: "t_000000000_0000000000000000".to_owned(), ..head.clone() }),
    ]
}

#[test]
fn an_attempt_ends_only_as_it_was_read() {
    let (world, held, head) = at_work();
    let next = after(&world, &head.life, &Event::Completed(fence(&held)));
    let finish = |task: &TaskHead, token: &str, now: i64| {
        tasks::finish(&world.db, task, &next, None, 1, now, (&sha256_hex(token), &AttemptWrites::default()))
            .unwrap()
            .is_some()
    };
    let before = world.db.dump();
    for (name, task) in stale(&head) {
        assert!(!finish(&task, &held.token, world.now()), "{name}");
    }
    assert!(!finish(&head, "clm_1.another", world.now()));
    assert!(!finish(&head, &held.token, world.now() + 300_000), "the lease is over");
    assert_eq!(world.db.dump(), before);
    assert!(finish(&head, &held.token, world.now() + 299_999));
    assert!(!finish(&head, &held.token, world.now()), "it has ended");
}

#[test]
fn a_lease_is_renewed_only_by_its_attempt_and_in_time() {
    let (world, held, head) = at_work();
    let next = after(&world, &head.life, &Event::Heartbeat(fence(&held)));
    let renew = |id: &str, life: &Life, token: &str, now: i64| {
        tasks::renew(&world.db, id, life, now, (&sha256_hex(token), &AttemptWrites::default())).unwrap()
    };
    let before = world.db.dump();
    let later = Life { attempt: 2, ..next.clone() };
    assert!(!renew(&held.id, &later, &held.token, world.now()));
    assert!(!renew(&held.id, &next, "clm_1.another", world.now()));
    assert!(!renew(&held.id, &next, &held.token, world.now() + 300_000));
    assert!(!renew("t_000000000_0000000000000000", &next, &held.token, world.now()));
    assert_eq!(world.db.dump(), before);
    assert!(renew(&held.id, &next, &held.token, world.now() + 299_999));
}

/// gastownhall/beads#5998: two readers saw the same ready task.
#[test]
fn a_task_is_claimed_by_the_first_of_two_who_read_it() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    let head = head(&world, &id);
    let claim = |executor: &str| {
        let event = Event::Claim { executor: executor.to_owned(), token_hash: sha256_hex(executor) };
        let next = after(&world, &head.life, &event);
        tasks::claim(&world.db, &head, &next, next.due_at(300_000), 1, world.now()).unwrap().is_some()
    };
    assert!(claim("first"));
    assert!(!claim("second"));
    assert_eq!(world.life(&id).claim.unwrap().executor, "first");
}

#[test]
fn a_task_past_its_deadline_is_not_claimed() {
    let world = World::new();
    world.executor("bot", &[]);
    let deadline = Some(taskhub::hub::When::In(60));
    let id = world.submit(&taskhub::hub::Submit { deadline, ..task_for("bot") });
    let head = head(&world, &id);
    let event = Event::Claim { executor: "bot".to_owned(), token_hash: "hash".to_owned() };
    let next = after(&world, &head.life, &event);
    let claim = |now: i64| tasks::claim(&world.db, &head, &next, next.due_at(300_000), 1, now).unwrap().is_some();
    assert!(!claim(world.now() + 60_000));
    assert!(claim(world.now() + 59_999));
}

/// riverqueue/river#1302: the rescuer overwrote a completed row from an old snapshot.
#[test]
fn the_clock_moves_a_task_only_as_it_was_read() {
    let (world, held, old) = at_work();
    world.pass(299_999);
    world.does("heartbeat", &held, serde_json::json!({}));
    world.pass(1);
    let next = after(&world, &old.life, &Event::Time);
    assert_eq!(next.state, State::Submitted, "by the old reading, the lease has expired");
    let move_on = |task: &TaskHead| {
        tasks::move_on(&world.db, task, &next, None, 1, world.now(), MoveWrites::default()).unwrap().is_some()
    };
    let before = world.db.dump();
    assert!(!move_on(&old), "but it was renewed");
    for (name, task) in stale(&head(&world, &held.id)) {
        assert!(!move_on(&task), "{name}");
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn a_wake_is_noted_only_on_a_ready_task() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    let ready = head(&world, &id);
    let next = after(&world, &ready.life, &Event::WakeSent);
    let ways = [WakeDue::Stays, WakeDue::At(next.due_at(300_000))];
    let wake = |due| tasks::wake(&world.db, &ready, &next, due, 1, world.now()).unwrap().is_some();
    assert!(ways.into_iter().all(wake));
    world.claim(&key);
    let before = world.db.dump();
    assert!(!ways.into_iter().any(wake));
    assert_eq!(world.db.dump(), before);
}

#[test]
fn an_open_task_is_not_deleted() {
    let (world, held, _) = at_work();
    let before = world.db.dump();
    tasks::delete(&world.db, &held.id).unwrap();
    assert_eq!(world.db.dump(), before);
}

/// The boundary to JavaScript: what cannot go through is refused before it is bound.
#[test]
fn values_that_would_not_survive_are_refused() {
    let world = World::new();
    let sql = "SELECT ?1";
    let echo = |value: Value| world.db.execute(sql, &[value]).map(|rows| rows[0][0].clone());
    let largest = 9_007_199_254_740_991;
    assert_eq!(echo(Value::Integer(largest)), Ok(Value::Integer(largest)));
    assert_eq!(echo(Value::Real(2.0)), Ok(Value::Integer(2)), "a whole number comes back as an integer");
    for value in [
        Value::Integer(largest + 1),
        Value::Integer(i64::MIN),
        Value::Real(f64::NAN),
        Value::Real(f64::INFINITY),
        Value::Text("x".repeat(2_000_001)),
        Value::Blob(vec![0; 2_000_001]),
    ] {
        assert!(echo(value).is_err());
    }
    assert!(world.db.execute(sql, &[]).is_err(), "as many parameters as the statement names");
    for sql in ["BEGIN", "COMMIT", "SAVEPOINT s", "ATTACH ':memory:' AS other"] {
        assert!(world.db.execute(sql, &[]).is_err(), "{sql}");
    }
}

#[test]
fn an_inner_transaction_that_fails_undoes_only_itself() {
    use taskhub::store::database::DatabaseError;
    let world = World::new();
    let insert = |queue: &'static str| {
        world.db.execute("INSERT INTO queue_executors (queue, executor) VALUES (?1, 'bot')", &[queue.into()]).map(drop)
    };
    world.executor("bot", &[]);
    let outer = world.db.atomically(&mut || {
        insert("kept")?;
        let inner = world.db.atomically(&mut || {
            insert("undone")?;
            Err(DatabaseError::Refused("on purpose".to_owned()))
        });
        assert!(inner.is_err());
        Ok(())
    });
    assert_eq!(outer, Ok(()));
    assert_eq!(world.db.rows("SELECT queue FROM queue_executors"), [[Value::Text("kept".to_owned())]]);
}
