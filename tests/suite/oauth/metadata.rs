//! What clients find first (RFC 9728, RFC 8414), and what browsers are told about it.

use serde_json::json;
use taskhub::http::front;

use super::client::{HUB, get, header, hub, json_of, with};
use crate::support::World;

const OF_RESOURCE: [&str; 2] = ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];
const OF_SERVER: [&str; 2] = ["/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/mcp"];

#[test]
fn the_resource_names_itself_and_its_server() {
    for path in OF_RESOURCE {
        let response = hub().send(&get(path, ""));
        assert_eq!((response.status, header(&response, "content-type")), (200, Some("application/json")));
        let expected = json!({
            "resource": "https://hub.example/mcp",
            "resource_name": "taskhub",
            "authorization_servers": [HUB],
            "scopes_supported": ["tasks:read", "tasks:write"],
            "bearer_methods_supported": ["header"],
        });
        assert_eq!(json_of(&response), expected, "{path}");
    }
}

#[test]
fn the_servers_metadata_are_complete() {
    for path in OF_SERVER {
        let response = hub().send(&get(path, ""));
        assert_eq!((response.status, header(&response, "content-type")), (200, Some("application/json")));
        let expected = json!({
            "issuer": HUB,
            "authorization_endpoint": "https://hub.example/authorize",
            "token_endpoint": "https://hub.example/token",
            "registration_endpoint": "https://hub.example/register",
            "revocation_endpoint": "https://hub.example/revoke",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
            "revocation_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
            "scopes_supported": ["tasks:read", "tasks:write", "tasks:execute", "hub:admin", "offline_access"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        });
        assert_eq!(json_of(&response), expected, "{path}");
    }
}

/// They know neither document's path suffix, and fall back to these three paths (2025-03-26, authorization §2.3.3).
#[test]
fn clients_of_2025_03_26_find_the_server_at_the_root() {
    let body = json_of(&hub().send(&get(OF_SERVER[0], "")));
    for (field, path) in
        [("authorization_endpoint", "/authorize"), ("token_endpoint", "/token"), ("registration_endpoint", "/register")]
    {
        assert_eq!(body[field], format!("{}{path}", body["issuer"].as_str().unwrap()));
    }
    assert_eq!(body["issuer"].as_str().unwrap().matches('/').count(), 2, "the issuer has no path");
}

/// `offline_access` is no scope of the resource: neither its metadata nor a challenge may list it.
#[test]
fn offline_access_is_in_the_servers_metadata_only() {
    let world = hub();
    assert!(!json_of(&world.send(&get(OF_RESOURCE[0], ""))).to_string().contains("offline_access"));
    assert!(json_of(&world.send(&get(OF_SERVER[0], ""))).to_string().contains("offline_access"));
    let challenge = world.send(&super::client::form("/mcp", &[]));
    assert_eq!(challenge.status, 401);
    assert!(!header(&challenge, "www-authenticate").expect("a challenge").contains("offline_access"));
}

#[test]
fn metadata_name_the_public_url_whatever_the_request_was_sent_to() {
    let world = World::with(&[("PUBLIC_URL", "https://public.example/")]);
    for path in OF_RESOURCE.iter().chain(&OF_SERVER) {
        let body = json_of(&world.send(&get(path, ""))).to_string();
        assert!(body.contains("https://public.example") && !body.contains("hub.example"), "{body}");
        assert!(!body.contains("example//"), "{body}");
    }
}

#[test]
fn a_page_of_any_origin_reads_metadata_and_calls_the_clients_endpoints() {
    let world = hub();
    let paths = OF_RESOURCE.iter().chain(&OF_SERVER).chain(&["/token", "/register", "/revoke", "/mcp"]);
    for path in paths {
        let question = taskhub::http::message::Request { method: "OPTIONS".to_owned(), ..get(path, "") };
        let question = with(question, "origin", "https://inspector.example");
        let answer = front::refuse(&question, &world.settings, world.now()).expect("the front answers it");
        assert_eq!((answer.status, header(&answer, "access-control-allow-origin")), (204, Some("*")), "{path}");
        let allowed = header(&answer, "access-control-allow-headers").unwrap();
        for name in ["Authorization", "Content-Type", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"] {
            assert!(allowed.contains(name), "{allowed}");
        }
        // Errors too must be readable.
        let response = world.send(&with(super::client::form(path, &[]), "origin", "https://inspector.example"));
        assert_eq!(header(&response, "access-control-allow-origin"), Some("*"), "{path}");
        assert!(header(&response, "access-control-expose-headers").unwrap().contains("WWW-Authenticate"), "{path}");
    }
}

/// A page elsewhere has no business at the page with the passphrase.
#[test]
fn no_page_reads_the_consent_page() {
    let world = hub();
    let request = with(get("/authorize", ""), "origin", "https://evil.example");
    assert_eq!(header(&world.send(&request), "access-control-allow-origin"), None);
    let question = taskhub::http::message::Request { method: "OPTIONS".to_owned(), ..request };
    let answer = front::refuse(&question, &world.settings, world.now()).expect("the front refuses it");
    assert_eq!((answer.status, header(&answer, "access-control-allow-origin")), (405, None));
}

#[test]
fn what_is_not_there_says_so_in_json() {
    let world = hub();
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/oauth-authorization-server/x",
        "/.well-known/jwks.json",
        "/introspect",
        "/userinfo",
        "/authorize/device",
    ] {
        let response = world.send(&get(path, ""));
        assert_eq!((response.status, json_of(&response)["code"].as_str()), (404, Some("not_found")), "{path}");
    }
    for (path, allowed) in
        [("/token", "POST"), ("/register", "POST"), ("/revoke", "POST"), (OF_SERVER[0], "GET"), (OF_RESOURCE[1], "GET")]
    {
        let method = if allowed == "GET" { "POST" } else { "GET" };
        let response = world.send(&taskhub::http::message::Request { method: method.to_owned(), ..get(path, "") });
        assert_eq!((response.status, header(&response, "allow")), (405, Some(allowed)), "{path}");
        assert_eq!(json_of(&response)["code"], "method_not_allowed");
    }
}
