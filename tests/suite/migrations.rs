//! Migrations: whole or not at all, and in the end the same schema whatever the way.

use taskhub::store::database::{Database as _, DatabaseError, Row};
use taskhub::store::migrate::{MIGRATIONS, VERSION, migrate, split};

use crate::support::NativeDatabase;

fn schema(db: &NativeDatabase) -> Vec<Row> {
    db.rows("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
}

/// What migrations have made.
const MADE: &str = "SELECT name, sql FROM sqlite_schema WHERE name <> 'schema_version' ORDER BY name";

fn fresh() -> NativeDatabase {
    let db = NativeDatabase::in_memory();
    migrate(&db).expect("a fresh database migrates");
    db
}

/// A database as a build left it that knew only the first `version` migrations.
fn at_version(version: usize) -> NativeDatabase {
    let db = NativeDatabase::in_memory();
    db.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (
  one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT",
        &[],
    )
    .unwrap();
    for sql in &MIGRATIONS[..version] {
        for statement in split(sql) {
            db.execute(statement, &[]).unwrap();
        }
    }
    if version > 0 {
        db.execute("INSERT INTO schema_version VALUES (1, ?1)", &[(version as i64).into()]).unwrap();
    }
    db
}

#[test]
fn a_fresh_schema_is_the_migrated_one() {
    for version in 0..=MIGRATIONS.len() {
        let db = at_version(version);
        assert_eq!(migrate(&db), Ok(VERSION));
        assert_eq!(schema(&db), schema(&fresh()), "from version {version}");
    }
}

#[test]
fn migrating_twice_changes_nothing() {
    let db = fresh();
    let before = (schema(&db), db.dump());
    assert_eq!(migrate(&db), Ok(VERSION));
    assert_eq!((schema(&db), db.dump()), before);
}

/// An older build must not write into what a newer one has made.
#[test]
fn a_database_that_is_newer_than_the_build_is_refused() {
    let db = fresh();
    db.connection().execute("UPDATE schema_version SET version = version + 1", []).unwrap();
    let before = db.dump();
    match migrate(&db) {
        Err(DatabaseError::Refused(reason)) => assert!(reason.contains("newer build"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(db.dump(), before);
}

#[test]
fn a_migration_that_fails_half_way_leaves_nothing_of_itself() {
    for n in 0..200 {
        let db = NativeDatabase::in_memory();
        db.fail_in(Some(n));
        let migrated = migrate(&db);
        if db.call_off() {
            assert_eq!(migrated, Ok(VERSION));
            assert!(n > 10, "there were statements to fail");
            return;
        }
        assert!(migrated.is_err(), "statement {n}");
        let is_whole = (0..=MIGRATIONS.len()).any(|version| {
            let whole = at_version(version);
            let made: Vec<Row> = db.rows(MADE);
            made == whole.rows(MADE) && (version == 0 || db.dump() == whole.dump())
        });
        assert!(is_whole, "statement {n} failed and left {:?}", db.rows(MADE));
        assert_eq!(migrate(&db), Ok(VERSION), "statement {n}: the next start makes up for it");
        assert_eq!(schema(&db), schema(&fresh()));
    }
    panic!("the migration does not end");
}

#[test]
fn a_migration_is_split_at_its_statements() {
    for sql in MIGRATIONS {
        for statement in split(sql) {
            let code = statement.lines().find(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty());
            let code = code.expect("a statement has code");
            assert!(code.starts_with("CREATE ") || code.starts_with("ALTER ") || code.starts_with("UPDATE "), "{code}");
            assert_eq!(statement.matches('(').count(), statement.matches(')').count(), "{statement}");
        }
    }
}

/// A table without STRICT takes a text for a number, and every number arrives as REAL.
#[test]
fn every_table_is_strict() {
    for row in fresh().rows("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'") {
        let is_ours = !matches!(&row[0], taskhub::store::database::Value::Text(name) if name.starts_with("sqlite_"));
        assert!(!is_ours || row[1] == 1_i64.into(), "{row:?}");
    }
}
