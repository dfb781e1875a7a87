//! The SQL: every statement prepares, its plan is a golden file, nothing on a hot path scans or sorts, and none is left out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use taskhub::store::migrate::migrate;
use taskhub::store::statements;

use crate::support::{NativeDatabase, check_golden, rust_sources};

/// Plans that may scan or sort, each for a reason.
const EXCUSED: &[(&str, &str, &str)] = &[
    ("events::chain", "SCAN chain", "the rows that the recursion has just made, at most `EVENTS_SEARCHED_MAX`"),
    ("events::chain", "USE TEMP B-TREE FOR ORDER BY", "the same few rows, in the order of the chain"),
    ("events::delete_chain", "SCAN chain", "the events of the one task that leaves"),
    (
        "clients::all",
        "SCAN oauth_clients",
        "all clients are asked for, in the order of their ids, at most `CLIENTS_READ_MAX`",
    ),
    ("attachments::count_loose", "SCAN (subquery-1)", "counts what the inner query found, which its limit bounds"),
    ("grants::count", "SCAN (subquery-1)", "counts what the inner query found, which its limit bounds"),
    ("executors::all", "SCAN e", "all executors are asked for, at most `EXECUTORS_MAX`"),
    ("tasks::count_lane", "SCAN (subquery-1)", "counts what the inner query found, which its limit bounds"),
    ("tasks::count_working", "SCAN (subquery-1)", "counts what the inner query found, which its limit bounds"),
];

fn fresh() -> NativeDatabase {
    let db = NativeDatabase::in_memory();
    migrate(&db).expect("a fresh database migrates");
    db
}

fn plan(db: &NativeDatabase, sql: &str) -> Vec<String> {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let mut statement = db.connection().prepare(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let mut rows = statement.raw_query();
    let mut lines = Vec::new();
    let mut depths = std::collections::BTreeMap::from([(0, 0)]);
    while let Some(row) = rows.next().expect("the plan can be read") {
        let (id, parent, detail): (i64, i64, String) =
            (row.get(0).expect("id"), row.get(1).expect("parent"), row.get(3).expect("detail"));
        let depth = depths.get(&parent).copied().unwrap_or_default();
        depths.insert(id, depth + 1);
        lines.push(format!("{}{detail}", "  ".repeat(depth)));
    }
    lines
}

#[test]
fn every_statement_prepares_and_has_a_name_of_its_own() {
    let db = fresh();
    let mut names = BTreeSet::new();
    for (name, sql) in statements() {
        assert!(names.insert(name), "{name} is there twice");
        if let Err(error) = db.connection().prepare(sql) {
            panic!("{name}: {error}");
        }
    }
}

/// A plan that changes is a decision: look at it, then renew the file with `UPDATE=1`.
#[test]
fn every_plan_is_the_one_that_was_looked_at() {
    let db = fresh();
    let mut text = String::new();
    for (name, sql) in statements() {
        writeln!(text, "{name}").unwrap();
        for line in plan(&db, sql) {
            writeln!(text, "    {line}").unwrap();
        }
    }
    check_golden("tests/suite/golden/plans.txt", &text);
}

#[test]
fn nothing_scans_or_sorts_but_what_is_excused() {
    let db = fresh();
    let mut used = BTreeSet::new();
    for (name, sql) in statements() {
        for line in plan(&db, sql) {
            let line = line.trim();
            // The first of a recursion's or a count's own rows is no table.
            if !line.starts_with("SCAN ") && !line.contains("TEMP B-TREE") || line == "SCAN CONSTANT ROW" {
                continue;
            }
            // Along an index in its order, with a LIMIT: as cheap as a search.
            let along_an_index = line.contains(" USING ") && sql.contains("LIMIT");
            let excuse = EXCUSED.iter().position(|(whose, what, _)| *whose == name && *what == line);
            used.extend(excuse);
            assert!(along_an_index || excuse.is_some(), "{name}: {line}\n{sql}");
        }
    }
    assert_eq!(used.len(), EXCUSED.len(), "an excuse that is not needed is none");
}

/// The rows behind the lists are found by an index, never by a walk over the history.
#[test]
fn what_the_index_of_due_tasks_holds_is_open() {
    let db = fresh();
    for (name, index) in [
        ("tasks::next_ready", "tasks_open"),
        ("tasks::count_lane", "tasks_open"),
        ("tasks::count_working", "tasks_open"),
        ("tasks::has_open", "tasks_open"),
        ("tasks::page_open", "tasks_open"),
        ("tasks::due", "tasks_due"),
        ("timers::next_due", "tasks_due"),
        ("tasks::page_unhappy", "tasks_unhappy"),
        ("tasks::by_idempotency_key", "tasks_idempotency"),
        ("events::by_request", "task_events_request"),
        ("attachments::of_task", "attachments_task"),
        ("attachments::expired", "attachments_expiry"),
        ("attachments::count_loose", "attachments_expiry"),
        ("attachments::is_named", "attachments_shared"),
    ] {
        let (_, sql) = statements().into_iter().find(|(found, _)| *found == name).expect(name);
        let plan = plan(&db, sql).join("\n");
        assert!(plan.contains(&format!("INDEX {index}")), "{name}: {plan}");
    }
}

#[test]
fn the_schema_is_the_one_that_was_looked_at() {
    let rows = fresh().rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name");
    let mut text = String::new();
    for row in rows {
        let taskhub::store::database::Value::Text(sql) = &row[0] else { panic!("a statement is a text") };
        writeln!(text, "{sql};\n").unwrap();
    }
    check_golden("tests/suite/golden/schema.sql", &text);
}

/// Names of the constants in a source that hold SQL.
fn constants(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (start, _) in source.match_indices("const ") {
        let declaration: String = source[start..].chars().take(120).collect();
        let Some((name, value)) = declaration["const ".len()..].split_once(": &str =") else { continue };
        if !name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
            continue;
        }
        let value = value.trim_start();
        let begins = |word: &str| value.starts_with(&format!("\"{word}"));
        let is_sql = value.starts_with("concat!")
            || value.starts_with("moved!")
            || value.starts_with("woken!")
            || ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "CREATE", "REPLACE"].into_iter().any(begins);
        if is_sql {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn every_statement_of_the_store_is_listed() {
    // `history` belongs to builds with test hooks only.
    let sources: Vec<(String, String)> =
        rust_sources("src/store").into_iter().filter(|(path, _)| !path.ends_with("store/history.rs")).collect();
    let everything: String = sources.iter().map(|(_, source)| source.as_str()).collect();
    let mut count = 0;
    for (path, source) in &sources {
        for name in constants(source) {
            count += 1;
            let is_listed = everything.contains(&format!("::{name})")) || everything.contains(&format!(", {name})"));
            assert!(is_listed, "{path}: {name} is missing in STATEMENTS");
        }
    }
    assert_eq!(count, statements().len());
}

#[test]
fn there_is_no_sql_outside_the_store() {
    for (path, source) in rust_sources("src") {
        if path.starts_with("src/store/") {
            continue;
        }
        for word in ["SELECT ", "INSERT INTO ", "UPDATE tasks", "DELETE FROM ", "PRAGMA "] {
            assert!(!source.contains(word), "{path} holds SQL: {word}");
        }
    }
}
