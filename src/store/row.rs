//! Reading columns out of a row, by position, in the order in which the statement names them.

use super::database::{DatabaseError, Row, Value};

/// A row that is read from left to right.
pub(super) struct Columns(std::vec::IntoIter<Value>);

impl Columns {
    pub(super) fn of(row: Row) -> Self {
        Self(row.into_iter())
    }

    fn next(&mut self, column: &'static str) -> Result<Value, DatabaseError> {
        self.0.next().ok_or(DatabaseError::Shape(column))
    }

    pub(super) fn text(&mut self, column: &'static str) -> Result<String, DatabaseError> {
        self.maybe_text(column)?.ok_or(DatabaseError::Shape(column))
    }

    pub(super) fn maybe_text(&mut self, column: &'static str) -> Result<Option<String>, DatabaseError> {
        match self.next(column)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            Value::Integer(_) | Value::Real(_) | Value::Blob(_) => Err(DatabaseError::Shape(column)),
        }
    }

    pub(super) fn integer(&mut self, column: &'static str) -> Result<i64, DatabaseError> {
        self.maybe_integer(column)?.ok_or(DatabaseError::Shape(column))
    }

    pub(super) fn maybe_integer(&mut self, column: &'static str) -> Result<Option<i64>, DatabaseError> {
        match self.next(column)? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            Value::Real(_) | Value::Text(_) | Value::Blob(_) => Err(DatabaseError::Shape(column)),
        }
    }

    pub(super) fn count(&mut self, column: &'static str) -> Result<u32, DatabaseError> {
        u32::try_from(self.integer(column)?).map_err(|_| DatabaseError::Shape(column))
    }

    pub(super) fn maybe_count(&mut self, column: &'static str) -> Result<Option<u32>, DatabaseError> {
        let number = self.maybe_integer(column)?;
        number.map(|number| u32::try_from(number).map_err(|_| DatabaseError::Shape(column))).transpose()
    }

    pub(super) fn maybe_real(&mut self, column: &'static str) -> Result<Option<f64>, DatabaseError> {
        match self.next(column)? {
            Value::Null => Ok(None),
            #[expect(clippy::cast_precision_loss, reason = "columns of type REAL hold small numbers")]
            Value::Integer(number) => Ok(Some(number as f64)),
            Value::Real(number) => Ok(Some(number)),
            Value::Text(_) | Value::Blob(_) => Err(DatabaseError::Shape(column)),
        }
    }

    /// Text that must be one of a closed set.
    pub(super) fn word<T>(&mut self, column: &'static str, parse: fn(&str) -> Option<T>) -> Result<T, DatabaseError> {
        parse(&self.text(column)?).ok_or(DatabaseError::Shape(column))
    }

    pub(super) fn maybe_word<T>(
        &mut self,
        column: &'static str,
        parse: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, DatabaseError> {
        let Some(text) = self.maybe_text(column)? else { return Ok(None) };
        parse(&text).map(Some).ok_or(DatabaseError::Shape(column))
    }
}
