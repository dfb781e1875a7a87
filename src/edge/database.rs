//! `Database` over the object's SQLite.
//!
//! Invariants: an error anywhere in a block undoes the block (`transactionSync`; a plain block would keep what ran before
//! the error), and so does a panic, which then goes on to the caller. Cursors are read through `raw` only and left at the
//! first error: the other readers abort on an exception, and the iterator would repeat an error for ever.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use wasm_bindgen::prelude::*;
use worker::{SqlStorage, SqlStorageValue, State, Storage, console_error};

use crate::store::database::{Database, DatabaseError, Row, RowsUsed, Value, check_storable};

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
    used: Cell<RowsUsed>,
}

impl ObjectDatabase {
    /// The database of the object with this state.
    pub fn new(state: &State) -> Self {
        let storage = state.storage();
        let sql = storage.sql();
        Self { storage, sql, used: Cell::default() }
    }

    /// Counts rows that the object wrote beside SQL: each move of the alarm is billed as one.
    pub fn count_written(&self, rows: u64) {
        let used = self.used.get();
        self.used.set(RowsUsed { written: used.written + rows, ..used });
    }

    fn count(&self, cursor: &worker::SqlCursor) {
        let used = self.used.get();
        let read = used.read + cursor.rows_read() as u64;
        let written = used.written + cursor.rows_written() as u64;
        self.used.set(RowsUsed { read, written });
    }
}

impl Database for ObjectDatabase {
    fn execute(&self, sql: &'static str, parameters: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        let mut bound = Vec::with_capacity(parameters.len());
        for value in parameters {
            check_storable(value)?;
            bound.push(to_sql(value));
        }
        let cursor = self.sql.exec(sql, bound).map_err(|error| logged(refused(error)))?;
        let mut rows = Vec::new();
        let mut failure = None;
        for row in cursor.raw() {
            match row {
                Ok(columns) => rows.push(columns.into_iter().map(from_sql).collect()),
                Err(error) => {
                    failure = Some(refused(error));
                    break;
                }
            }
        }
        self.count(&cursor);
        match failure {
            Some(error) => Err(logged(error)),
            None => Ok(rows),
        }
    }

    fn atomically(&self, body: &mut dyn FnMut() -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        let mut block = Block { body, failure: None, panic: None };
        let committed = {
            // Owned whole by the closure, because a borrowed part would not count as safe to unwind through.
            let mut block = AssertUnwindSafe(&mut block);
            let storage: &TransactionalStorage = self.storage.as_raw().unchecked_ref();
            storage.transaction_sync(&mut move || Block::run(&mut block))
        };
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

fn to_sql(value: &Value) -> SqlStorageValue {
    match value {
        Value::Null => SqlStorageValue::Null,
        Value::Integer(number) => SqlStorageValue::Integer(*number),
        Value::Real(number) => SqlStorageValue::Float(*number),
        Value::Text(text) => SqlStorageValue::String(text.clone()),
        Value::Blob(bytes) => SqlStorageValue::Blob(bytes.clone()),
    }
}

fn from_sql(value: SqlStorageValue) -> Value {
    match value {
        SqlStorageValue::Null => Value::Null,
        SqlStorageValue::Boolean(truth) => Value::Integer(i64::from(truth)),
        SqlStorageValue::Integer(number) => Value::Integer(number),
        SqlStorageValue::Float(number) => Value::Real(number),
        SqlStorageValue::String(text) => Value::Text(text),
        SqlStorageValue::Blob(bytes) => Value::Blob(bytes),
    }
}
