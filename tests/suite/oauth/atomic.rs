//! Every command of signing in, with its n-th statement failing or panicking, for every n: it has not happened, nobody is
//! told that it has, and the same command succeeds afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::json;
use taskhub::domain::scope::{Scope, Scopes};
use taskhub::http::message::Request;
use taskhub::hub::{self, ClientMetadata, Consent, Exchange, Hub, SignIn, Throttle, TokenRejected};
use taskhub::store::clients::{AuthMethod, ClientRow};

use super::client::{
    CALLBACK, CHALLENGE, Connected, PASSPHRASE, VERIFIER, asking, exchange, form, get, hub as new_hub, json_of,
    registration, text_of, tokens, written,
};
use crate::support::World;

/// A hub in the middle of signing in.
struct Stage {
    world: World,
    client: ClientRow,
    /// Not taken up yet.
    code: String,
    /// Taken up.
    used_code: String,
    connected: Connected,
    /// Three generations behind the newest.
    old_refresh: String,
    grant_id: String,
}

fn stage() -> Stage {
    let world = new_hub();
    world.executor("bot", &[]);
    let id = world.public_client();
    let used_code = world.code(&id, &["tasks:read"]);
    let first = tokens(&id, &world.exchanges(&id, &used_code));
    let second = tokens(&id, &world.refreshes(&id, &first.refresh));
    let third = tokens(&id, &world.refreshes(&id, &second.refresh));
    let connected = tokens(&id, &world.refreshes(&id, &third.refresh));
    let grant_id = world.grants()[0]["id"].as_str().expect("an id").to_owned();
    let code = world.code(&id, &["tasks:read"]);
    world.public_client();
    (0..2).for_each(|_| drop(world.run(|hub| hub::sign_in(hub, "a wrong one", "192.0.2.1"))));
    let client = world.run(|hub| hub::find_client(hub, &id)).0.unwrap().expect("it is known").row;
    world.pass(1);
    Stage { world, client, code, used_code, connected, old_refresh: first.refresh, grant_id }
}

/// A command under its name; `Err` tells that the database failed.
struct Command {
    name: &'static str,
    run: fn(&Stage, &Hub<'_>) -> Result<(), String>,
}

fn done<T, E: std::fmt::Debug>(outcome: Result<T, E>) -> Result<(), String> {
    outcome.map(drop).map_err(|error| format!("{error:?}"))
}

/// A refusal that changes something: the change counts.
fn replayed<T>(outcome: Result<T, TokenRejected>) -> Result<(), String> {
    match outcome {
        Err(TokenRejected::Replayed) => Ok(()),
        Err(other) => Err(format!("{other:?}")),
        Ok(_) => panic!("a replay brought tokens"),
    }
}

fn signs_in(hub: &Hub<'_>, typed: &str, expected: SignIn) -> Result<(), String> {
    let outcome = hub::sign_in(hub, typed, "192.0.2.1").map_err(|error| format!("{error:?}"))?;
    assert_eq!(outcome, expected);
    Ok(())
}

fn metadata() -> ClientMetadata {
    ClientMetadata {
        name: Some("New".to_owned()),
        uri: None,
        redirect_uris: vec![CALLBACK.to_owned()],
        auth_method: AuthMethod::None,
    }
}

fn consents(stage: &Stage, hub: &Hub<'_>, scopes: Scopes, executor: Option<&str>) -> Result<(), String> {
    let (client, address) = (&stage.client, "192.0.2.1");
    done(hub::consent(
        hub,
        &Consent { client, redirect_uri: CALLBACK, code_challenge: CHALLENGE, scopes, executor, address },
    ))
}

fn exchanges<'s>(stage: &'s Stage, code: &'s str) -> Exchange<'s> {
    Exchange { code, client_id: &stage.client.id, redirect_uri: Some(CALLBACK), verifier: VERIFIER }
}

const COMMANDS: &[Command] = &[
    Command { name: "register a client", run: |_, hub| done(hub::register_client(hub, &metadata())) },
    Command {
        name: "keep a document",
        run: |_, hub| done(hub::keep_document(hub, "https://app.example/client.json", &metadata())),
    },
    Command { name: "take a try", run: |_, hub| done(hub::take_try(hub, Throttle::Registration, "192.0.2.9")) },
    Command { name: "sign in wrongly", run: |_, hub| signs_in(hub, "a wrong one", SignIn::Wrong { left: 2 }) },
    Command { name: "sign in", run: |_, hub| signs_in(hub, PASSPHRASE, SignIn::Right) },
    Command { name: "consent", run: |stage, hub| consents(stage, hub, Scopes::USUAL, None) },
    Command {
        name: "consent to work",
        run: |stage, hub| consents(stage, hub, Scopes::NONE.with(Scope::TasksExecute), Some("bot")),
    },
    Command { name: "exchange", run: |stage, hub| done(hub::exchange(hub, &exchanges(stage, &stage.code))) },
    Command {
        name: "exchange again",
        run: |stage, hub| replayed(hub::exchange(hub, &exchanges(stage, &stage.used_code))),
    },
    Command { name: "refresh", run: |stage, hub| done(hub::refresh(hub, &stage.client.id, &stage.connected.refresh)) },
    Command {
        name: "refresh with an old token",
        run: |stage, hub| replayed(hub::refresh(hub, &stage.client.id, &stage.old_refresh)),
    },
    Command {
        name: "give a token back",
        run: |stage, hub| done(hub::give_back(hub, Some(&stage.client.id), &stage.connected.access)),
    },
    Command { name: "revoke a grant", run: |stage, hub| done(hub::revoke_grant(hub, &stage.grant_id)) },
    Command { name: "revoke all grants", run: |_, hub| done(hub::revoke_all_grants(hub)) },
    Command { name: "delete a client", run: |stage, hub| done(hub::delete_client(hub, &stage.client.id)) },
    Command {
        name: "change the passphrase and sign out",
        run: |_, hub| done(hub::change_passphrase(hub, "another long passphrase", true)),
    },
];

/// Runs the command with its n-th statement failing, for every n, until it needs no more than n.
fn fail_at_every_statement(command: &Command, panics: bool) -> u32 {
    let stage = stage();
    let before = stage.world.db.dump();
    for n in 0..50 {
        let db = &stage.world.db;
        if panics {
            db.panic_in(n)
        } else {
            db.fail_in(Some(n))
        }
        let hub = stage.world.hub();
        let outcome = catch_unwind(AssertUnwindSafe(|| (command.run)(&stage, &hub)));
        if db.call_off() {
            assert_eq!(outcome.ok(), Some(Ok(())), "{} succeeds when nothing fails", command.name);
            assert_ne!(db.dump(), before, "{} does something", command.name);
            return n;
        }
        assert!(!matches!(outcome, Ok(Ok(()))), "{}: statement {n} failed, and nobody was told", command.name);
        assert_eq!(db.dump(), before, "{}: statement {n} failed", command.name);
    }
    panic!("{} does not end", command.name);
}

#[test]
fn a_command_that_fails_half_way_leaves_nothing() {
    for command in COMMANDS {
        let statements = fail_at_every_statement(command, false);
        assert!((1..=12).contains(&statements), "{} takes {statements} statements", command.name);
    }
}

#[test]
fn a_command_that_panics_half_way_leaves_nothing() {
    for command in COMMANDS {
        fail_at_every_statement(command, true);
    }
}

/// The sweep of what is over is one transaction.
#[test]
fn a_purge_that_fails_half_way_leaves_nothing() {
    let stage = stage();
    stage.world.pass(400 * 86_400_000);
    let before = stage.world.db.dump();
    for n in 0..20 {
        stage.world.db.fail_in(Some(n));
        let purged = stage.world.run(hub::purge_sign_in).0;
        if stage.world.db.call_off() {
            assert_eq!(purged, Ok(()));
            assert!(stage.world.grants().is_empty());
            return;
        }
        assert!(purged.is_err(), "statement {n}");
        assert_eq!(stage.world.db.dump(), before, "statement {n}");
    }
    panic!("the purge does not end");
}

/// The first passphrase is written by a transaction of its own, before the try is looked at: either both are there, or the
/// next try begins again.
#[test]
fn the_first_passphrase_survives_a_failure_of_the_first_try() {
    // The statement that writes the passphrase, two of those that count the try, and none.
    for (n, expected) in [(Some(4), (0, 0)), (Some(5), (1, 0)), (Some(6), (1, 0)), (None, (1, 2))] {
        let world = World::with(&[("OWNER_PASSPHRASE", PASSPHRASE)]);
        world.db.fail_in(n);
        let outcome = world.run(|hub| hub::sign_in(hub, "short", "192.0.2.1")).0;
        assert_eq!((outcome.is_ok(), world.db.call_off()), (n.is_none(), false));
        let written = world.db.rows("SELECT 1 FROM owner_passphrase").len();
        let tries = world.db.rows("SELECT 1 FROM auth_tries").len();
        assert_eq!((written, tries), expected, "statement {n:?}");
    }
}

/// The endpoints: each says that storage failed, in the form that its caller reads, and a repeated request succeeds. What
/// was counted against floods may stay counted.
#[test]
fn an_endpoint_whose_database_fails_says_so() {
    let world = new_hub();
    let id = world.public_client();
    let connected = world.connected(&["tasks:read"]);
    let code = world.code(&id, &["tasks:read"]);
    let page = world.page(&asking(&id));
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", connected.client_id.as_str()),
        ("refresh_token", connected.refresh.as_str()),
    ];
    let requests: [(&str, Request); 7] = [
        ("page", get("/authorize", &written(&asking(&id)))),
        ("page", page.answer(&[("decision", "approve"), ("scope", "tasks:read"), ("passphrase", PASSPHRASE)])),
        ("oauth", registration(&json!({ "redirect_uris": [CALLBACK] }))),
        ("oauth", form("/token", &exchange(&id, &code))),
        ("oauth", form("/token", &refresh)),
        ("oauth", form("/revoke", &[("token", &connected.refresh), ("client_id", &connected.client_id)])),
        ("problem", crate::support::request("GET", "/api/clients", &connected.access, &json!(null))),
    ];
    let dump = || -> Vec<String> { world.db.dump().into_iter().filter(|row| !row.starts_with("auth_tries")).collect() };
    for (kind, request) in requests {
        let before = dump();
        let mut failures = 0;
        for n in 0..30 {
            world.db.fail_in(Some(n));
            let response = world.send(&request);
            if world.db.call_off() {
                assert!([200, 201, 303, 401].contains(&response.status), "{request:?} {response:?}");
                break;
            }
            failures += 1;
            assert_eq!((response.status, dump()), (500, before.clone()), "{n} {request:?}");
            match kind {
                "page" => assert!(text_of(&response).contains("storage failed"), "{}", text_of(&response)),
                "oauth" => drop(super::client::refused(&response, 500, "server_error")),
                _ => assert_eq!(json_of(&response)["code"], "internal"),
            }
        }
        assert!(failures > 0 && failures < 29, "{failures} {request:?}");
    }
}
