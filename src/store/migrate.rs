//! Brings a database to the present schema, one numbered migration after the other, each in its own transaction.

use super::database::{Database, DatabaseError, Value};
use super::row::Columns;

/// The migrations in order. One that has landed is never edited; a change is a new one at the end.
pub const MIGRATIONS: [&str; 6] = [
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_oauth.sql"),
    include_str!("migrations/0003_effects.sql"),
    include_str!("migrations/0004_files.sql"),
    include_str!("migrations/0005_actions.sql"),
    include_str!("migrations/0006_enrolment.sql"),
];

const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_version (
  one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT";
const READ: &str = "SELECT version FROM schema_version WHERE one = 1";
const WRITE: &str = "INSERT INTO schema_version (one, version) VALUES (1, ?1)
  ON CONFLICT (one) DO UPDATE SET version = excluded.version";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("migrate::create", CREATE), ("migrate::read", READ), ("migrate::write", WRITE)];

/// The version of the newest schema this build knows.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// Applies every migration that the database lacks, and returns the version it has then. A database newer than this
/// build is refused: an older build must not write into it.
pub fn migrate(db: &dyn Database) -> Result<i64, DatabaseError> {
    db.execute(CREATE, &[])?;
    let mut version = match db.execute(READ, &[])?.pop() {
        Some(row) => Columns::of(row).integer("version")?,
        None => 0,
    };
    if version > VERSION {
        return Err(DatabaseError::Refused(format!(
            "the database has schema {version}, this build knows {VERSION}: deploy the newer build again"
        )));
    }
    while version < VERSION {
        let sql = usize::try_from(version).ok().and_then(|index| MIGRATIONS.get(index).copied());
        let sql = sql.ok_or(DatabaseError::Shape("schema_version"))?;
        db.atomically(&mut || {
            for statement in split(sql) {
                db.execute(statement, &[])?;
            }
            db.execute(WRITE, &[Value::Integer(version + 1)]).map(drop)
        })?;
        version += 1;
    }
    Ok(version)
}

/// The statements of a migration: each ends with a semicolon at the end of a line.
pub fn split(sql: &'static str) -> impl Iterator<Item = &'static str> {
    sql.split(";\n").map(str::trim).filter(|statement| {
        statement.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
    })
}
