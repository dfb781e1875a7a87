// Client ID metadata documents over the real edge: a site of the client's own over https, good and bad.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { certificate, OAuthClient, sendJson, startSite } from "./harness/oauth.mjs";
import { until } from "./harness/until.mjs";

const REDIRECT = "https://client.example/callback";
const DOCUMENT_BYTES_MAX = 10_240;
const DAY_MS = 86_400_000;
const keys = await certificate();

async function setting(t, vars = {}) {
  const hub = await startHub(t, vars, { trusted: keys.cert });
  const site = await startSite(t, keys, { name: "Documented", redirectUris: [REDIRECT] });
  return { hub, site };
}

/** The consent page that this client id leads to, or the page that says why not. */
function ask(hub, id, { from = "192.0.2.1", at, redirectUri = REDIRECT } = {}) {
  const url = new OAuthClient(hub, id, redirectUri).authorizeUrl().slice(hub.url.length);
  return hub.request("GET", url, { headers: { "cf-connecting-ip": from, ...(at && { "x-test-now": String(at) }) } });
}

function raw(body, headers = { "content-type": "application/json" }, status = 200) {
  return (_, response) => response.writeHead(status, headers).end(body);
}

/** How documents fail: what the site does, and what the owner reads. */
const FAILURES = {
  "a redirect": [
    (_, response, site) => response.writeHead(302, { location: site.url("/good") }).end(),
    /redirects, which is not followed/,
  ],
  "a permanent redirect to elsewhere": [
    (_, response) => response.writeHead(308, { location: "https://example.com/" }).end(),
    /redirects/,
  ],
  "too long": [
    (request, response, site) =>
      sendJson(response, { ...site.document(request.url), padding: "x".repeat(DOCUMENT_BYTES_MAX) }),
    /longer than 10240 bytes/,
  ],
  "without end": [
    (_, response, site) => {
      response.writeHead(200, { "content-type": "application/json" });
      const timer = setInterval(() => response.write(" ".repeat(4096)), 5);
      response.once("close", () => (clearInterval(timer), (site.endlessClosed = true)));
    },
    /longer than 10240 bytes/,
  ],
  "no answer": [() => {}, /not read in time/],
  "an answer that never ends": [
    (_, response) => response.writeHead(200, { "content-type": "application/json" }).write("{"),
    /not read in time/,
  ],
  "a page": [raw("<html>", { "content-type": "text/html" }), /something else than JSON/],
  "no JSON": [raw("{"), /it is not JSON/],
  "a list": [raw("[]"), /client_id is not its own address/],
  "another's id": [
    (request, response, site) => sendJson(response, { ...site.document(request.url), client_id: site.url("/good") }),
    /client_id is not its own address/,
  ],
  "no redirect address": [
    (request, response, site) => sendJson(response, { ...site.document(request.url), redirect_uris: [] }),
    /redirect_uris must be a list/,
  ],
  "a secret": [
    (request, response, site) => sendJson(response, { ...site.document(request.url), client_secret: "s" }),
    /contains a secret/,
  ],
  "a way to prove itself by a secret": [
    (request, response, site) =>
      sendJson(response, { ...site.document(request.url), token_endpoint_auth_method: "client_secret_post" }),
    /must be none/,
  ],
  "not found": [raw("{}", undefined, 404), /answers 404/],
  "not for machines": [raw("{}", undefined, 403), /answers 403/],
  broken: [raw("{}", undefined, 500), /answers 500/],
  "a broken connection": [(_, response) => response.destroy(), /cannot be reached/],
};

describe("client documents", { concurrency: 2 }, () => {
  test("what cannot be used is told on a page, and not kept", async (t) => {
    const { hub, site } = await setting(t);
    const cases = Object.entries(FAILURES);
    const address = (name) => site.url(`/${encodeURIComponent(name)}.json`);
    site.serve = (request, response) => {
      const found = FAILURES[decodeURIComponent(request.url.slice(1, -".json".length))];
      if (!found) return sendJson(response, site.document(request.url));
      found[0](request, response, site);
    };
    const answers = await Promise.all(
      cases.map(([name], index) => ask(hub, address(name), { from: `192.0.2.${index}` })),
    );
    for (const [index, [name, [, reason]]] of cases.entries()) {
      assert.equal(answers[index].status, 400, name);
      assert.match(answers[index].text, reason, name);
      assert.match(answers[index].text, /Not connected/, name);
      assert.equal(answers[index].headers.get("location"), null);
    }
    assert.equal(site.requests.filter(({ path }) => path === "/good").length, 0, "nothing was followed");
    // Once each; the runtime asks again by itself where the connection broke.
    const broken = new URL(address("a broken connection")).pathname;
    assert.equal(site.requests.filter(({ path }) => path !== broken).length, cases.length - 1);
    await until(() => site.endlessClosed, { what: "the hub to hang up on a document without end" });
    for (const { headers } of site.requests) {
      assert.equal(headers.accept, "application/json");
      for (const name of ["authorization", "cookie", "referer"]) assert.equal(headers[name], undefined);
    }
    assert.deepEqual((await hub.owner("GET", "/api/clients")).body.clients, [], "nothing was kept");

    const impostor = await startSite(t, await certificate(), { redirectUris: [REDIRECT] });
    const untrusted = await ask(hub, impostor.url("/client.json"), { from: "198.51.100.1" });
    assert.match(untrusted.text, /cannot be reached/, "nobody vouches for its certificate");
    assert.deepEqual(impostor.requests, []);

    site.serve = (request, response) => sendJson(response, site.document(request.url));
    const mended = await ask(hub, address("not found"));
    assert.equal(mended.status, 200, mended.text);
    assert.match(mended.text, /Documented/);
  });

  test("a document is kept for a day, read anew then, and goes on to hold when it cannot be read", async (t) => {
    const { hub, site } = await setting(t);
    const id = site.url("/client.json");
    const client = new OAuthClient(hub, id, REDIRECT);
    const tokens = await client.signIn();
    assert.equal((await ask(hub, id)).status, 200);
    assert.equal(site.requests.length, 1, "it is kept");

    const tomorrow = Date.now() + DAY_MS + 60_000;
    site.serve = raw("gone", {}, 404);
    const stale = await ask(hub, id, { at: tomorrow });
    assert.equal(stale.status, 200, stale.text);
    assert.match(stale.text, /Documented/);
    assert.equal(site.requests.length, 2, "it was looked for");
    const refreshed = await client.refresh(tokens.refresh_token, { "x-test-now": String(tomorrow) });
    assert.equal(refreshed.status, 200, "tokens do not depend on it");

    site.serve = (request, response) => sendJson(response, { ...site.document(request.url), client_name: "Renamed" });
    assert.match((await ask(hub, id, { at: tomorrow })).text, /Renamed/);
    assert.equal(site.requests.length, 3);
    assert.match((await ask(hub, id, { at: tomorrow + 60_000 })).text, /Renamed/);
    assert.equal(site.requests.length, 3, "it is fresh again");
    const elsewhere = await ask(hub, id, { redirectUri: "https://evil.example/callback" });
    assert.equal(elsewhere.status, 400);
    assert.equal(elsewhere.headers.get("location"), null);
  });

  test("an address makes the hub read twenty documents in an hour; known clients are free", async (t) => {
    const { hub, site } = await setting(t);
    const from = "198.51.100.7";
    const known = site.url("/known.json");
    assert.equal((await ask(hub, known, { from })).status, 200);
    for (let count = 1; count < 20; count += 1) await ask(hub, site.url(`/${count}.json`), { from });
    const limited = await ask(hub, site.url("/one-more.json"), { from });
    assert.equal(limited.status, 429);
    assert.ok(Number(limited.headers.get("retry-after")) > 0);
    assert.equal(site.requests.length, 20);
    assert.equal((await ask(hub, known, { from })).status, 200);
    assert.equal((await ask(hub, site.url("/another.json"), { from: "198.51.100.8" })).status, 200);
  });

  test("private addresses are refused unless they are permitted", async (t) => {
    const { hub, site } = await setting(t, { ALLOW_PRIVATE_WEBHOOKS: "false" });
    const port = new URL(site.url("/")).port;
    const hosts = [
      "localhost",
      "127.0.0.1",
      "127.1",
      "2130706433",
      "0x7f000001",
      "0177.0.0.1",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "0.0.0.0",
      "10.0.0.1",
      "192.168.1.1",
      "172.16.0.1",
      "169.254.169.254",
      "[fe80::1]",
      "[fd00::1]",
      "100.64.0.1",
      "hub.local",
      "a.localhost",
      "metadata.google.internal",
      "localhost.",
    ];
    for (const [index, host] of hosts.entries()) {
      const answer = await ask(hub, `https://${host}:${port}/client.json`, { from: `192.0.2.${index}` });
      assert.equal(answer.status, 400, host);
      assert.match(answer.text, /cannot be used|description cannot be/, host);
    }
    assert.equal((await ask(hub, `http://client.example/client.json`)).status, 400, "plain http");
    assert.deepEqual(site.requests, []);
    assert.deepEqual((await hub.owner("GET", "/api/clients")).body.clients, []);
  });
});
