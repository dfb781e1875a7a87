//! Every rung of the dual-era ladder (notes: points 1 to 8; the reference implementation's order).

use serde_json::{Value as Json, json};
use taskhub::domain::limits::{REQUEST_BODY_BYTES_MAX, RPC_BATCH_MAX};
use taskhub::http::message::Request;

use super::client::{MODERN, legacy, meta, modern, post, read, send};
use crate::support::World;

fn request(id: Json, method: &str, params: Json) -> Json {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Checks status, code and id of an error, and returns its data.
fn refused(answer: (u16, Json), status: u16, code: i64, id: Json) -> Json {
    let (found, message) = answer;
    assert_eq!(found, status, "{message}");
    assert_eq!(message["jsonrpc"], "2.0");
    assert_eq!(message["error"]["code"], code, "{message}");
    assert_eq!(message["id"], id, "{message}");
    assert!(message.get("result").is_none());
    assert!(message["error"]["message"].as_str().is_some_and(|text| text.len() > 10));
    message["error"]["data"].clone()
}

#[test]
fn other_methods_are_405_with_allow() {
    let world = World::new();
    for method in ["GET", "DELETE", "PUT"] {
        let response = world.send(&Request { method: method.to_owned(), ..post(&[], b"") });
        assert_eq!(response.status, 405);
        assert!(response.headers.contains(&("allow", "POST".to_owned())), "{method}");
    }
}

#[test]
fn no_token_is_401_before_anything_is_parsed() {
    let response = World::new().send(&post(&[("authorization", "")], b"{"));
    assert_eq!(response.status, 401);
    let challenge = response.headers.iter().find(|(name, _)| *name == "www-authenticate").expect("a challenge");
    assert!(challenge.1.contains("resource_metadata=\"https://hub.example/.well-known/oauth-protected-resource/mcp\""));
}

#[test]
fn media_type_and_size() {
    let world = World::new();
    let ping = request(json!(1), "ping", json!({})).to_string();
    for wrong in ["text/plain", "", "text/plain; a=application/json", "application/jsonp"] {
        let answer = read(&world.send(&post(&[("content-type", wrong)], ping.as_bytes())));
        refused(answer, 415, -32_000, Json::Null);
    }
    for right in ["application/json", "Application/JSON; charset=utf-8", "application/json;"] {
        assert_eq!(world.send(&post(&[("content-type", right)], ping.as_bytes())).status, 200, "{right}");
    }
    let large = format!("{ping}{}", " ".repeat(REQUEST_BODY_BYTES_MAX));
    refused(read(&world.send(&post(&[], large.as_bytes()))), 413, -32_000, Json::Null);
}

#[test]
fn any_accept_will_do() {
    let world = World::new();
    for accept in ["", "application/json", "text/event-stream", "*/*", "text/html"] {
        let body = request(json!(1), "ping", json!({})).to_string();
        assert_eq!(world.send(&post(&[("accept", accept)], body.as_bytes())).status, 200, "{accept}");
    }
}

#[test]
fn what_is_no_json_is_a_parse_error() {
    let world = World::new();
    for body in ["", "{", "nonsense", "{\"a\":}", "\u{feff}{}"] {
        refused(read(&world.send(&post(&[], body.as_bytes()))), 400, -32_700, Json::Null);
    }
    refused(
        read(&world.send(&post(&[], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"))),
        400,
        -32_700,
        Json::Null,
    );
    let deep = "[".repeat(100_000);
    refused(read(&world.send(&post(&[], deep.as_bytes()))), 400, -32_700, Json::Null);
}

#[test]
fn what_is_no_message_is_an_invalid_request() {
    let world = World::new();
    let shapes = [
        json!(1),
        json!("ping"),
        json!(null),
        json!({}),
        json!({ "method": "ping" }),
        json!({ "jsonrpc": "1.0", "id": 1 }),
        json!({ "jsonrpc": "2.0", "id": 1 }),
        json!({ "jsonrpc": "2.0", "method": 5 }),
        json!({ "jsonrpc": "2.0", "method": "ping", "result": {} }),
        json!({ "jsonrpc": "2.0", "method": "ping", "params": [1] }),
        json!({ "jsonrpc": "2.0", "id": null, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": {}, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": true, "method": "ping" }),
    ];
    for shape in shapes {
        refused(send(&world, &[], &shape), 400, -32_600, Json::Null);
    }
    // Where the id can be told, it is echoed.
    let half = json!({ "jsonrpc": "2.0", "id": "x", "method": "ping", "params": 3 });
    refused(send(&world, &[], &half), 400, -32_600, json!("x"));
    let fraction = json!({ "jsonrpc": "2.0", "id": 1.5, "method": "ping" });
    refused(send(&world, &[], &fraction), 400, -32_600, json!(1.5));
}

#[test]
fn ids_are_echoed_as_they_came() {
    let world = World::new();
    for id in [json!(0), json!(-3), json!(9_007_199_254_740_991_i64), json!("häß"), json!("")] {
        let (status, message) = send(&world, &[], &request(id.clone(), "ping", json!({})));
        assert_eq!((status, &message["id"], &message["result"]), (200, &id, &json!({})));
    }
}

#[test]
fn batches_are_for_2025_03_26_only() {
    let world = World::new();
    let ping = |id: i64| request(json!(id), "ping", json!({}));
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
    let answer = json!({ "jsonrpc": "2.0", "id": 4, "result": {} });

    for headers in [&[][..], &[("mcp-protocol-version", "2025-03-26")]] {
        let batch = json!([ping(1), notification, answer, request(json!(2), "no/such", json!({})), ping(3)]);
        let (status, answers) = send(&world, headers, &batch);
        assert_eq!(status, 200);
        let answers = answers.as_array().expect("a batch of answers");
        let ids: Vec<i64> = answers.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(answers[1]["error"]["code"], -32_601);
        // One element is still a batch.
        assert_eq!(send(&world, headers, &json!([ping(1)])).1, json!([{ "jsonrpc": "2.0", "id": 1, "result": {} }]));
        assert_eq!(send(&world, headers, &json!([notification, answer])), (202, Json::Null));
    }
    for version in ["2025-06-18", "2025-11-25", MODERN, "1999-01-01"] {
        let answer = send(&world, &[("mcp-protocol-version", version)], &json!([ping(1)]));
        refused(answer, 400, -32_600, Json::Null);
    }
    let modern_element = request(json!(2), "tools/list", json!({ "_meta": meta() }));
    let handshake = request(json!(2), "initialize", json!({ "protocolVersion": "2025-03-26" }));
    let many: Vec<Json> = (0..=RPC_BATCH_MAX as i64).map(ping).collect();
    for batch in
        [json!([]), json!([ping(1), modern_element]), json!([ping(1), handshake]), json!([ping(1), 5]), json!(many)]
    {
        refused(send(&world, &[], &batch), 400, -32_600, Json::Null);
    }
}

#[test]
fn initialize_echoes_what_it_supports_or_offers_the_newest() {
    let world = World::new();
    let newest = "2025-11-25";
    let asked = [
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), newest),
        (json!("2024-11-05"), newest),
        (json!(MODERN), newest),
        (json!("nonsense"), newest),
        (json!(null), newest),
    ];
    for (asked, given) in asked {
        let params =
            json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let response = world.send(&post(&[], request(json!(1), "initialize", params).to_string().as_bytes()));
        assert!(response.headers.iter().all(|(name, _)| *name != "mcp-session-id"));
        let (status, message) = read(&response);
        let result = &message["result"];
        assert_eq!((status, &result["protocolVersion"]), (200, &json!(given)), "{asked}");
        assert_eq!(result["capabilities"], json!({ "tools": {} }));
        assert_eq!(result["serverInfo"]["name"], "taskhub");
        assert!(result["serverInfo"]["version"].is_string());
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("submit_task") && text.len() < 2_000));
        for modern_only in ["resultType", "ttlMs", "cacheScope", "_meta"] {
            assert!(result.get(modern_only).is_none(), "{modern_only}");
        }
    }
}

#[test]
fn initialize_with_an_envelope() {
    let world = World::new();
    let mut params = json!({ "protocolVersion": "2025-11-25", "_meta": meta() });
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "initialize")];
    // A valid modern envelope makes it a modern request, and there is no such method.
    refused(send(&world, &headers, &request(json!(1), "initialize", params.clone())), 404, -32_601, json!(1));
    // A modern header alone contradicts the body.
    params["_meta"] = json!({});
    refused(send(&world, &headers, &request(json!(1), "initialize", params.clone())), 400, -32_020, json!(1));
    // An envelope that is broken, or names an old revision, changes nothing.
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": MODERN });
    assert_eq!(send(&world, &[], &request(json!(1), "initialize", params.clone())).0, 200);
    params["_meta"] = meta();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-06-18");
    assert_eq!(send(&world, &[], &request(json!(1), "initialize", params)).0, 200);
}

#[test]
fn legacy_requests() {
    let world = World::new();
    assert_eq!(legacy(&world, "ping", json!({})).1["result"], json!({}));
    let (status, message) = legacy(&world, "tools/list", json!({}));
    let keys: Vec<&str> = message["result"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((status, keys), (200, vec!["tools"]));
    // Unknown methods are answered in band, those of the other era among them.
    for method in
        ["no/such", "server/discover", "resources/list", "prompts/list", "logging/setLevel", "subscriptions/listen"]
    {
        refused(legacy(&world, method, json!({})), 200, -32_601, json!(7));
    }
    // Other keys of the envelope are no claim.
    let (status, _) = legacy(&world, "tools/list", json!({ "_meta": { "progressToken": 1 } }));
    assert_eq!(status, 200);
    // No version header means 2025-03-26; params may be null or absent.
    for body in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": null }),
    ] {
        assert_eq!(send(&world, &[], &body).0, 200);
    }
    for version in ["2025-03-26", "2025-06-18", "2025-11-25", ""] {
        let body = request(json!(1), "ping", json!({}));
        assert_eq!(send(&world, &[("mcp-protocol-version", version)], &body).0, 200, "{version}");
    }
    for version in ["2024-11-05", "2025-01-01", "1"] {
        let body = request(json!(1), "ping", json!({}));
        refused(send(&world, &[("mcp-protocol-version", version)], &body), 400, -32_000, json!(1));
    }
}

#[test]
fn what_wants_no_answer_gets_202_and_nothing() {
    let world = World::new();
    let notifications = [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "no/such" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "x" } }),
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": 1, "message": "x" } }),
    ];
    for body in &notifications {
        for headers in [&[][..], &[("mcp-protocol-version", "2025-11-25")]] {
            let response = world.send(&post(headers, body.to_string().as_bytes()));
            assert_eq!((response.status, response.body.len()), (202, 0), "{body}");
        }
        // The modern era has notifications, but no requests of the server that a client could answer.
        let (status, message) = send(&world, &[("mcp-protocol-version", MODERN)], body);
        if body.get("method").is_some() {
            assert_eq!(status, 202);
        } else {
            refused((status, message), 400, -32_000, Json::Null);
        }
    }
}

#[test]
fn notifications_that_contradict_themselves() {
    let world = World::new();
    let plain = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
    let with = |version: Json| {
        json!({ "jsonrpc": "2.0", "method": "notifications/x",
            "params": { "_meta": { "io.modelcontextprotocol/protocolVersion": version } } })
    };
    let null = Json::Null;
    // Of a modern notification no header is required, but those that are there must be right.
    assert_eq!(send(&world, &[], &with(json!(MODERN))).0, 202);
    let version = |version| ("mcp-protocol-version", version);
    refused(send(&world, &[version("2025-11-25")], &with(json!(MODERN))), 400, -32_020, null.clone());
    refused(send(&world, &[("mcp-method", "other")], &with(json!(MODERN))), 400, -32_020, null.clone());
    refused(send(&world, &[version(MODERN), ("mcp-method", "other")], &plain), 400, -32_020, null.clone());
    refused(send(&world, &[], &with(json!(5))), 400, -32_602, null.clone());
    refused(send(&world, &[], &with(json!("2027-01-01"))), 400, -32_022, null.clone());
    refused(send(&world, &[version("2027-01-01")], &plain), 400, -32_022, null.clone());
    refused(send(&world, &[version("2024-11-05")], &plain), 400, -32_000, null);
    refused(send(&world, &[("mcp-method", "other")], &with(json!("2025-11-25"))), 400, -32_022, Json::Null);
    // `Mcp-Method` is not looked at on legacy traffic.
    assert_eq!(send(&world, &[("mcp-method", "other")], &plain).0, 202);
}

#[test]
fn discover() {
    let world = World::new();
    let (status, message) = modern(&world, "server/discover", json!({}));
    assert_eq!(status, 200, "{message}");
    let result = &message["result"];
    assert_eq!(result["supportedVersions"], json!([MODERN]));
    assert_eq!(result["capabilities"], json!({ "tools": {} }));
    assert!(result["instructions"].is_string());
    assert_eq!(result["resultType"], "complete");
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "taskhub");
}

#[test]
fn modern_results_carry_what_they_must() {
    let world = World::new();
    let (_, message) = modern(&world, "tools/list", json!({}));
    let list = &message["result"];
    assert_eq!(
        (&list["resultType"], &list["ttlMs"], &list["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    assert!(list["_meta"]["io.modelcontextprotocol/serverInfo"]["version"].is_string());
    assert_eq!(list["tools"], legacy(&world, "tools/list", json!({})).1["result"]["tools"]);

    let (_, message) = modern(&world, "tools/call", json!({ "name": "hub_status" }));
    let result = &message["result"];
    assert_eq!(result["resultType"], "complete");
    assert!(result.get("ttlMs").is_none() && result.get("cacheScope").is_none());
    assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    let (_, message) = modern(&world, "tools/call", json!({ "name": "get_task", "arguments": {} }));
    assert_eq!((&message["result"]["isError"], &message["result"]["resultType"]), (&json!(true), &json!("complete")));
}

#[test]
fn an_envelope_must_be_complete() {
    let world = World::new();
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "server/discover")];
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    let discover = |meta: Json| request(json!(101), "server/discover", json!({ "_meta": meta }));
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut envelope = meta();
        envelope.as_object_mut().unwrap().remove(&key(missing));
        let data = refused(send(&world, &headers, &discover(envelope)), 400, -32_602, json!(101));
        assert_eq!(data["envelope"], json!({ "key": key(missing), "problem": "missing" }));
    }
    refused(send(&world, &headers, &request(json!(101), "server/discover", json!({}))), 400, -32_602, json!(101));
    for (name, wrong) in [("protocolVersion", json!(5)), ("clientCapabilities", json!([])), ("clientInfo", json!("x"))]
    {
        let mut envelope = meta();
        envelope[key(name)] = wrong;
        refused(send(&world, &headers, &discover(envelope)), 400, -32_602, json!(101));
    }
    // clientInfo is optional.
    let mut envelope = meta();
    envelope.as_object_mut().unwrap().remove(&key("clientInfo"));
    assert_eq!(send(&world, &headers, &discover(envelope)).0, 200);
}

#[test]
fn the_version_header_confirms_the_body() {
    let world = World::new();
    let body = request(json!(5), "server/discover", json!({ "_meta": meta() }));
    let method = ("mcp-method", "server/discover");
    refused(send(&world, &[method], &body), 400, -32_020, json!(5));
    for other in ["2025-11-25", "2027-01-01", "v999.0.0"] {
        let data = refused(send(&world, &[method, ("mcp-protocol-version", other)], &body), 400, -32_020, json!(5));
        assert_eq!(data["mismatch"]["header"], other);
    }
    assert_eq!(send(&world, &[method, ("mcp-protocol-version", &format!("  {MODERN}  "))], &body).0, 200);
}

#[test]
fn unknown_revisions_are_told_which_there_are() {
    let world = World::new();
    for unknown in ["v999.0.0", "2027-01-01", "2025-11-25"] {
        let mut envelope = meta();
        envelope["io.modelcontextprotocol/protocolVersion"] = json!(unknown);
        let body = request(json!(6), "server/discover", json!({ "_meta": envelope }));
        for headers in [&[("mcp-protocol-version", unknown)][..], &[]] {
            let data = refused(send(&world, headers, &body), 400, -32_022, json!(6));
            assert_eq!(data, json!({ "supported": [MODERN], "requested": unknown }));
        }
    }
    // A modern header without an envelope is a missing envelope, whatever it names.
    let bare = request(json!(6), "tools/list", json!({}));
    refused(send(&world, &[("mcp-protocol-version", "2027-01-01")], &bare), 400, -32_602, json!(6));
}

#[test]
fn the_method_header_confirms_the_body() {
    let world = World::new();
    let body = request(json!(5), "tools/list", json!({ "_meta": meta() }));
    let version = ("mcp-protocol-version", MODERN);
    refused(send(&world, &[version], &body), 400, -32_020, json!(5));
    for wrong in ["prompts/list", "TOOLS/LIST", ""] {
        refused(send(&world, &[version, ("mcp-method", wrong)], &body), 400, -32_020, json!(5));
    }
    assert_eq!(send(&world, &[version, ("mcp-method", " tools/list ")], &body).0, 200);
}

#[test]
fn the_name_header_confirms_the_body() {
    let world = World::new();
    let tool = |name: &str| request(json!(5), "tools/call", json!({ "name": name, "_meta": meta() }));
    let with =
        |name: &'static str| [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", name)];
    let body = tool("hub_status");
    refused(send(&world, &with("x")[..2], &body), 400, -32_020, json!(5));
    // base64 of hub_status is aHViX3N0YXR1cw==
    for wrong in [
        "",
        "wrong_tool",
        "HUB_STATUS",
        "=?base64?aHVi?=",
        "=?base64?aHViX3N0YXR1cw?=",
        "=?base64?aHVi!X3N0?=",
        "=?base64?/w==?=",
    ] {
        refused(send(&world, &with(wrong), &body), 400, -32_020, json!(5));
    }
    for right in ["hub_status", "  hub_status\t", "=?base64?aHViX3N0YXR1cw==?="] {
        assert_eq!(send(&world, &with(right), &body).0, 200, "{right}");
    }
    // A name beyond ASCII travels encoded; without its end mark it is plain text.
    refused(send(&world, &with("=?base64?aMOkw58=?="), &tool("häß")), 200, -32_602, json!(5));
    refused(send(&world, &with("=?base64?aGk="), &tool("=?base64?aGk=")), 200, -32_602, json!(5));
    // A body without a name is no matter for the header.
    let nameless = request(json!(5), "tools/call", json!({ "_meta": meta() }));
    refused(send(&world, &with("x")[..2], &nameless), 200, -32_602, json!(5));
}

#[test]
fn the_order_of_the_rungs() {
    let world = World::new();
    // An unknown revision outranks missing headers; a missing version header outranks a missing method header.
    let mut envelope = meta();
    envelope["io.modelcontextprotocol/protocolVersion"] = json!("2030-01-01");
    refused(send(&world, &[], &request(json!(1), "no/such", json!({ "_meta": envelope }))), 400, -32_022, json!(1));
    let body = request(json!(1), "no/such", json!({ "_meta": meta() }));
    let data = refused(send(&world, &[], &body), 400, -32_020, json!(1));
    assert!(data["mismatch"]["body"].as_str().unwrap().contains("version"), "{data}");
    // Headers outrank the method.
    refused(send(&world, &[("mcp-protocol-version", MODERN)], &body), 400, -32_020, json!(1));
}

#[test]
fn unknown_modern_methods_are_404() {
    let world = World::new();
    let gone =
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "subscriptions/listen", "prompts/list", "x"];
    for method in gone {
        refused(modern(&world, method, json!({})), 404, -32_601, json!("r1"));
    }
}

#[test]
fn faults_of_a_tool_call() {
    let world = World::new();
    for call in [legacy, modern] {
        for params in [
            json!({}),
            json!({ "name": 5 }),
            json!({ "name": "no_such_tool" }),
            json!({ "name": "hub_status", "arguments": [] }),
            json!({ "name": "hub_status", "arguments": "{}" }),
        ] {
            let (status, message) = call(&world, "tools/call", params);
            assert_eq!((status, &message["error"]["code"]), (200, &json!(-32_602)), "{message}");
        }
        // Arguments may be left out, and what is wrong with them is a result.
        assert!(
            call(&world, "tools/call", json!({ "name": "hub_status" })).1["result"]["structuredContent"].is_object()
        );
        assert!(call(&world, "tools/call", json!({ "name": "hub_status", "arguments": null })).1["result"].is_object());
        let (_, message) = call(&world, "tools/call", json!({ "name": "hub_status", "arguments": { "x": 1 } }));
        assert_eq!(message["result"]["isError"], true);
        // All tools are on one page.
        assert!(call(&world, "tools/list", json!({ "cursor": null })).1["result"].is_object());
        assert_eq!(call(&world, "tools/list", json!({ "cursor": "x" })).1["error"]["code"], -32_602);
    }
}

#[test]
fn no_probe_meets_a_server_error() {
    // Whatever a client may try first, it gets an answer below 500 that is JSON or nothing.
    let world = World::new();
    let versions = ["", "2024-11-05", "2025-03-26", "2025-11-25", MODERN, "2030-01-01", "junk"];
    let methods =
        ["initialize", "server/discover", "ping", "tools/list", "tools/call", "x", "notifications/initialized"];
    for version in versions {
        for envelope in [Json::Null, json!({}), meta(), json!({ "io.modelcontextprotocol/protocolVersion": version })] {
            for method in methods {
                let mut body = request(json!(1), method, json!({ "_meta": envelope }));
                if method.starts_with("notifications/") {
                    body.as_object_mut().unwrap().remove("id");
                }
                let response = world.send(&post(&[("mcp-protocol-version", version)], body.to_string().as_bytes()));
                assert!(response.status < 500, "{version} {body}");
                assert!(response.body.is_empty() || read(&response).1.is_object(), "{version} {body}");
            }
        }
    }
}
