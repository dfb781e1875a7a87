//! Floods: what they can write, and whom they can lock out.

use serde_json::json;
use taskhub::domain::passphrase::{SALT_BYTES, hashed};
use taskhub::http::message::{Outcome, Response};
use taskhub::http::router;
use taskhub::store::database::Value;
use taskhub::store::owner::{PassphraseRow, set_passphrase};

use super::{
    CALLBACK, Page, asking, client, code, exchange, form, from, get, hub, json_of, post, registered, sent, written,
};
use crate::support::{OWNER_TOKEN, World};

const HOUR_MS: i64 = 3_600_000;
/// Where the owner sits.
const HOME: &str = "192.0.2.77";

fn count(world: &World, table: &str) -> i64 {
    match world.db.rows(&format!("SELECT count(*) FROM {table}"))[0][0] {
        Value::Integer(count) => count,
        ref other => panic!("{other:?}"),
    }
}

/// The n-th address of an attacker who has a /32 of IPv6.
fn address(n: u32) -> String {
    format!("2001:{:x}:{:x}:1::{:x}", n % 0xffff + 1, n % 7, n)
}

/// A hub whose passphrase was hashed in one round.
fn quick_hub(passphrase: &str) -> World {
    let world = World::new();
    let hash = hashed(passphrase, [7; SALT_BYTES], 1);
    let row = PassphraseRow { hash, bootstrap: String::new(), changed_at: world.now() };
    set_passphrase(&world.db, &row).expect("it is written");
    world
}

fn registers_from(world: &World, address: &str) -> u16 {
    let body = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none" }).to_string();
    world.send(&from(post("/register", "application/json", body), address)).status
}

/// The owner approves a client from home, and the client takes it up.
fn owner_at_home(world: &World) -> String {
    let id = client(world, &[CALLBACK]);
    let page = Page::open(world, &asking(&id, CALLBACK));
    let response = world.send(&from(page.approving(&["tasks:read"]), HOME));
    assert_eq!(exchange(world, &id, &sent(&response, "code").expect("a code")).status, 200);
    id
}

fn with_secret(world: &World, id: &str, secret: &str, address: &str) -> Response {
    let fields =
        [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", id), ("client_secret", secret)];
    world.send(&from(form("/token", &fields), address))
}

/// Clients share their addresses, and secrets are too long to be guessed.
#[test]
fn wrong_secrets_are_limited_and_lock_nobody_out_who_has_the_right_one() {
    let world = hub();
    let answer = registered(&world, &json!({ "redirect_uris": [CALLBACK] }));
    let (id, secret) = (answer["client_id"].as_str().expect("an id"), answer["client_secret"].as_str().expect("one"));
    let statuses: Vec<u16> = (0..12).map(|_| with_secret(&world, id, "ths_wrong", HOME).status).collect();
    assert_eq!(statuses, [vec![401; 10], vec![429; 2]].concat());
    assert_eq!(json_of(&with_secret(&world, id, secret, HOME))["error"], "invalid_grant", "the secret was right");
    let all: Vec<u16> = (0..200).map(|n| with_secret(&world, id, "ths_wrong", &address(n)).status).collect();
    assert_eq!(all.iter().filter(|status| **status == 401).count(), 90, "a hundred in all");
    let before = world.db.dump();
    for n in 0..200 {
        assert_eq!(with_secret(&world, id, "ths_wrong", &address(n)).status, 429);
        assert_eq!(json_of(&with_secret(&world, id, secret, &address(n)))["error"], "invalid_grant");
    }
    assert_eq!(world.db.dump(), before, "what is refused writes nothing");
}

#[test]
fn a_flood_of_registrations_is_bounded_and_spares_the_owner() {
    let world = hub();
    let id = owner_at_home(&world);
    let mut taken = 0;
    for hour in 0..5 {
        for n in 0..300 {
            taken += u32::from(registers_from(&world, &address(hour * 1_000 + n)) == 201);
        }
        let before = world.db.dump();
        assert_eq!(registers_from(&world, &address(9_999)), 429);
        assert_eq!(world.db.dump(), before);
        assert_eq!(registers_from(&world, HOME), 201, "where the owner approved something, strangers use nothing up");
        world.pass(HOUR_MS);
    }
    assert!((295..=300).contains(&taken), "sixty an hour: {taken}");
    assert!(count(&world, "oauth_clients") <= 101);
    assert!(count(&world, "auth_tries") <= 2 * 201);
    Page::open(&world, &asking(&id, CALLBACK));
}

#[test]
fn a_flood_of_unknown_documents_is_bounded_and_spares_the_owner() {
    let world = hub();
    owner_at_home(&world);
    let look = |n: u32, address: &str| {
        let id = format!("https://client.example/{n}.json");
        router::handle(&world.hub(), &from(get("/authorize", &written(&asking(&id, CALLBACK))), address))
    };
    let read = (0..500).filter(|n| matches!(look(*n, &address(*n)), Outcome::Fetch(_))).count();
    assert_eq!(read, 60);
    let before = world.db.dump();
    let Outcome::Reply(refused) = look(9_999, &address(9_999)) else { panic!("no more is read") };
    assert_eq!(refused.status, 429);
    assert_eq!(world.db.dump(), before);
    assert!(matches!(look(9_999, HOME), Outcome::Fetch(_)));
    // Claude's documents are known without being read.
    let claude = "https://claude.ai/oauth/mcp-oauth-client-metadata";
    let query = written(&asking(claude, "https://claude.ai/api/mcp/auth_callback"));
    let Outcome::Reply(page) = router::handle(&world.hub(), &from(get("/authorize", &query), &address(9_999))) else {
        panic!("it is answered at once")
    };
    assert_eq!(page.status, 200);
}

/// Whatever the address claims to be, a guesser has fifty tries in all, and the owner still gets in.
#[test]
fn a_flood_of_passphrases_is_bounded_and_locks_the_owner_out_of_nothing() {
    let world = quick_hub("correct horse battery staple");
    let id = owner_at_home(&world);
    let page = Page::open(&world, &asking(&id, CALLBACK));
    let guess = page.sending(&[("decision", "approve"), ("scope", "tasks:read"), ("passphrase", "a wrong passphrase")]);
    // Each address once, then the same ones in other spellings.
    let looked_at: Vec<u16> = (0..60).map(|n| world.send(&from(guess.clone(), &address(n))).status).collect();
    assert_eq!(looked_at, [vec![403; 50], vec![429; 10]].concat());
    let before = world.db.dump();
    for odd in ["", "junk", "::ffff:192.0.2.1", "0:0:0:0:0:0:0:1", "*", "192.0.2.1, 192.0.2.77", "' OR 1=1"] {
        assert_eq!(world.send(&from(guess.clone(), odd)).status, 429, "{odd}");
    }
    assert_eq!(world.db.dump(), before, "what is refused writes nothing");
    assert!(count(&world, "auth_tries") <= 201);
    let right = [("decision", "approve"), ("scope", "tasks:read"), ("passphrase", "correct horse battery staple")];
    assert_eq!(world.send(&from(page.sending(&right), &address(1))).status, 429);
    assert_eq!(world.send(&from(page.sending(&right), HOME)).status, 303, "the owner's usual address");
    assert_eq!(world.send(&from(page.approving(&["tasks:read"]), &address(1))).status, 303, "the OWNER_TOKEN");
}

/// One subscriber has a whole /64, and tries from all over it are one subscriber's.
#[test]
fn an_ipv6_subscriber_is_one_address() {
    let world = hub();
    let statuses: Vec<u16> = (0..25).map(|n| registers_from(&world, &format!("2001:db8:1:2:{n:x}::1"))).collect();
    assert_eq!(statuses, [vec![201; 20], vec![429; 5]].concat());
    assert_eq!(registers_from(&world, "2001:db8:1:3::1"), 201);
}

#[test]
fn approvals_without_end_are_bounded() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let page = Page::open(&world, &asking(&id, CALLBACK));
    let statuses: Vec<u16> = (0..1_001).map(|_| world.send(&page.approving(&["tasks:read"])).status).collect();
    assert_eq!(statuses, [vec![303; 1_000], vec![409]].concat());
    assert_eq!(count(&world, "oauth_grants"), 1_000);
    world.pass(60_001);
    exchange(&world, &id, &code(&world, &id));
    assert_eq!(count(&world, "oauth_grants"), 1, "codes that nobody took up make room");
    assert_eq!(world.call("GET", "/api/grants", OWNER_TOKEN, json!(null)).0, 200);
}
