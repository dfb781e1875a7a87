// What plain HTTP says, without any SDK: browsers' rules, refusals before and behind the object, settings.

import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";
import { timed } from "./harness/until.mjs";

const INSPECTOR = "http://localhost:6274";
const CLAUDE = "https://claude.ai";

/** Like fetch, but with a Host of the caller's choice: the hub as the world sees it. */
function requestAs(hub, host, method, path, headers = {}, body = "") {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: hub.port, method, path, headers: { host, ...headers } };
    const request = http.request(options, async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      resolve({ status: response.statusCode, headers: response.headers, text });
    });
    request.on("error", reject).end(body);
  });
}

function names(header) {
  return (header ?? "").toLowerCase().split(/\s*,\s*/);
}

test("a browser client on a local page: preflight, call, and refusals it can read", async (t) => {
  const hub = await startHub(t);
  const asked = ["authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"];
  for (const path of ["/mcp", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]) {
    const preflight = await hub.request("OPTIONS", path, {
      headers: {
        origin: INSPECTOR,
        "access-control-request-method": "POST",
        "access-control-request-headers": asked.join(","),
      },
    });
    assert.equal(preflight.status, 204);
    assert.ok(["*", INSPECTOR].includes(preflight.headers.get("access-control-allow-origin")));
    assert.ok(names(preflight.headers.get("access-control-allow-methods")).includes("post"));
    const allowed = names(preflight.headers.get("access-control-allow-headers"));
    for (const name of asked) assert.ok(allowed.includes(name), `${path} allows ${name}`);
  }

  const called = await hub.mcp.call("hub_status", {}, { origin: INSPECTOR });
  assert.equal(called.status, 200);
  const refused = await hub.request("POST", "/mcp", { headers: { origin: INSPECTOR }, body: {} });
  assert.equal(refused.status, 401);
  for (const answer of [called, refused]) {
    assert.ok(["*", INSPECTOR].includes(answer.headers.get("access-control-allow-origin")));
    assert.ok(names(answer.headers.get("access-control-expose-headers")).includes("www-authenticate"));
  }
  const executor = await hub.request("POST", "/executor/claim", { headers: { origin: INSPECTOR }, body: {} });
  assert.equal(executor.headers.get("access-control-allow-origin"), null, "the executor API is not for pages");
});

test("a page from elsewhere may use a public hub, and not a local one", async (t) => {
  const hub = await startHub(t);
  for (const origin of [CLAUDE, "null", "http://evil.example:8787"]) {
    const answer = await hub.mcp.call("hub_status", {}, { origin });
    assert.equal(answer.status, 403, origin);
    assert.equal(answer.body.code, "origin_refused");
  }
  const params = { name: "hub_status", arguments: {} };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const headers = { authorization: `Bearer ${OWNER_TOKEN}`, "content-type": "application/json", origin: CLAUDE };
  const answer = await requestAs(hub, "hub.example", "POST", "/mcp", headers, body);
  assert.equal(answer.status, 200, answer.text);
  assert.ok(["*", CLAUDE].includes(answer.headers["access-control-allow-origin"]));
});

test("401 says where to find out how to sign in, and the documents are there", async (t) => {
  const hub = await startHub(t);
  const metadata = `${hub.url}/.well-known/oauth-protected-resource/mcp`;
  const without = await hub.request("POST", "/mcp", { body: {} });
  assert.equal(without.status, 401);
  const challenge = `Bearer resource_metadata="${metadata}", scope="tasks:read tasks:write"`;
  assert.equal(without.headers.get("www-authenticate"), challenge);
  assert.deepEqual([without.body.code, without.body.retryable], ["unauthorized", false]);
  const wrong = await hub.request("POST", "/mcp", { headers: { authorization: "Bearer wrong" }, body: {} });
  assert.equal(wrong.status, 401);
  assert.match(wrong.headers.get("www-authenticate"), /error="invalid_token"/);
  assert.ok(wrong.headers.get("www-authenticate").includes(`resource_metadata="${metadata}"`));

  for (const path of ["/mcp", ""]) {
    const found = await hub.request("GET", `/.well-known/oauth-protected-resource${path}`);
    assert.equal(found.status, 200);
    assert.equal(found.body.resource, `${hub.url}/mcp`);
    const server = await hub.request("GET", `/.well-known/oauth-authorization-server${path}`);
    assert.equal(server.status, 200);
    assert.equal(server.body.issuer, hub.url);
    assert.deepEqual(found.body.authorization_servers, [server.body.issuer]);
  }
});

test("GET, HEAD and DELETE on /mcp are answered 405 at once, with and without a token", async (t) => {
  const hub = await startHub(t);
  for (const method of ["GET", "HEAD", "DELETE"]) {
    for (const headers of [{}, hub.ownerHeaders, { ...hub.ownerHeaders, accept: "text/event-stream" }]) {
      const { value: answer, ms } = await timed(() => hub.request(method, "/mcp", { headers }));
      assert.equal(answer.status, 405, method);
      assert.equal(answer.headers.get("allow"), "POST");
      assert.ok(ms < 4_000);
    }
  }
});

test("every refusal is problem+json that says what to do", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  const auth = { authorization: `Bearer ${executor.key}` };
  const json = { ...auth, "content-type": "application/json" };
  const long = JSON.stringify({ request_id: "x".repeat(1_100_000) });
  const cases = [
    [404, "not_found", "GET", "/nothing/here", {}],
    [404, "not_found", "POST", "/__internal/sweep", {}],
    [404, "not_found", "POST", "/executor/juggle", { headers: auth, body: {} }],
    [405, "method_not_allowed", "GET", "/executor/claim", { headers: auth }],
    [400, "bad_request", "POST", "/executor/claim", { headers: json, body: "{broken" }],
    [400, "bad_request", "POST", "/executor/claim", { headers: json, body: "[]" }],
    [400, "bad_request", "POST", "/executor/claim", { headers: auth, body: { wait_seconds: 26 } }],
    [400, "bad_request", "POST", "/executor/claim", { headers: auth, body: { wait: 5 } }],
    [400, "bad_request", "POST", "/executor/heartbeat", { headers: auth, body: {} }],
    [413, "too_large", "POST", "/executor/claim", { headers: json, body: long }],
    [404, "task_not_found", "POST", "/executor/release", { headers: auth, body: { task_id: "t_x", claim_token: "x" } }],
    [401, "unauthorized", "GET", "/api/executors", {}],
    [401, "unauthorized", "GET", "/api/executors", { headers: auth }],
    [404, "task_not_found", "GET", "/api/tasks/t_0", { headers: hub.ownerHeaders }],
    [409, "executor_exists", "POST", "/api/executors", { headers: hub.ownerHeaders, body: { name: "one" } }],
  ];
  for (const [status, code, method, path, options] of cases) {
    const answer = await hub.request(method, path, options);
    assert.deepEqual([answer.status, answer.body?.code], [status, code], `${method} ${path}: ${answer.text}`);
    assert.equal(answer.headers.get("content-type"), "application/problem+json");
    assert.equal(answer.body.status, status);
    assert.equal(typeof answer.body.retryable, "boolean");
    assert.ok(answer.body.detail.length > 20, answer.body.detail);
  }
});

test("keys: a rotated key works beside its predecessor, older ones and revoked ones stop at once", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  const ping = async (key) => {
    const headers = { authorization: `Bearer ${key}` };
    return (await hub.request("POST", "/executor/ping", { headers, body: {} })).status;
  };
  const rotate = async (body) => (await hub.owner("POST", "/api/executors/one/keys", body)).body.key;
  const first = executor.key;
  const second = await rotate({});
  assert.deepEqual([await ping(first), await ping(second)], [200, 200]);
  const third = await rotate({});
  assert.deepEqual([await ping(first), await ping(second), await ping(third)], [401, 200, 200]);
  const fourth = await rotate({ revoke_others: true });
  assert.deepEqual([await ping(second), await ping(third), await ping(fourth)], [401, 401, 200]);
  const deleted = await hub.owner("DELETE", "/api/executors/one");
  assert.deepEqual([deleted.status, deleted.body.deleted, await ping(fourth)], [200, true, 401]);
});

test("the claim token may travel in X-Claim-Token", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  const id = await hub.submit({ executor: "one" });
  const claim = await executor.claim();
  const beat = await executor.call("heartbeat", { task_id: id }, { "x-claim-token": claim.token });
  assert.equal(beat.status, 200);
});

test("/healthz says what runs, after touching the object", async (t) => {
  const hub = await startHub(t);
  const { status, headers, body } = await hub.request("GET", "/healthz");
  assert.equal(status, 200);
  assert.deepEqual([body.ok, typeof body.version, typeof body.schema], [true, "string", "number"]);
  assert.ok(Math.abs(body.time - Date.now()) < 5_000);
  assert.notEqual(headers.get("x-rows-read"), null, "the object answered");
});

test("wrong settings: every one is named in a 503, and the hub comes up once they are mended", async (t) => {
  const hub = await startHub(t);
  await hub.stop();
  const right = hub.vars;
  hub.vars = { ...right, HUB_SECRET: "short", LEASE_SECONDS: "soon" };
  await hub.serve();
  for (const path of ["/healthz", "/api/executors"]) {
    const answer = await hub.request("GET", path, { headers: hub.ownerHeaders });
    assert.deepEqual([answer.status, answer.body.code], [503, "misconfigured"]);
    assert.match(answer.body.detail, /HUB_SECRET.*LEASE_SECONDS|LEASE_SECONDS.*HUB_SECRET/);
  }
  await hub.stop();
  hub.vars = right;
  await hub.start();
  assert.equal((await hub.request("GET", "/healthz")).status, 200);
});
