//! Resource indicators (RFC 8707): one resource, in every spelling that clients have for it.

use taskhub::oauth::resource::is_ours;

use super::client::{HUB, asking, changed, exchange, get, hub, landed, refused, sent_back, tokens, told, written};
use crate::support::World;

const SPELLINGS: [&str; 11] = [
    "https://hub.example/mcp",
    "https://hub.example/mcp/",
    "https://hub.example",
    "https://hub.example/",
    "HTTPS://HUB.EXAMPLE/mcp",
    "https://Hub.Example/mcp/",
    "https://hub.example:443/mcp",
    "https://hub.example:443",
    "https://hub.example/./mcp",
    "https://hub.example/x/../mcp",
    "",
];

const FOREIGN: [&str; 21] = [
    "https://other.example/mcp",
    "https://hub.example.evil.example/mcp",
    "https://evil.example/https://hub.example/mcp",
    "https://hub.example@evil.example/mcp",
    "https://user@hub.example/mcp",
    "https://hub.example:8443/mcp",
    "http://hub.example/mcp",
    "https://hub.example/MCP",
    "https://hub.example/mcp/x",
    "https://hub.example/mcp//",
    "https://hub.example/api",
    "https://hub.example/mcp?x",
    "https://hub.example/mcp?",
    "https://hub.example/mcp#x",
    "https://hub.example/mcp#",
    "https://hub.example./mcp",
    "hub.example/mcp",
    "//hub.example/mcp",
    "/mcp",
    "urn:taskhub",
    " ",
];

#[test]
fn every_spelling_of_the_resource_is_known() {
    for spelling in SPELLINGS.iter().filter(|spelling| !spelling.is_empty()) {
        assert!(is_ours(spelling, HUB), "{spelling}");
    }
    for foreign in FOREIGN {
        assert!(!is_ours(foreign, HUB), "{foreign}");
    }
    assert!(is_ours("http://localhost:8787/mcp", "http://localhost:8787"));
    assert!(!is_ours("http://127.0.0.1:8787/mcp", "http://localhost:8787"));
}

#[test]
fn a_client_may_spell_the_resource_as_it_likes_at_every_step() {
    for spelling in SPELLINGS {
        let world = hub();
        let id = world.public_client();
        let page = world.page(&changed(&asking(&id), "resource", Some(spelling)));
        let code = landed(&world.send(&page.approval(&["tasks:read"]))).one("code").unwrap().to_owned();
        let connected = tokens(&id, &world.token(&changed(&exchange(&id, &code), "resource", Some(spelling))));
        assert!(world.is_good(&connected.access), "{spelling}");
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", id.as_str()),
            ("refresh_token", connected.refresh.as_str()),
            ("resource", "https://hub.example/mcp"),
            ("resource", spelling),
        ];
        tokens(&id, &world.token(&fields));
    }
}

/// RFC 8707 §2: `invalid_target`, whether it stands alone or beside the right one.
#[test]
fn another_resource_is_refused_at_every_step() {
    let world = hub();
    let id = world.approved_client();
    let connected = world.connected(&["tasks:read"]);
    let before = world.db.dump();
    for foreign in FOREIGN {
        for beside in [None, Some(("resource", "https://hub.example/mcp"))] {
            let mut fields = asking(&id);
            fields.extend(beside);
            fields.push(("resource", foreign));
            sent_back(&world.send(&get("/authorize", &written(&fields))), "invalid_target");
            let mut fields = vec![
                ("grant_type", "refresh_token"),
                ("client_id", connected.client_id.as_str()),
                ("refresh_token", connected.refresh.as_str()),
            ];
            fields.extend(beside);
            fields.push(("resource", foreign));
            assert!(refused(&world.token(&fields), 400, "invalid_target").contains("https://hub.example/mcp"));
        }
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_resource_is_the_public_urls() {
    let world = World::with(&[("PUBLIC_URL", "https://public.example")]);
    let id = world.public_client();
    let fields = changed(&asking(&id), "resource", Some("https://public.example/mcp"));
    assert_eq!(world.send(&get("/authorize", &written(&fields))).status, 200);
    let fields = changed(&asking(&id), "resource", Some("https://hub.example/mcp"));
    let response = world.send(&get("/authorize", &written(&fields)));
    let page = told(&response, 400);
    assert!(page.contains("it must be https://public.example/mcp"), "{page}");
}
