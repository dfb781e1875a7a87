//! Pages of tasks.
//!
//! Three orders, each along an index: all tasks newest first, failed or canceled ones newest first, open ones by lane and
//! address in the order in which they would be claimed. A page looks at a bounded number of rows; if few of them match,
//! it is short and still carries a cursor.

use super::Hub;
use crate::domain::ids::TaskId;
use crate::domain::limits::{PAGE_ROWS_EXAMINED_MAX, PAGE_ROWS_READ_MAX, PAGE_TASKS_DEFAULT, PAGE_TASKS_MAX};
use crate::domain::task::{Address, Lane, State};
use crate::store::database::DatabaseError;
use crate::store::tasks::{self, Cursor, Page, TaskHead};

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only tasks in one of these states; all if empty.
    pub states: Vec<State>,
    /// Only tasks for this address.
    pub address: Option<Address>,
    /// Tasks a page, at most `PAGE_TASKS_MAX`.
    pub page_size: Option<usize>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its tasks.
    pub tasks: Vec<TaskSummary>,
    /// Where the next page begins; none at the end.
    pub next_cursor: Option<String>,
}

/// A task in a list.
pub type TaskSummary = TaskHead;

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRejected {
    /// The cursor is not one of this hub's.
    CursorUnknown,
    /// The page size is not from 1 to `PAGE_TASKS_MAX`.
    PageSize,
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for ListRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Which way a list goes; a cursor carries its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Whole,
    Unhappy(State),
    Open(Lane),
}

/// One page of tasks.
pub fn list_tasks(hub: &Hub<'_>, input: &List) -> Result<Listed, ListRejected> {
    let page_size = input.page_size.unwrap_or(PAGE_TASKS_DEFAULT);
    if !(1..=PAGE_TASKS_MAX).contains(&page_size) {
        return Err(ListRejected::PageSize);
    }
    let walks = walks(&input.states);
    let (mut walk_index, mut after) = match &input.cursor {
        Some(text) => parse(text).filter(|(index, _)| *index < walks.len()).ok_or(ListRejected::CursorUnknown)?,
        None => (0, Cursor::default()),
    };
    let mut found = Vec::new();
    let mut examined = 0;
    while let Some(walk) = walks.get(walk_index) {
        let rows_max = (PAGE_ROWS_EXAMINED_MAX - examined).min(PAGE_ROWS_READ_MAX);
        let rows = page(hub, *walk, &after, rows_max)?;
        let at_end = rows.len() < rows_max;
        examined += rows.len();
        for (cursor, task) in rows {
            after = cursor;
            if matches(input, &task) {
                found.push(task);
            }
            if found.len() == page_size {
                return Ok(Listed { tasks: found, next_cursor: Some(write(walk_index, &after)) });
            }
        }
        if at_end {
            walk_index += 1;
            after = Cursor::default();
        }
        if examined >= PAGE_ROWS_EXAMINED_MAX {
            return Ok(Listed { tasks: found, next_cursor: Some(write(walk_index, &after)) });
        }
    }
    Ok(Listed { tasks: found, next_cursor: None })
}

/// The shortest way to all tasks in these states.
fn walks(states: &[State]) -> Vec<Walk> {
    if states.is_empty() || states.contains(&State::Completed) {
        return vec![Walk::Whole];
    }
    let lanes = Lane::ALL.into_iter().filter(|lane| states.iter().any(|state| state.lane() == Some(*lane)));
    let unhappy = [State::Failed, State::Canceled].into_iter().filter(|state| states.contains(state));
    lanes.map(Walk::Open).chain(unhappy.map(Walk::Unhappy)).collect()
}

fn page(hub: &Hub<'_>, walk: Walk, after: &Cursor, rows_max: usize) -> Result<Page, DatabaseError> {
    match walk {
        Walk::Whole => tasks::page_whole(hub.db, after, rows_max),
        Walk::Unhappy(state) => tasks::page_unhappy(hub.db, state, after, rows_max),
        Walk::Open(lane) => tasks::page_open(hub.db, lane, after, rows_max),
    }
}

fn matches(input: &List, task: &TaskHead) -> bool {
    let state_fits = input.states.is_empty() || input.states.contains(&task.life.state);
    state_fits && input.address.as_ref().is_none_or(|address| *address == task.address)
}

/// `<walk>~<rank>~<id>~<lane key>`: readable, and nothing in it is secret.
fn write(walk: usize, after: &Cursor) -> String {
    format!("{walk}~{}~{}~{}", after.rank, after.id, after.lane_key)
}

fn parse(text: &str) -> Option<(usize, Cursor)> {
    let mut parts = text.splitn(4, '~');
    let walk = parts.next()?.parse().ok()?;
    let rank = parts.next()?.parse().ok().filter(|rank| *rank <= 9)?;
    let id = parts.next()?;
    let lane_key = parts.next()?;
    let id_fits = id.is_empty() || TaskId::parse(id).is_some();
    // Of a task that waits for a person's word on an action, the key is `?` and its address.
    let key_fits = lane_key.is_empty() || Address::parse(lane_key.strip_prefix('?').unwrap_or(lane_key)).is_some();
    (id_fits && key_fits).then(|| (walk, Cursor { lane_key: lane_key.to_owned(), rank, id: id.to_owned() }))
}
