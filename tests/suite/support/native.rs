//! SQLite that imitates the boundary of the object's SQL: integers are bound as REAL, whole numbers come back as
//! integers, values are limited, the parameter count must fit, and no statement may begin or end a transaction.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use taskhub::domain::limits::VALUE_BYTES_MAX;
use taskhub::store::database::{Database, DatabaseError, INTEGER_MAX, Row, RowsUsed, Value, check_storable};
use taskhub::store::executors::Known;
use taskhub::store::timers::Timers;

/// An in-memory or file database behind the store's trait.
pub struct NativeDatabase {
    connection: Connection,
    depth: Cell<u32>,
    /// When it reaches zero, the next statement fails; `None`: never.
    fail_in: Cell<Option<u32>>,
    /// Whether it then panics instead.
    by_panic: Cell<bool>,
    /// Whether a statement may begin or end a transaction: only the database's own, never the store's.
    own_statement: Arc<AtomicBool>,
    known_executors: Known,
    timers: Timers,
}

impl NativeDatabase {
    pub fn in_memory() -> Self {
        Self::over(Connection::open_in_memory().expect("an in-memory database opens"))
    }

    fn over(mut connection: Connection) -> Self {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX as i32).expect("the limit is known");
        connection.set_limit(Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 100).expect("the limit is known");
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000).expect("the limit is known");
        connection.set_limit(Limit::SQLITE_LIMIT_COLUMN, 100).expect("the limit is known");
        connection.set_prepared_statement_cache_capacity(256);
        // Otherwise SQLite plans a statement anew whenever a parameter of interest to its planner changes.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).expect("plans can be kept");
        connection.pragma_update(None, "foreign_keys", true).expect("foreign keys can be switched on");
        let own_statement = Arc::new(AtomicBool::new(false));
        let may = own_statement.clone();
        let authorize = move |context: AuthContext<'_>| match context.action {
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } if may.load(Ordering::Relaxed) => {
                Authorization::Allow
            }
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } | AuthAction::Attach { .. } => {
                Authorization::Deny
            }
            _ => Authorization::Allow,
        };
        connection.authorizer(Some(authorize)).expect("an authorizer can be set");
        let known_executors = Known::default();
        let depth = Cell::new(0);
        Self {
            connection,
            depth,
            fail_in: Cell::new(None),
            by_panic: Cell::new(false),
            own_statement,
            known_executors,
            timers: Timers::default(),
        }
    }

    /// Makes the statement after the next `statements` ones fail, once.
    pub fn fail_in(&self, statements: Option<u32>) {
        self.fail_in.set(statements);
    }

    /// Makes the statement after the next `statements` ones panic, once.
    pub fn panic_in(&self, statements: u32) {
        self.fail_in.set(Some(statements));
        self.by_panic.set(true);
    }

    /// Whether a failure is to come.
    pub fn is_to_fail(&self) -> bool {
        self.fail_in.get().is_some()
    }

    /// Calls off a failure that has not come, and says whether it was still to come.
    pub fn call_off(&self) -> bool {
        self.by_panic.set(false);
        self.fail_in.take().is_some()
    }

    /// The connection itself, for what a test wants to see behind the trait.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Every row of every table, for comparing two moments.
    pub fn dump(&self) -> Vec<String> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let names: Vec<String> = self.rows(sql).into_iter().map(|row| text(&row[0])).collect();
        let mut lines = Vec::new();
        for name in names {
            let rows = self.rows(&format!("SELECT * FROM {name}"));
            let mut rows: Vec<String> = rows.into_iter().map(|row| format!("{name} {row:?}")).collect();
            rows.sort();
            lines.extend(rows);
        }
        lines
    }

    /// Rows of an ad-hoc statement.
    pub fn rows(&self, sql: &str) -> Vec<Row> {
        let mut statement = self.connection.prepare(sql).expect("the statement prepares");
        let columns = statement.column_count();
        let mut rows = statement.query([]).expect("the statement runs");
        let mut all = Vec::new();
        while let Some(row) = rows.next().expect("a row can be read") {
            all.push((0..columns).map(|index| read(row.get_ref(index).expect("a column"))).collect());
        }
        all
    }

    fn savepoint(&self, verb: &str) -> Result<(), DatabaseError> {
        self.own_statement.store(true, Ordering::Relaxed);
        let done = self.connection.execute_batch(verb).map_err(refused);
        self.own_statement.store(false, Ordering::Relaxed);
        done
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?} is not a text"),
    }
}

/// The object's messages end with the name of SQLite's code; here it is that of the codes that mean something to a caller.
fn refused(error: rusqlite::Error) -> DatabaseError {
    let code = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ": SQLITE_FULL",
        Some(ErrorCode::ReadOnly) => ": SQLITE_READONLY",
        _ => "",
    };
    DatabaseError::Refused(format!("{error}{code}"))
}

/// Whole numbers come back as integers, whatever they were stored as.
fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() <= INTEGER_MAX as f64 => {
            Value::Integer(number as i64)
        }
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8(bytes.to_vec()).expect("text is UTF-8")),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// A JavaScript number carries every integer over, so SQLite sees a REAL.
fn bind(value: &Value) -> rusqlite::types::Value {
    match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::Integer(number) => rusqlite::types::Value::Real(*number as f64),
        Value::Real(number) => rusqlite::types::Value::Real(*number),
        Value::Text(text) => rusqlite::types::Value::Text(text.clone()),
        Value::Blob(bytes) => rusqlite::types::Value::Blob(bytes.clone()),
    }
}

impl Database for NativeDatabase {
    fn execute(&self, sql: &'static str, parameters: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        match self.fail_in.get() {
            Some(0) => {
                self.fail_in.set(None);
                if self.by_panic.take() {
                    // Without the hook, which would print a trace for each.
                    resume_unwind(Box::new("a test asked for a panic"));
                }
                return Err(DatabaseError::Refused("a test asked for a failure".to_owned()));
            }
            Some(statements) => self.fail_in.set(Some(statements - 1)),
            None => {}
        }
        for value in parameters {
            check_storable(value)?;
        }
        let first_words: Vec<&str> = sql.split_whitespace().take(3).collect();
        let is_change = matches!(first_words.first(), Some(&("INSERT" | "UPDATE" | "DELETE")));
        if is_change && first_words.iter().any(|word| ["executors", "executor_keys", "queue_executors"].contains(word))
        {
            assert!(self.known_executors.is_empty(), "the store must forget the executors it knows before {sql}");
        }
        let mut statement = self.connection.prepare_cached(sql).map_err(refused)?;
        if statement.parameter_count() != parameters.len() {
            let (wanted, given) = (statement.parameter_count(), parameters.len());
            return Err(DatabaseError::Refused(format!("{wanted} parameters wanted, {given} given: {sql}")));
        }
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(parameters.iter().map(bind))).map_err(refused)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(refused)? {
            let values = (0..columns).map(|index| row.get_ref(index).map(read).map_err(refused));
            all.push(values.collect::<Result<Row, _>>()?);
        }
        Ok(all)
    }

    fn change(&self, sql: &'static str, parameters: &[Value]) -> Result<bool, DatabaseError> {
        self.execute(sql, parameters)?;
        Ok(self.connection.changes() > 0)
    }

    fn atomically(&self, body: &mut dyn FnMut() -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        let depth = self.depth.get();
        self.savepoint(&format!("SAVEPOINT level{depth}"))?;
        self.depth.set(depth + 1);
        let outcome = catch_unwind(AssertUnwindSafe(body));
        self.depth.set(depth);
        if matches!(outcome, Ok(Ok(()))) {
            return self.savepoint(&format!("RELEASE level{depth}"));
        }
        self.known_executors.forget();
        self.savepoint(&format!("ROLLBACK TO level{depth}; RELEASE level{depth}"))?;
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn rows_used(&self) -> RowsUsed {
        // SQLite itself does not count rows; the object's engine does, and the bench reads them there.
        RowsUsed::default()
    }

    fn size_bytes(&self) -> Result<i64, DatabaseError> {
        let pragma = |name: &str| match self.rows(&format!("PRAGMA {name}"))[0][0] {
            Value::Integer(number) => number,
            ref other => panic!("{other:?} is no number"),
        };
        Ok(pragma("page_count") * pragma("page_size"))
    }

    fn known_executors(&self) -> &Known {
        &self.known_executors
    }

    fn timers(&self) -> &Timers {
        &self.timers
    }
}
