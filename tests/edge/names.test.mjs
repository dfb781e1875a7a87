// A hub that is reached under several names, or under one that somebody made up.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";
import { describe, test } from "node:test";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";
import { startReceiver } from "./harness/receiver.mjs";
import { pass, until } from "./harness/until.mjs";

const CALLBACK = "https://app.example/cb";

/** A request under this name. `fetch` does not let a caller choose the header Host. */
function ask(hub, host, method, path, { headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: hub.port, method, path, headers: { host, ...headers } };
    const sent = request(options, async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      resolve({ status: response.statusCode, headers: response.headers, text });
    });
    sent.on("error", reject).end(body);
  });
}

function form(fields) {
  const body = new URLSearchParams(fields).toString();
  return { headers: { "content-type": "application/x-www-form-urlencoded" }, body };
}

/** An access token for the hub under this name. */
async function signIn(hub, host) {
  const metadata = JSON.stringify({ redirect_uris: [CALLBACK], token_endpoint_auth_method: "none" });
  const client = JSON.parse((await ask(hub, host, "POST", "/register", { body: metadata })).text);
  const verifier = randomBytes(32).toString("base64url");
  const page = `/authorize?${new URLSearchParams({
    response_type: "code",
    client_id: client.client_id,
    redirect_uri: CALLBACK,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  })}`;
  const shown = await ask(hub, host, "GET", page);
  const [, formToken] = /name="form_token" value="([^"]+)"/.exec(shown.text);
  const approval = form({ form_token: formToken, decision: "approve", scope: "tasks:read", passphrase: OWNER_TOKEN });
  approval.headers.cookie = shown.headers["set-cookie"][0].split(";")[0];
  const approved = await ask(hub, host, "POST", page, approval);
  const code = new URL(approved.headers.location).searchParams.get("code");
  const grant = { grant_type: "authorization_code", client_id: client.client_id, code, code_verifier: verifier };
  return JSON.parse((await ask(hub, host, "POST", "/token", form(grant))).text).access_token;
}

describe("names", { concurrency: 2 }, () => {
  test("a call that waits is not disturbed by a request under another name", async (t) => {
    const hub = await startHub(t);
    const token = await signIn(hub, "hub.example");
    await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const params = { name: "get_task", arguments: { task_id: id, wait_seconds: 2 } };
    const waiting = ask(hub, "hub.example", "POST", "/mcp", {
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    });
    await pass(500);
    assert.equal((await ask(hub, "other.example", "GET", "/healthz")).status, 200);
    const answer = await waiting;
    assert.equal(answer.status, 200, answer.text);
  });

  test("a stranger cannot say where executors are sent", async (t) => {
    const hub = await startHub(t, { REWAKE_AFTER_SECONDS: 1, WAKE_COALESCE_SECONDS: 0 });
    const receiver = await startReceiver(t);
    await hub.executor("bot", { wake: { adapter: "webhook", url: receiver.url, auth: { kind: "none" } } });
    await hub.submit({ executor: "bot" });
    await receiver.untilReceived(1);
    const junk = { headers: { authorization: "Bearer junk" } };
    for (const [method, path] of [["GET", "/healthz"], ["GET", "/authorize"], ["POST", "/token"], ["POST", "/mcp"]]) {
      await ask(hub, "evil.example", method, path, junk);
    }
    await until(() => receiver.received.length > 1, { what: "a wake that the alarm sends", more: () => hub.log });
    for (const wake of receiver.received) assert.equal(JSON.parse(wake.body).hub, hub.url);
  });
});
