//! The one thing that the store asks of a database: run a statement, and run a block atomically.
//!
//! Implemented over the object's SQL in `edge::database` and over SQLite in the native tests. The trait promises what
//! both can keep: integers are exact up to 2^53 − 1, no value is longer than `limits::VALUE_BYTES_MAX`, there are no
//! booleans, and a statement never begins or ends a transaction by itself.

use std::fmt;

use super::executors::Known;
use super::timers::Timers;
use crate::domain::storage::StorageFailure;

/// Integers beyond this do not survive the way through a JavaScript number.
pub const INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// One SQL value. A boolean is an `Integer` of 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// An integer between −(2^53 − 1) and 2^53 − 1.
    Integer(i64),
    /// A finite floating-point number. One without a fraction comes back as `Integer`.
    Real(f64),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Why a statement or a transaction did not happen. Nothing of it is left in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// The engine refused the statement: a constraint, a full disk, a bad statement. The text is for the log only.
    Refused(String),
    /// A parameter cannot be stored: an integer beyond 2^53 − 1, a number that is not finite, or a value that is too long.
    Unstorable(&'static str),
    /// A row did not have the shape that the code expects: column name or index.
    Shape(&'static str),
}

impl DatabaseError {
    /// What the caller's owner has to mend.
    pub fn failure(&self) -> StorageFailure {
        match self {
            Self::Refused(reason) => StorageFailure::of(reason),
            Self::Unstorable(_) | Self::Shape(_) => StorageFailure::Other,
        }
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "the database refused: {reason}"),
            Self::Unstorable(reason) => write!(f, "a value cannot be stored: {reason}"),
            Self::Shape(column) => write!(f, "a row has an unexpected shape at {column}"),
        }
    }
}

impl std::error::Error for DatabaseError {}

/// Rows that were read and written since the database was opened, as the engine counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsUsed {
    /// Rows read.
    pub read: u64,
    /// Rows written: a row of a table or of an index each count one.
    pub written: u64,
}

/// A row as it came back, column by column.
pub type Row = Vec<Value>;

/// Where the store keeps everything. Object-safe and synchronous.
pub trait Database {
    /// Runs one statement with exactly as many parameters as it names, and returns all its rows.
    fn execute(&self, sql: &'static str, parameters: &[Value]) -> Result<Vec<Row>, DatabaseError>;

    /// Runs one statement that returns nothing, and says whether it changed any row. To be told by the engine costs less than
    /// half of a RETURNING.
    fn change(&self, sql: &'static str, parameters: &[Value]) -> Result<bool, DatabaseError>;

    /// Runs `body` in one transaction: all of its writes stay if it returns `Ok`, none of them if it returns `Err` or
    /// panics (the panic goes on to the caller). Nests: an inner block that fails undoes only itself.
    fn atomically(&self, body: &mut dyn FnMut() -> Result<(), DatabaseError>) -> Result<(), DatabaseError>;

    /// Rows used so far.
    fn rows_used(&self) -> RowsUsed;

    /// Bytes that the database occupies.
    fn size_bytes(&self) -> Result<i64, DatabaseError>;

    /// The executors that were found in this database; none when it was opened or has undone a block.
    fn known_executors(&self) -> &Known;

    /// The timers that were set in this database.
    fn timers(&self) -> &Timers;
}

/// Checks what both databases must refuse alike before they bind a parameter.
pub fn check_storable(value: &Value) -> Result<(), DatabaseError> {
    match value {
        Value::Integer(number) if number.unsigned_abs() > INTEGER_MAX.unsigned_abs() => {
            Err(DatabaseError::Unstorable("an integer beyond 2^53 - 1"))
        }
        Value::Real(number) if !number.is_finite() => Err(DatabaseError::Unstorable("a number that is not finite")),
        Value::Text(text) if text.len() > crate::domain::limits::VALUE_BYTES_MAX => {
            Err(DatabaseError::Unstorable("a text over the size limit"))
        }
        Value::Blob(bytes) if bytes.len() > crate::domain::limits::VALUE_BYTES_MAX => {
            Err(DatabaseError::Unstorable("a blob over the size limit"))
        }
        _ => Ok(()),
    }
}
