//! The owner's passphrase: what it is checked against, how guessing is limited, and how it is changed.

use serde_json::{Value as Json, json};
use taskhub::domain::passphrase::{ROUNDS, hashed, is_right};
use taskhub::hub;

use super::client::{PASSPHRASE, Page, asking, form, from, header, hub, landed, text_of};
use crate::support::{OWNER_TOKEN, World, request};

const QUARTER_MS: i64 = 900_000;

/// A hub with a page to approve.
fn stage() -> (World, Page) {
    let world = hub();
    let page = world.page(&asking(&world.public_client()));
    (world, page)
}

/// What becomes of this passphrase, typed at this address: the status, and what is told.
fn typed(world: &World, page: &Page, passphrase: &str, address: &str) -> u16 {
    let fields = [("decision", "approve"), ("scope", "tasks:read"), ("passphrase", passphrase)];
    let response = world.send(&from(page.answer(&fields), address));
    match response.status {
        303 => assert!(landed(&response).one("code").is_some()),
        403 => assert!(text_of(&response).contains("This passphrase is wrong"), "{}", text_of(&response)),
        429 => {
            let seconds: i64 = header(&response, "retry-after").expect("a time").parse().expect("seconds");
            assert!((1..=900).contains(&seconds), "{seconds}");
            assert!(text_of(&response).contains("OWNER_TOKEN"), "the way in");
        }
        status => panic!("{status}: {}", text_of(&response)),
    }
    response.status
}

fn rows(world: &World) -> usize {
    world.db.dump().iter().filter(|row| row.starts_with("owner_passphrase")).count()
}

#[test]
fn the_passphrase_opens_and_nothing_else_does() {
    let (world, page) = stage();
    for (number, wrong) in [
        "",
        " ",
        "correct horse battery stapl",
        "correct horse battery staple!",
        "Correct horse battery staple",
        "null",
        "\u{0}",
        "' OR ''='",
        &"x".repeat(100_000),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(typed(&world, &page, wrong, &format!("192.0.2.{number}")), 403, "{wrong:.40}");
    }
    assert_eq!(world.grants(), Vec::<Json>::new());
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 303);
    assert_eq!(typed(&world, &page, &format!(" {PASSPHRASE}\n"), "192.0.2.1"), 303, "space around it does not count");
}

#[test]
fn the_hash_is_slow_salted_and_compared_whole() {
    assert_eq!(ROUNDS, 200_000);
    let one = hashed("a passphrase", [1; 16], 3);
    assert!(one.starts_with("pbkdf2-sha256$3$01010101010101010101010101010101$"), "{one}");
    assert_ne!(one, hashed("a passphrase", [2; 16], 3));
    assert!(is_right("a passphrase", &one) && !is_right("a passphrasf", &one));
    let more_rounds = one.replace("sha256$3$", "sha256$4$");
    for stored in ["", "pbkdf2-sha256$1$00$00", "pbkdf2-sha256$x$$", "md5$1$2$3", &one[..one.len() - 1], &more_rounds] {
        assert!(!is_right("a passphrase", stored), "{stored}");
    }
}

/// It is hashed whole, always in the same number of rounds, and the hashes are compared in constant time; so neither time nor
/// answer depends on how much of it is right.
#[test]
fn a_wrong_passphrase_tells_nothing_about_the_right_one() {
    let (world, page) = stage();
    let mut answers = Vec::new();
    for (number, length) in [0, 1, 10, PASSPHRASE.len() - 1].into_iter().enumerate() {
        let wrong = format!("{}!", &PASSPHRASE[..length]);
        let fields = [("decision", "approve"), ("scope", "tasks:read"), ("passphrase", wrong.as_str())];
        answers.push(world.send(&from(page.answer(&fields), &format!("192.0.2.{number}"))));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.status == 403));
}

#[test]
fn wrong_ones_are_limited_by_address() {
    let (world, page) = stage();
    for left in ["4 tries are left", "3 tries are left", "2 tries are left", "One try is left", "no tries left"] {
        let fields = [("decision", "approve"), ("scope", "tasks:read"), ("passphrase", "a wrong one")];
        let response = world.send(&from(page.answer(&fields), "192.0.2.1"));
        assert_eq!(response.status, 403);
        assert!(text_of(&response).contains(left), "{left}");
        world.pass(1_000);
    }
    let before = world.db.dump();
    for _ in 0..200 {
        assert_eq!(typed(&world, &page, "a wrong one", "192.0.2.1"), 429);
    }
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 429, "also the right one is not looked at");
    assert_eq!(world.db.dump(), before, "a flood after the limit writes no rows");
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.2"), 303, "another address is not affected");
    world.pass(QUARTER_MS - 5_001);
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 429);
    world.pass(1);
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 303);
}

#[test]
fn the_right_one_forgets_the_wrong_ones_of_its_address() {
    let (world, page) = stage();
    for _ in 0..3 {
        (0..4).for_each(|_| assert_eq!(typed(&world, &page, "a wrong one", "192.0.2.1"), 403));
        assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 303);
    }
}

/// One subscriber has a whole /64; every IPv4 address is its own.
#[test]
fn a_network_of_ipv6_is_one_address() {
    let (world, page) = stage();
    for last in 0..5 {
        assert_eq!(typed(&world, &page, "a wrong one", &format!("2001:db8:1:2::{last}")), 403);
    }
    assert_eq!(typed(&world, &page, "a wrong one", "2001:db8:1:2:ffff::1"), 429);
    assert_eq!(typed(&world, &page, "a wrong one", "2001:db8:1:3::1"), 403);
}

/// Guessing from everywhere stops too; who approved before is not locked out by it, and the owner's token always opens.
#[test]
fn wrong_ones_are_limited_in_total() {
    let (world, page) = stage();
    let connected_from = "198.51.100.1";
    let code = {
        let fields = [("decision", "approve"), ("scope", "tasks:read"), ("passphrase", OWNER_TOKEN)];
        landed(&world.send(&from(page.answer(&fields), connected_from))).one("code").unwrap().to_owned()
    };
    let client_id = world.grants()[0]["client_id"].as_str().unwrap().to_owned();
    // An address is trusted once a client took up what was approved there.
    assert_eq!(world.exchanges(&client_id, &code).status, 200);
    for number in 0..50 {
        assert_eq!(typed(&world, &page, "a wrong one", &format!("192.0.2.{number}")), 403);
    }
    let before = world.db.dump();
    for number in 50..90 {
        assert_eq!(typed(&world, &page, PASSPHRASE, &format!("192.0.2.{number}")), 429);
    }
    assert_eq!(world.db.dump(), before);
    assert_eq!(typed(&world, &page, PASSPHRASE, connected_from), 303, "the owner's usual address");
    assert_eq!(typed(&world, &page, OWNER_TOKEN, "192.0.2.99"), 303, "the owner's token");
    // A trusted address has its own limit all the same.
    (0..5).for_each(|_| assert_eq!(typed(&world, &page, "a wrong one", connected_from), 403));
    assert_eq!(typed(&world, &page, PASSPHRASE, connected_from), 429);
    world.pass(QUARTER_MS);
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.99"), 303);
}

#[test]
fn what_is_counted_is_bounded_and_swept_away() {
    let world = World::with(&[("OWNER_PASSPHRASE", PASSPHRASE)]);
    let tries = || world.db.rows("SELECT 1 FROM auth_tries").len();
    for number in 0..600 {
        let address = format!("10.0.{}.{}", number / 250, number % 250);
        world.pass(100_000);
        let metadata = json!({ "redirect_uris": ["https://app.example/x"] });
        world.send(&from(super::client::registration(&metadata), &address));
        assert!(tries() <= 201, "{}", tries());
    }
    world.pass(3_600_000);
    world.run(hub::purge_sign_in).0.unwrap();
    assert_eq!(tries(), 0);
}

#[test]
fn the_owners_token_opens_and_is_not_limited() {
    let (world, page) = stage();
    (0..5).for_each(|_| assert_eq!(typed(&world, &page, "a wrong one", "192.0.2.1"), 403));
    (0..3).for_each(|_| assert_eq!(typed(&world, &page, OWNER_TOKEN, "192.0.2.1"), 303));
    assert_eq!(typed(&world, &page, &format!("{OWNER_TOKEN}x"), "192.0.2.1"), 429);
}

#[test]
fn a_hub_without_a_passphrase_says_what_to_set() {
    let world = World::new();
    let page = world.page(&asking(&world.public_client()));
    let before = world.db.dump();
    let response = world.send(&page.answer(&[
        ("decision", "approve"),
        ("scope", "tasks:read"),
        ("passphrase", "anything at all"),
    ]));
    assert_eq!(response.status, 403);
    assert!(text_of(&response).contains("wrangler secret put OWNER_PASSPHRASE"));
    assert_eq!(world.db.dump(), before);
    assert_eq!(typed(&world, &page, OWNER_TOKEN, "192.0.2.1"), 303);
}

#[test]
fn the_first_passphrase_is_hashed_once() {
    let world = World::with(&[("OWNER_PASSPHRASE", PASSPHRASE)]);
    let page = world.page(&asking(&world.public_client()));
    assert_eq!(rows(&world), 0);
    assert_eq!(typed(&world, &page, "a wrong one", "192.0.2.1"), 403);
    let stored = |world: &World| world.db.rows("SELECT hash, changed_at FROM owner_passphrase");
    let first = stored(&world);
    assert!(format!("{first:?}").contains("pbkdf2-sha256$200000$"), "{first:?}");
    world.pass(1_000);
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 303);
    assert_eq!((rows(&world), stored(&world)), (1, first));
}

fn change(world: &World, bearer: &str, body: Json) -> (u16, Json) {
    world.call("PUT", "/api/passphrase", bearer, body)
}

/// A passphrase that was changed wins over `OWNER_PASSPHRASE`, until that is set anew: the way back in.
#[test]
fn the_passphrase_that_was_set_last_counts() {
    let (mut world, page) = stage();
    assert_eq!(change(&world, OWNER_TOKEN, json!({ "new": "another long passphrase" })).0, 200);
    assert_eq!(typed(&world, &page, PASSPHRASE, "192.0.2.1"), 403);
    assert_eq!(typed(&world, &page, "another long passphrase", "192.0.2.1"), 303);
    world.settings.owner_passphrase = Some("the third long passphrase".to_owned());
    assert_eq!(typed(&world, &page, "another long passphrase", "192.0.2.1"), 403);
    assert_eq!(typed(&world, &page, "the third long passphrase", "192.0.2.1"), 303);
    // Without the variable, what is stored goes on to count.
    world.settings.owner_passphrase = None;
    assert_eq!(typed(&world, &page, "the third long passphrase", "192.0.2.1"), 303);
    assert_eq!(rows(&world), 1);
}

#[test]
fn a_client_that_changes_it_must_know_it() {
    let world = hub();
    let admin = world.connected_asking("hub:admin", &["hub:admin"]).access;
    let new = "another long passphrase";
    let (status, body) = change(&world, &admin, json!({ "new": new }));
    assert_eq!((status, &body["code"]), (400, &json!("bad_request")), "{body}");
    for _ in 0..5 {
        let (status, body) = change(&world, &admin, json!({ "new": new, "current": "a wrong one" }));
        assert_eq!((status, &body["code"]), (403, &json!("wrong_passphrase")), "{body}");
    }
    let (status, body) = change(&world, &admin, json!({ "new": new, "current": PASSPHRASE }));
    assert_eq!((status, &body["code"]), (429, &json!("too_many_tries")), "{body}");
    assert!(body["retry_after_seconds"].as_i64().is_some_and(|seconds| seconds > 0));
    world.pass(QUARTER_MS);
    let (status, body) = change(&world, &admin, json!({ "new": new, "current": PASSPHRASE }));
    assert_eq!((status, &body["grants_revoked"]), (200, &json!(0)), "{body}");
    assert!(world.is_good(&admin), "and stays signed in");
}

#[test]
fn a_change_signs_everybody_out_if_wished() {
    let world = hub();
    let connected = [world.connected(&["tasks:read"]), world.connected(&["tasks:write"])];
    let (status, body) = change(&world, OWNER_TOKEN, json!({ "new": "another long passphrase", "sign_out": true }));
    assert_eq!((status, &body["grants_revoked"]), (200, &json!(2)), "{body}");
    for client in connected {
        assert!(!world.is_good(&client.access));
        super::client::refused(&world.refreshes(&client.client_id, &client.refresh), 400, "invalid_grant");
    }
}

#[test]
fn what_is_no_passphrase_is_refused() {
    let world = hub();
    let before = world.db.dump();
    for new in
        [json!(""), json!("too short"), json!("          x         "), json!("x".repeat(1_025)), json!(7), Json::Null]
    {
        let (status, body) = change(&world, OWNER_TOKEN, json!({ "new": new }));
        assert_eq!(status, 400, "{body}");
    }
    for body in [json!({}), json!({ "new": "another long passphrase", "more": 1 }), json!([])] {
        assert_eq!(change(&world, OWNER_TOKEN, body).0, 400);
    }
    assert_eq!(world.db.dump(), before);
}

/// RFC 6749 §10.10 and common sense: whoever reads the database, or the answers, learns nothing that opens.
#[test]
fn nothing_that_opens_is_stored_in_clear() {
    let (world, page) = stage();
    typed(&world, &page, "a wrong one", "192.0.2.1");
    typed(&world, &page, PASSPHRASE, "192.0.2.1");
    change(&world, OWNER_TOKEN, json!({ "new": "another long passphrase" }));
    let (confidential, secret) = world.registers(&json!({ "redirect_uris": [super::client::CALLBACK] }));
    let code = world.code(&confidential, &["tasks:read"]);
    let connected = world.connected(&["tasks:read"]);
    let again = super::client::tokens(&connected.client_id, &world.refreshes(&connected.client_id, &connected.refresh));
    let dump = world.db.dump().join("\n");
    let handle = connected.refresh.split(['_', '.']).nth(1).expect("a handle");
    let secrets = [
        PASSPHRASE,
        "a wrong one",
        "another long passphrase",
        &secret.unwrap(),
        &code,
        &connected.access,
        &connected.refresh,
        &again.access,
        &again.refresh,
        handle,
        OWNER_TOKEN,
        &world.settings.hub_secret,
        super::client::VERIFIER,
    ];
    for secret in secrets {
        assert!(!dump.contains(secret), "{secret}");
    }
    let shown = format!("{}{:?}", world.owner("GET", "/api/clients", Json::Null).1, world.grants());
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret}");
    }
}

/// A form of the API is no page: its refusals are problems.
#[test]
fn the_api_takes_no_form() {
    let world = hub();
    let mut request = request("PUT", "/api/passphrase", OWNER_TOKEN, &Json::Null);
    request.body = form("/", &[("new", "another long passphrase")]).body;
    assert_eq!(world.send(&request).status, 400);
}
