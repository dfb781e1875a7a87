//! `Database` over the object's SQLite.
//!
//! Invariants: an error anywhere in a block undoes the block (`transactionSync`; a plain block would keep what ran before
//! the error), and so does a panic, which then goes on to the caller. A statement is one call of `glue::execute`, which
//! reads all of its rows and throws what goes wrong: the bindings' own readers abort on an exception.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use wasm_bindgen::prelude::*;
use worker::js_sys::JsString;
use worker::{SqlStorage, State, Storage, console_error, web_sys};

use super::glue::{self, Bound, Found};
use crate::domain::limits::{CHUNK_BYTES, DOWNLOAD_PART_BYTES, DOWNLOAD_SLOW_MS, PIECES_HELD_MAX};
use crate::http::message::Slice;
use crate::store::attachments;
use crate::store::database::{Database, DatabaseError, Row, RowsUsed, Value, check_storable};
use crate::store::executors::Known;
use crate::store::timers::Timers;

#[wasm_bindgen]
extern "C" {
    /// The object's storage, for the one method that the `worker` crate does not bind.
    type TransactionalStorage;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction_sync(
        this: &TransactionalStorage,
        body: &mut dyn FnMut() -> Result<JsValue, JsValue>,
    ) -> Result<JsValue, JsValue>;
}

/// The database of one Durable Object.
pub struct ObjectDatabase {
    storage: Storage,
    sql: SqlStorage,
    statements: RefCell<HashMap<*const str, JsString>>,
    used: Cell<RowsUsed>,
    known_executors: Known,
    timers: Timers,
}

impl ObjectDatabase {
    /// The database of the object with this state.
    pub fn new(state: &State) -> Self {
        let storage = state.storage();
        let sql = storage.sql();
        Self {
            storage,
            sql,
            statements: RefCell::default(),
            used: Cell::default(),
            known_executors: Known::default(),
            timers: Timers::default(),
        }
    }

    /// The response with this head whose body is a part of a file. Its rows count at once, though they are read as they are
    /// taken.
    pub fn send_out(&self, status: u16, headers: &str, slice: &Slice) -> Result<web_sys::Response, JsValue> {
        let statement = self.statement(attachments::CHUNK);
        let (from, bytes) = (slice.from as f64, slice.bytes as f64);
        let chunk = CHUNK_BYTES as u64;
        self.count((slice.from + slice.bytes).div_ceil(chunk) - slice.from / chunk, 0);
        let (sql, id) = (self.sql.as_ref(), &slice.content_id);
        let bounds = (CHUNK_BYTES as u32, DOWNLOAD_PART_BYTES, PIECES_HELD_MAX, DOWNLOAD_SLOW_MS);
        let (piece, part, pieces_max, slow_ms) = bounds;
        glue::send_out(status, headers, sql, &statement, id, from, bytes, piece, part, pieces_max, slow_ms)
    }

    /// Counts rows that the object wrote beside SQL: each move of the alarm is billed as one.
    pub fn count_written(&self, rows: u64) {
        let used = self.used.get();
        self.used.set(RowsUsed { written: used.written + rows, ..used });
    }

    fn count(&self, read: u64, written: u64) {
        let used = self.used.get();
        self.used.set(RowsUsed { read: used.read + read, written: used.written + written });
    }

    /// The statement as the runtime's own string. It is made once, because the runtime finds its prepared statement by it.
    fn statement(&self, sql: &'static str) -> JsString {
        let mut statements = self.statements.borrow_mut();
        statements.entry(sql).or_insert_with(|| JsString::from(sql)).clone()
    }
}

impl Database for ObjectDatabase {
    fn execute(&self, sql: &'static str, parameters: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        parameters.iter().try_for_each(check_storable)?;
        let (bound, bytes) = Bound::all(parameters);
        let unreadable = |error: serde_json::Error| logged(DatabaseError::Refused(error.to_string()));
        let bound = serde_json::to_string(&bound).map_err(unreadable)?;
        let statement = self.statement(sql);
        let answer = if bytes.is_empty() && !parameters.iter().any(|value| matches!(value, Value::Blob(_))) {
            glue::execute(self.sql.as_ref(), &statement, &bound)
        } else {
            glue::execute_with_bytes(self.sql.as_ref(), &statement, &bound, &bytes)
        };
        let answer = answer.map_err(|error| logged(refused(error.into())))?;
        let (read, written, rows): (u64, u64, Vec<Vec<Found>>) = serde_json::from_str(&answer).map_err(unreadable)?;
        self.count(read, written);
        Ok(rows.into_iter().map(|row| row.into_iter().map(|Found(value)| value).collect()).collect())
    }

    fn change(&self, sql: &'static str, parameters: &[Value]) -> Result<bool, DatabaseError> {
        let written_before = self.used.get().written;
        self.execute(sql, parameters)?;
        Ok(self.used.get().written > written_before)
    }

    fn atomically(&self, body: &mut dyn FnMut() -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        let mut block = Block { body, failure: None, panic: None };
        let committed = {
            // Owned whole by the closure, because a borrowed part would not count as safe to unwind through.
            let mut block = AssertUnwindSafe(&mut block);
            let storage: &TransactionalStorage = self.storage.as_raw().unchecked_ref();
            storage.transaction_sync(&mut move || Block::run(&mut block))
        };
        if committed.is_err() {
            self.known_executors.forget();
        }
        if let Some(payload) = block.panic {
            resume_unwind(payload);
        }
        match (block.failure, committed) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(logged(refused(error.into()))),
            (None, Ok(_)) => Ok(()),
        }
    }

    fn rows_used(&self) -> RowsUsed {
        self.used.get()
    }

    fn size_bytes(&self) -> Result<i64, DatabaseError> {
        i64::try_from(self.sql.database_size()).map_err(|_| DatabaseError::Shape("database_size"))
    }

    fn known_executors(&self) -> &Known {
        &self.known_executors
    }

    fn timers(&self) -> &Timers {
        &self.timers
    }
}

/// A block that runs inside `transactionSync`, and why it was rolled back.
struct Block<'b> {
    body: &'b mut dyn FnMut() -> Result<(), DatabaseError>,
    failure: Option<DatabaseError>,
    panic: Option<Box<dyn Any + Send>>,
}

impl Block<'_> {
    /// Runs the body; the `Err` makes the runtime roll back.
    fn run(&mut self) -> Result<JsValue, JsValue> {
        match catch_unwind(AssertUnwindSafe(&mut self.body)) {
            Ok(Ok(())) => return Ok(JsValue::UNDEFINED),
            Ok(Err(error)) => self.failure = Some(error),
            Err(payload) => self.panic = Some(payload),
        }
        Err(JsValue::from_str("rolled back"))
    }
}

/// The one place where the engine's own words are logged; callers are told only that the storage failed.
fn logged(error: DatabaseError) -> DatabaseError {
    console_error!("{error}");
    error
}

fn refused(error: worker::Error) -> DatabaseError {
    DatabaseError::Refused(error.to_string())
}
