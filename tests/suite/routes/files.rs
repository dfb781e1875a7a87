//! `PUT /executor/attachment` and `/files/…`: what goes in, what comes out, and with which headers.

use serde_json::{Value as Json, json};
use taskhub::domain::file::Piece;
use taskhub::domain::limits::CHUNK_BYTES;
use taskhub::http::message::{Outcome, Received, Request, Response, Slice};
use taskhub::http::{front, router};
use taskhub::hub;

use super::{at_work, header, problem};
use crate::support::{Held, World, request};

fn put(held: &Held, query: &str) -> Request {
    let mut request = request("PUT", "/executor/attachment", &held.key, &Json::Null);
    request.query = query.to_owned();
    request.headers.push(("x-claim-token".to_owned(), held.token.clone()));
    request
}

fn named(held: &Held, name: &str) -> Request {
    put(held, &format!("task_id={}&name={name}", held.id))
}

/// Sends an upload with this body, or with what becomes of it.
fn sent(world: &World, request: &Request, pieces: &[Piece]) -> Response {
    let mut request = request.clone();
    let mut pieces = pieces.iter();
    loop {
        match router::handle(&world.hub(), &request) {
            Outcome::Reply(response) => return response,
            Outcome::Receive(so_far) => {
                let piece = pieces.next().expect("no more than that is wanted").clone();
                request.received = Some(Received { so_far, piece });
            }
            other => panic!("{other:?}"),
        }
    }
}

fn all(bytes: &[u8]) -> [Piece; 1] {
    [Piece::Bytes { bytes: bytes.to_vec(), is_last: true }]
}

fn json(response: &Response) -> Json {
    serde_json::from_slice(&response.body).unwrap()
}

/// A hub with a file of an attempt, and a request for it by its link.
fn stored(name: &str, bytes: &[u8]) -> (World, Held, Request) {
    let (world, held) = at_work();
    let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let response = sent(&world, &named(&held, &name), &all(bytes));
    assert_eq!(response.status, 201, "{:?}", json(&response));
    let id = json(&response)["id"].as_str().unwrap().to_owned();
    let link = link(&world, &id);
    (world, held, link)
}

fn link(world: &World, id: &str) -> Request {
    let hub = world.hub();
    let file = hub::file(&hub, id).unwrap().unwrap();
    let (url, _) = hub::file_link(&hub, &file);
    let (path, query) = url.strip_prefix("https://hub.example").unwrap().split_once('?').unwrap();
    Request { query: query.to_owned(), headers: vec![], ..request("GET", path, "", &Json::Null) }
}

fn with(request: &Request, headers: &[(&str, &str)]) -> Request {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Request { headers: request.headers.iter().cloned().chain(headers).collect(), ..request.clone() }
}

fn out(world: &World, request: &Request) -> (Response, Option<Slice>) {
    match router::handle(&world.hub(), request) {
        Outcome::Reply(response) => (response, None),
        Outcome::Download(response, slice) => (response, Some(slice)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_put_and_put_again() {
    let (world, held) = at_work();
    let response = sent(&world, &named(&held, "a%20b.txt"), &all(b"hello"));
    let body = json(&response);
    assert_eq!((response.status, &body["name"], &body["size"]), (201, &json!("a b.txt"), &json!(5)), "{body}");
    assert_eq!((&body["kind"], &body["attempt"], &body["existed"]), (&json!("output"), &json!(1), &json!(false)));
    assert_eq!(body["task_id"], held.id);
    let again = sent(&world, &named(&held, "a%20b.txt"), &all(b"hello"));
    assert_eq!((again.status, &json(&again)["id"]), (200, &body["id"]));
    let announced = with(&named(&held, "a+b.txt"), &[("x-sha256", &body["sha256"].as_str().unwrap().to_uppercase())]);
    let known = sent(&world, &announced, &[]);
    assert_eq!((known.status, &json(&known)["id"]), (200, &body["id"]), "before any of it is read");
}

#[test]
fn an_attempt_gets_fresh_links_as_long_as_it_holds_its_task() {
    let (world, held) = at_work();
    sent(&world, &named(&held, "a.txt"), &all(b"hello"));
    let list = |query: String| {
        let mut request = request("GET", "/executor/attachment", &held.key, &Json::Null);
        request.body.clear();
        request.query = query;
        request.headers.push(("x-claim-token".to_owned(), held.token.clone()));
        world.send(&request)
    };
    let ask = || list(format!("task_id={}", held.id));
    let first = json(&ask());
    assert_eq!((&first["files"][0]["name"], &first["input_files"]), (&json!("a.txt"), &json!([])));
    world.pass(60_000);
    let later = json(&ask());
    assert!(later["files"][0]["url_expires_at"].as_i64() > first["files"][0]["url_expires_at"].as_i64());
    world.attempt("heartbeat", &held, json!({ "question": "Which?" }));
    assert_eq!(ask().status, 200, "whoever waits for an answer reads on");
    assert!(problem(&list(String::new()), 400, "bad_request").contains("task_id"));
    let events = world.detail(&held.id).events.len();
    world.cancel(&held.id).unwrap();
    problem(&ask(), 409, "canceled");
    assert_eq!(world.detail(&held.id).events.len(), events + 1, "looking leaves no evidence");
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let (world, held) = at_work();
    let id = &held.id;
    for (query, word) in [("name=a", "task_id"), (&*format!("task_id={id}"), "name"), ("", "task_id")] {
        let detail = problem(&sent(&world, &put(&held, query), &[]), 400, "bad_request");
        assert!(detail.starts_with(word), "{detail}");
    }
    let mut tokenless = named(&held, "a");
    tokenless.headers.pop();
    assert!(problem(&sent(&world, &tokenless, &[]), 400, "bad_request").contains("X-Claim-Token"));
    problem(&sent(&world, &named(&held, ".."), &[]), 400, "bad_request");
    problem(&sent(&world, &put(&held, "task_id=t_1&name=a"), &[]), 404, "task_not_found");
    let mut keyless = named(&held, "a");
    keyless.headers.remove(0);
    problem(&sent(&world, &keyless, &[]), 401, "unauthorized");
    problem(&sent(&world, &with(&named(&held, "a"), &[("x-sha256", "abc")]), &[]), 400, "bad_request");
    problem(
        &sent(&world, &with(&named(&held, "a"), &[("content-encoding", "gzip")]), &[]),
        415,
        "unsupported_encoding",
    );
    let form = with(&named(&held, "a"), &[("content-type", "multipart/form-data; boundary=x")]);
    assert!(problem(&sent(&world, &form, &[]), 400, "bad_request").contains("curl -T"));
    let long = with(&named(&held, "a"), &[("content-length", "26214401")]);
    problem(&sent(&world, &long, &[]), 413, "file_too_large");
    assert_eq!(front::refuse(&long, &world.settings, world.now()).unwrap().status, 413, "the front knows as well");
    let other = with(&named(&held, "a"), &[("x-sha256", &"0".repeat(64))]);
    problem(&sent(&world, &other, &all(b"x")), 422, "sha256_mismatch");
    world.cancel(id).unwrap();
    problem(&sent(&world, &named(&held, "a"), &[]), 409, "canceled");
}

#[test]
fn a_body_that_does_not_come_leaves_nothing() {
    let (world, held) = at_work();
    let before = world.db.dump();
    let first = Piece::Bytes { bytes: vec![7; CHUNK_BYTES], is_last: false };
    for (piece, status, code) in [(Piece::Stalled, 408, "upload_stalled"), (Piece::Broken, 400, "upload_broken")] {
        let response = sent(&world, &named(&held, "a"), &[first.clone(), piece.clone()]);
        problem(&response, status, code);
        assert_eq!(json(&response)["retryable"], true);
        problem(&sent(&world, &named(&held, "a"), &[piece]), status, code);
        assert_eq!(world.db.dump(), before);
    }
}

#[test]
fn a_storage_that_fails_in_the_middle_is_told_and_leaves_nothing() {
    for statements in 0..8 {
        let (world, held) = at_work();
        let before = world.db.dump();
        let mut upload = named(&held, "a");
        let Outcome::Receive(so_far) = router::handle(&world.hub(), &upload) else { panic!("it is taken") };
        let piece = Piece::Bytes { bytes: vec![7; CHUNK_BYTES], is_last: false };
        upload.received = Some(Received { so_far, piece });
        let Outcome::Receive(so_far) = router::handle(&world.hub(), &upload) else { panic!("it is taken") };
        let [piece] = all(b"end");
        upload.received = Some(Received { so_far, piece });
        world.db.fail_in(Some(statements + 1));
        let response = sent(&world, &upload, &[]);
        assert!(!world.db.call_off(), "statement {statements}");
        assert_eq!(response.status, 500);
        assert_eq!(world.db.dump(), before, "statement {statements}");
    }
}

#[test]
fn a_key_that_ends_in_the_middle_ends_the_upload() {
    let (world, held) = at_work();
    let mut upload = named(&held, "a");
    let Outcome::Receive(so_far) = router::handle(&world.hub(), &upload) else { panic!("it is taken") };
    let piece = Piece::Bytes { bytes: vec![7; CHUNK_BYTES], is_last: false };
    upload.received = Some(Received { so_far, piece });
    let Outcome::Receive(so_far) = router::handle(&world.hub(), &upload) else { panic!("it is taken") };
    let chunks = |world: &World| world.db.rows("SELECT number FROM attachment_chunks").len();
    assert_eq!(chunks(&world), 1);
    world.owner("PATCH", "/api/executors/bot", json!({ "disabled": true }));
    let [piece] = all(b"x");
    upload.received = Some(Received { so_far, piece });
    problem(&sent(&world, &upload, &[]), 403, "executor_disabled");
    assert_eq!(chunks(&world), 0);
}

#[test]
fn a_file_comes_by_its_link_with_all_that_makes_it_harmless() {
    let (world, _, link) = stored("page.html", b"<script>alert(1)</script>");
    let (response, slice) = out(&world, &link);
    assert_eq!(response.status, 200);
    assert_eq!(slice.map(|slice| (slice.from, slice.bytes)), Some((0, 25)));
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", "25"),
        ("content-disposition", "attachment; filename=\"page.html\""),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, no-cache, no-transform"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("accept-ranges", "bytes"),
    ];
    for (name, value) in headers {
        assert_eq!(header(&response, name), Some(value));
    }
    assert_eq!(header(&response, "set-cookie").or(header(&response, "access-control-allow-origin")), None);
    let (head, slice) = out(&world, &Request { method: "HEAD".to_owned(), ..link.clone() });
    assert_eq!((head.status, slice), (200, None));
    assert_eq!(head.headers, response.headers, "the same without the body");
}

#[test]
fn a_name_that_is_not_ascii_is_said_twice() {
    for (name, disposition) in [
        ("a b.txt", "attachment; filename=\"a b.txt\""),
        (
            "naïve – 日本.txt",
            "attachment; filename=\"na_ve _ __.txt\"; filename*=UTF-8''na%C3%AFve%20%E2%80%93%20%E6%97%A5%E6%9C%AC.txt",
        ),
        ("100%41.txt", "attachment; filename=\"100_41.txt\"; filename*=UTF-8''100%2541.txt"),
        ("it's (1);x=y,z.txt", "attachment; filename=\"it's (1);x=y,z.txt\""),
        ("😀", "attachment; filename=\"_\"; filename*=UTF-8''%F0%9F%98%80"),
    ] {
        let (world, _, link) = stored(name, b"x");
        assert_eq!(header(&out(&world, &link).0, "content-disposition"), Some(disposition));
    }
}

/// RFC 9110 §14.
#[test]
fn one_range_is_sent_and_anything_else_is_the_whole() {
    let (world, _, link) = stored("a", b"0123456789");
    let etag = header(&out(&world, &link).0, "etag").unwrap().to_owned();
    let ranged = |range: &str, more: &[(&str, &str)]| out(&world, &with(&with(&link, &[("range", range)]), more));
    for (range, from, bytes) in [
        ("bytes=0-0", 0, 1),
        ("bytes=2-4", 2, 3),
        ("bytes=5-", 5, 5),
        ("bytes=-3", 7, 3),
        ("bytes=-99", 0, 10),
        ("bytes=8-99", 8, 2),
        ("bytes=0-18446744073709551615", 0, 10),
        ("bytes=0-99999999999999999999999", 0, 10),
        ("Bytes = 1 - 2 ", 1, 2),
    ] {
        let (response, slice) = ranged(range, &[]);
        let slice = slice.map(|slice| (slice.from, slice.bytes));
        assert_eq!((response.status, slice), (206, Some((from, bytes))), "{range}");
        let said = format!("bytes {from}-{}/10", from + bytes - 1);
        assert_eq!(header(&response, "content-range"), Some(said.as_str()));
        assert_eq!(header(&response, "content-length"), Some(bytes.to_string().as_str()));
    }
    for range in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-"] {
        let (response, _) = ranged(range, &[]);
        problem(&response, 416, "range_not_satisfiable");
        assert_eq!(header(&response, "content-range"), Some("bytes */10"), "{range}");
    }
    for range in
        ["bytes=0-1,3-4", "bytes=4-2", "bytes=", "bytes=-", "bytes=a-b", "bytes=+1-2", "bytes=1--2", "lines=1-2", "x"]
    {
        let (response, slice) = ranged(range, &[]);
        assert_eq!((response.status, slice.unwrap().bytes), (200, 10), "{range}");
    }
    let part = ranged("bytes=1-2", &[("if-range", &etag)]);
    assert_eq!(part.0.status, 206);
    for other in ["\"another\"", &format!("W/{etag}"), "Sat, 29 Oct 1994 19:43:31 GMT"] {
        assert_eq!(ranged("bytes=1-2", &[("if-range", other)]).0.status, 200, "{other}");
    }
    let head = Request { method: "HEAD".to_owned(), ..with(&link, &[("range", "bytes=1-2")]) };
    assert_eq!(out(&world, &head).0.status, 200, "a range is for GET");
    let (world, _, link) = stored("empty", b"");
    assert_eq!(out(&world, &link).1, None);
    assert_eq!(out(&world, &with(&link, &[("range", "bytes=0-")])).0.status, 416);
}

/// RFC 9110 §13.
#[test]
fn who_has_the_file_is_told_so() {
    let (world, _, link) = stored("a", b"0123456789");
    let etag = header(&out(&world, &link).0, "etag").unwrap().to_owned();
    let asked = |name: &str, value: &str| out(&world, &with(&link, &[(name, value)]));
    for known in [&*etag, "*", &format!("W/{etag}"), &format!("\"x\", {etag}")] {
        let (response, slice) = asked("if-none-match", known);
        assert_eq!((response.status, slice, response.body.len()), (304, None, 0), "{known}");
        assert_eq!(header(&response, "etag"), Some(etag.as_str()));
        assert!(header(&response, "cache-control").is_some() && header(&response, "content-length").is_none());
    }
    for other in ["\"x\"", "", etag.trim_matches('"')] {
        assert_eq!(asked("if-none-match", other).0.status, 200, "{other}");
        problem(&asked("if-match", other).0, 412, "precondition_failed");
    }
    for right in [&*etag, "*", &format!("\"x\",{etag}")] {
        assert_eq!(asked("if-match", right).0.status, 200, "{right}");
    }
    let both = with(&link, &[("if-none-match", &etag), ("range", "bytes=1-2")]);
    assert_eq!(out(&world, &both).0.status, 304, "the condition comes first");
}

#[test]
fn a_link_that_is_not_good_is_refused_at_the_front() {
    let (world, _, link) = stored("a", b"x");
    let (_, _, foreign) = stored("a", b"y");
    let refused = |request: &Request, status, code| {
        let response = front::refuse(request, &world.settings, world.now()).expect("the front refuses it");
        problem(&response, status, code);
        assert_eq!(out(&world, request).0, response, "and so does the object");
    };
    let forged = Request { query: link.query.replace("sig=", "sig=A"), ..link.clone() };
    let moved = Request { path: foreign.path.replacen("/files/f_", "/files/f_0", 1), ..link.clone() };
    let bare = Request { query: String::new(), ..link.clone() };
    let id = link.path.split('/').nth(2).unwrap();
    let upload = Request { method: "PUT".to_owned(), path: format!("/files/{id}"), ..link.clone() };
    for request in [&forged, &moved, &bare, &upload] {
        refused(request, 403, "link_invalid");
    }
    assert_eq!(front::refuse(&link, &world.settings, world.now()), None);
    let renamed = Request { path: format!("/files/{id}/other%20name"), ..link.clone() };
    assert_eq!(out(&world, &renamed).0.status, 200, "the name is for people");
    let nameless = Request { path: format!("/files/{id}"), ..link.clone() };
    assert_eq!(out(&world, &nameless).0.status, 200);
    world.pass(900_000);
    refused(&link, 410, "link_expired");
}

#[test]
fn a_file_that_is_gone_is_not_found() {
    let (world, held, link) = stored("a", b"x");
    world.does("result", &held, json!({ "status": "completed" }));
    world.pass(31 * 86_400_000);
    let file = hub::file(&world.hub(), link.path.split('/').nth(2).unwrap()).unwrap().unwrap();
    world.run(|hub| hub::purge(hub, "")).0.unwrap();
    let (url, _) = hub::file_link(&world.hub(), &file);
    let link = Request { query: url.split_once('?').unwrap().1.to_owned(), ..link };
    problem(&out(&world, &link).0, 404, "file_not_found");
}

#[test]
fn a_file_is_put_to_a_link_that_was_good_when_it_began() {
    let (world, _) = at_work();
    let opened = world.run(|hub| hub::open_upload(hub, "owner", "in.csv", None)).0.unwrap();
    let (path, query) = opened.url.strip_prefix("https://hub.example").unwrap().split_once('?').unwrap();
    let put = Request { query: query.to_owned(), headers: vec![], ..request("PUT", path, "", &Json::Null) };
    world.pass(3_599_999);
    let mut begun = put.clone();
    let Outcome::Receive(so_far) = router::handle(&world.hub(), &begun) else { panic!("it is taken") };
    world.pass(1);
    let late = front::refuse(&put, &world.settings, world.now()).unwrap();
    problem(&late, 410, "link_expired");
    let [piece] = all(b"a,b");
    begun.received = Some(Received { so_far, piece });
    let response = sent(&world, &begun, &[]);
    let body = json(&response);
    assert_eq!((response.status, &body["id"], &body["task_id"]), (201, &json!(opened.file_id), &Json::Null), "{body}");
    assert!(body["next"].as_str().unwrap().contains("submit_task"));
}
