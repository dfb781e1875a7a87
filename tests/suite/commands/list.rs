//! `list`: pages that are complete, in order, and bounded.

use std::collections::BTreeSet;

use serde_json::json;
use taskhub::domain::limits::PAGE_ROWS_EXAMINED_MAX;
use taskhub::domain::task::{Address, State};
use taskhub::hub::{self, List, ListRejected, Submit, TaskSummary, When};

use crate::support::{World, task_for, task_in};

fn page(world: &World, list: &List) -> Result<hub::Listed, ListRejected> {
    world.run(|hub| hub::list_tasks(hub, list)).0
}

fn all(world: &World, list: &List) -> Vec<TaskSummary> {
    let mut list = list.clone();
    let mut tasks = Vec::new();
    for _ in 0..1_000 {
        let listed = page(world, &list).unwrap();
        assert!(listed.tasks.len() <= list.page_size.unwrap_or(20));
        tasks.extend(listed.tasks);
        let Some(cursor) = listed.next_cursor else { return tasks };
        list.cursor = Some(cursor);
    }
    panic!("the list does not end");
}

/// A hub with tasks in every state, at three addresses.
fn full_hub() -> World {
    let world = World::new();
    let bot = world.executor("bot", &["a", "b"]);
    for index in 0..72_i64 {
        let input = match index % 3 {
            0 => task_for("bot"),
            1 => task_in("a"),
            _ => task_in("b"),
        };
        let not_before = (index % 8 == 7).then_some(When::In(86_400));
        let priority = Some((index % 10) as u8);
        let id = world.submit(&Submit { not_before, priority, ..input });
        world.pass(index % 2);
        if index % 8 == 6 {
            world.cancel(&id).unwrap();
        }
    }
    for index in 0..36 {
        let held = world.claim(&bot);
        match index % 4 {
            0 => drop(world.does("result", &held, json!({ "status": "completed" }))),
            1 => drop(world.does("result", &held, json!({ "status": "failed" }))),
            2 => drop(world.does("heartbeat", &held, json!({ "question": "Which?" }))),
            _ => {}
        }
    }
    world
}

#[test]
fn every_filter_finds_exactly_what_fits_whatever_the_page_size() {
    let world = full_hub();
    let everything = all(&world, &List { page_size: Some(50), ..List::default() });
    assert_eq!(everything.len(), 72);
    let addresses = [None, Address::executor("bot"), Address::queue("a"), Address::queue("nobody")];
    let filters: Vec<Vec<State>> = vec![
        vec![],
        vec![State::Submitted],
        vec![State::Waiting],
        vec![State::Working, State::InputRequired],
        vec![State::InputRequired],
        vec![State::Completed],
        vec![State::Failed],
        vec![State::Canceled, State::Failed],
        vec![State::Submitted, State::Canceled, State::Working],
        State::ALL.to_vec(),
    ];
    for address in &addresses {
        for states in &filters {
            let fits = |task: &&TaskSummary| {
                (states.is_empty() || states.contains(&task.life.state))
                    && address.as_ref().is_none_or(|address| task.address == *address)
            };
            let right: BTreeSet<&str> = everything.iter().filter(fits).map(|task| task.id.as_str()).collect();
            for page_size in [1, 7, 50] {
                let list = List {
                    states: states.clone(),
                    address: address.clone(),
                    page_size: Some(page_size),
                    ..List::default()
                };
                let found = all(&world, &list);
                let ids: BTreeSet<&str> = found.iter().map(|task| task.id.as_str()).collect();
                assert_eq!(ids, right, "{states:?} at {address:?} by {page_size}");
                assert_eq!(found.len(), ids.len(), "{states:?} at {address:?} by {page_size}: none comes twice");
            }
        }
    }
}

#[test]
fn all_tasks_come_newest_first_and_open_ones_as_they_would_be_claimed() {
    let world = full_hub();
    let everything = all(&world, &List::default());
    assert!(everything.windows(2).all(|pair| pair[0].id > pair[1].id));
    let ready = all(&world, &List { states: vec![State::Submitted], ..List::default() });
    let order = |task: &TaskSummary| (task.address.to_string(), 9 - task.priority, task.id.clone());
    assert!(ready.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])), "{ready:#?}");
    let failed = all(&world, &List { states: vec![State::Failed], ..List::default() });
    assert!(failed.windows(2).all(|pair| pair[0].id > pair[1].id));
}

#[test]
fn tasks_that_come_meanwhile_do_not_disturb_a_walk() {
    let world = World::new();
    world.executor("bot", &[]);
    let ids: BTreeSet<String> = (0..10)
        .map(|_| {
            world.pass(1);
            world.submit(&task_for("bot"))
        })
        .collect();
    let mut list = List { page_size: Some(3), ..List::default() };
    let mut found = BTreeSet::new();
    loop {
        let listed = page(&world, &list).unwrap();
        found.extend(listed.tasks.into_iter().map(|task| task.id));
        world.pass(1);
        world.submit(&task_for("bot"));
        match listed.next_cursor {
            Some(cursor) => list.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(found, ids, "newest first: what came later is on a page already passed");
}

/// A filter that fits little must not read the whole history in one call.
#[test]
fn a_page_looks_at_a_bounded_number_of_rows() {
    let world = World::new();
    let key = world.executor("bot", &["a"]);
    let old = world.submit(&task_in("a"));
    world.pass(1);
    for _ in 0..PAGE_ROWS_EXAMINED_MAX + 10 {
        world.submit(&task_for("bot"));
    }
    let list = List { address: Address::queue("a"), ..List::default() };
    let first = page(&world, &list).unwrap();
    assert!(first.tasks.is_empty());
    let rest = page(&world, &List { cursor: first.next_cursor, ..list }).unwrap();
    assert_eq!(rest.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [old.as_str()]);
    assert_eq!(rest.next_cursor, None);
    drop(key);
}

/// The bound counts the rows of all lanes that the page goes through.
#[test]
fn a_page_ends_after_the_same_number_of_rows_in_two_lanes() {
    let world = World::new();
    let key = world.executor("bot", &["a"]);
    for _ in 0..30 {
        world.working("bot", &key);
    }
    for _ in 0..PAGE_ROWS_EXAMINED_MAX - 31 {
        world.submit(&task_for("bot"));
    }
    let last_row = world.submit(&task_in("a"));
    world.pass(1);
    let next_row = world.submit(&task_in("a"));
    let states = vec![State::Working, State::Submitted];
    let list = List { states, address: Address::queue("a"), ..List::default() };
    let ids = |listed: &hub::Listed| listed.tasks.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    let first = page(&world, &list).unwrap();
    assert_eq!(ids(&first), [last_row]);
    let second = page(&world, &List { cursor: first.next_cursor, ..list }).unwrap();
    assert_eq!((ids(&second), second.next_cursor), (vec![next_row], None));
}

#[test]
fn a_cursor_that_is_not_ours_is_refused() {
    let world = full_hub();
    for cursor in
        ["", "x", "0", "0~0", "1~0~~", "9~0~~", "0~10~~", "0~0~nonsense~", "0~0~~No Name", "-1~0~~", "0~0~t_0~@bot"]
    {
        let list = List { cursor: Some(cursor.to_owned()), ..List::default() };
        assert_eq!(page(&world, &list), Err(ListRejected::CursorUnknown), "{cursor}");
    }
    for page_size in [0, 51, usize::MAX] {
        let list = List { page_size: Some(page_size), ..List::default() };
        assert_eq!(page(&world, &list), Err(ListRejected::PageSize));
    }
}

#[test]
fn an_empty_hub_has_an_empty_list() {
    let world = World::new();
    let listed = page(&world, &List::default()).unwrap();
    assert_eq!((listed.tasks.len(), listed.next_cursor), (0, None));
}
