// Each official MCP client signs in by itself: it is refused, finds the authorization server, registers or names its
// document, sends its user to the consent page in a real Chromium, comes back with a code, calls a tool, asks anew when
// the owner has ended it, refreshes when its time is over, and asks for more when it may too little.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, describe, test } from "node:test";
import * as v2 from "@modelcontextprotocol/client";
import { UnauthorizedError as UnauthorizedV1 } from "sdk-v1/client/auth.js";
import { Client as ClientV1 } from "sdk-v1/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "sdk-v1/client/streamableHttp.js";

import { approve, openPage, startBrowser, switches } from "./harness/browser.mjs";
import { startHub } from "./harness/hub.mjs";
import { certificate, metadata, PASSPHRASE, startCallback, startSite } from "./harness/oauth.mjs";
import { startPython } from "./harness/python.mjs";

const NAME = "Edge client";
const INFO = { name: "edge-tests", version: "1.0.0" };
const HOUR = 3600;
const TASK = { title: "Book a table", instructions: "For two, at eight.", executor: "bot" };

/** What an application that uses a TypeScript SDK keeps for it. */
class Provider {
  constructor(redirectUrl, clientMetadataUrl) {
    Object.assign(this, { redirectUrl, clientMetadataUrl, saved: [], asked: [] });
  }

  get clientMetadata() {
    return metadata(NAME, this.redirectUrl);
  }

  state = () => (this.lastState = randomUUID());
  clientInformation = () => this.client;
  saveClientInformation = (client) => (this.client = client);
  tokens = () => this.current;
  saveTokens = (tokens) => this.saved.push((this.current = tokens));
  invalidateCredentials = (what) => what === "tokens" && (this.current = undefined);
  redirectToAuthorization = (url) => this.asked.push(url.href);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => (this.verifier = verifier);
  discoveryState = () => this.discovered;
  saveDiscoveryState = (state) => (this.discovered = state);
}

/** A client of either TypeScript SDK. Its clock can be put forward, for the hub too. */
class TypeScript {
  constructor({ connect, finish, Unauthorized }, { hub, redirectUrl, documentUrl, browse }) {
    Object.assign(this, { connect, finish, Unauthorized, browse, url: new URL(`${hub.url}/mcp`), calls: [], ahead: 0 });
    this.provider = new Provider(redirectUrl, documentUrl);
  }

  fetch = async (url, init = {}) => {
    const headers = new Headers(init.headers);
    if (this.ahead > 0) headers.set("x-test-now", Date.now() + this.ahead * 1000);
    const response = await fetch(url, { ...init, headers });
    this.calls.push(`${init.method ?? "GET"} ${new URL(url).pathname} ${response.status}`);
    return response;
  };

  /** Runs what may need its user, and again once they have answered. */
  async withUser(action) {
    const before = this.provider.asked.length;
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof this.Unauthorized) || this.provider.asked.length === before) throw error;
    }
    const answer = await this.browse(this.provider.asked.at(-1));
    assert.equal(answer.get("state"), this.provider.lastState);
    await this.finish(this.transport, answer);
    return action();
  }

  start() {
    return this.withUser(async () => {
      const { client, transport, version } = await this.connect(this.url, {
        authProvider: this.provider,
        fetch: this.fetch,
        started: (transport) => (this.transport = transport),
      });
      Object.assign(this, { client, transport });
      return { version: version(), clientId: this.provider.client.client_id };
    });
  }

  async call(name, args = {}) {
    const result = await this.withUser(() => this.client.callTool({ name, arguments: args }));
    assert.ok(!result.isError, JSON.stringify(result));
    return result.structuredContent;
  }

  later(seconds) {
    this.ahead += seconds;
  }

  tokens() {
    return this.provider.saved;
  }

  close() {
    return this.client.close();
  }
}

const V2 = {
  Unauthorized: v2.UnauthorizedError,
  finish: (transport, answer) => transport.finishAuth(answer),
  async connect(url, { started, ...options }) {
    const transport = new v2.StreamableHTTPClientTransport(url, options);
    started(transport);
    const client = new v2.Client(INFO, { versionNegotiation: { mode: "auto" } });
    await client.connect(transport);
    return { client, transport, version: () => client.getNegotiatedProtocolVersion() };
  },
};

const V1 = {
  Unauthorized: UnauthorizedV1,
  finish: (transport, answer) => transport.finishAuth(answer.get("code")),
  async connect(url, { started, ...options }) {
    const transport = new TransportV1(url, options);
    started(transport);
    const client = new ClientV1(INFO);
    await client.connect(transport);
    return { client, transport, version: () => transport.protocolVersion };
  },
};

/** PyPI's mcp, by oauth_client.py. */
class Python {
  constructor(context, { hub, redirectUrl, documentUrl, browse }) {
    const args = [`${hub.url}/mcp`, redirectUrl, ...(documentUrl ? [documentUrl] : [])];
    Object.assign(this, { browse, saved: [], program: startPython(context, "oauth_client.py", args) });
  }

  /** What it says, but for what it keeps; what it asks of its user is done. */
  async heard() {
    for (;;) {
      const said = await this.program.heard();
      if (said.tokens) this.saved.push(said.tokens);
      else if (said.authorize) this.program.tell(Object.fromEntries(await this.browse(said.authorize)));
      else return said;
    }
  }

  async start() {
    const said = await this.heard();
    return { version: said.connected, clientId: said.client_id };
  }

  async call(name, args = {}) {
    this.program.tell({ call: name, arguments: args });
    const said = await this.heard();
    assert.ok(said.result && !said.is_error, JSON.stringify(said));
    return said.result;
  }

  later(seconds) {
    this.program.tell({ later: seconds });
  }

  tokens() {
    return this.saved;
  }

  close() {}
}

// Name, client, the revision that it speaks, and whether it asks its user again when a scope is missing.
const CLIENTS = [
  ["@modelcontextprotocol/client", (_, options) => new TypeScript(V2, options), "2026-07-28", true],
  ["@modelcontextprotocol/sdk 1.x", (_, options) => new TypeScript(V1, options), "2025-11-25", false],
  ["PyPI's mcp", (context, options) => new Python(context, options), "2026-07-28", true],
];

const browser = await startBrowser();
const site = await certificate();
after(() => browser.close());

/** A hub, a client of it that has not signed in yet, and its user's browser, in which scripts are switched off. */
async function setting(t, make, { byDocument }) {
  const vars = { OWNER_PASSPHRASE: PASSPHRASE, ACCESS_TOKEN_SECONDS: HOUR };
  const hub = await startHub(t, vars, { trusted: site.cert });
  const callback = await startCallback(t);
  // As Claude Code does: the document names a port-less localhost, the redirect goes to 127.0.0.1 and a port.
  const documents = await startSite(t, site, { name: NAME, redirectUris: ["http://localhost/callback"] });
  const page = await openPage(browser, t, { javaScriptEnabled: false });
  const seen = [];
  const user = { uncheck: [] };
  const browse = async (url) => {
    await page.goto(url);
    seen.push({ url: new URL(url), text: await page.locator("main").innerText(), switches: await switches(page) });
    for (const label of user.uncheck) await page.getByLabel(label).uncheck();
    await approve(page, PASSPHRASE);
    return callback.untilVisited(seen.length);
  };
  const documentUrl = byDocument ? documents.url("/oauth/client.json") : undefined;
  const client = make(t, { hub, redirectUrl: callback.url(), documentUrl, browse });
  return { hub, client, callback, documents, documentUrl, page, seen, user };
}

async function activeGrants(hub) {
  const { body } = await hub.owner("GET", "/api/grants");
  return body.grants.filter((grant) => grant.active);
}

for (const [name, make, version, stepsUp] of CLIENTS) {
  describe(name, { concurrency: 2 }, () => {
    for (const byDocument of [false, true]) {
      test(`signs in ${byDocument ? "with a document" : "after registering"}, calls, and refreshes`, async (t) => {
        const { hub, client, callback, documents, documentUrl, page, seen } = await setting(t, make, { byDocument });
        const { version: spoken, clientId } = await client.start();
        assert.equal(spoken, version);
        if (byDocument) {
          assert.equal(clientId, documentUrl);
          assert.deepEqual(
            documents.requests.map(({ path }) => path),
            ["/oauth/client.json"],
          );
          assert.match(seen[0].text, /described by localhost:\d+/);
        } else {
          assert.match(clientId, /^client-/);
          assert.deepEqual(documents.requests, []);
          assert.match(seen[0].text, /registered itself/);
        }
        assert.equal(seen.length, 1, "the owner was asked once");
        assert.equal(seen[0].url.searchParams.get("resource"), `${hub.url}/mcp`);
        assert.deepEqual(seen[0].switches, { "See tasks": true, "Hand out tasks": true });
        assert.match(seen[0].text, new RegExp(`127\\.0\\.0\\.1:${callback.port}`));

        const status = await client.call("hub_status");
        assert.equal(typeof status.version, "string", JSON.stringify(status));
        const [grant] = await activeGrants(hub);
        assert.equal(grant.client_id, clientId);
        assert.deepEqual(grant.scopes, ["tasks:read", "tasks:write"]);

        await hub.owner("DELETE", "/api/grants");
        await client.call("hub_status");
        assert.equal(seen.length, 2, "the owner is asked anew once the grant has ended");
        assert.equal((await activeGrants(hub)).length, 1);

        client.later(HOUR + 60);
        await client.call("hub_status");
        const [, before, after] = client.tokens();
        assert.equal(client.tokens().length, 3, "tokens came once more");
        assert.notEqual(before.access_token, after.access_token);
        assert.notEqual(before.refresh_token, after.refresh_token);
        assert.equal(after.expires_in, HOUR);
        assert.equal(seen.length, 2, "a refresh needs no user");

        for (const { method, headers } of callback.visits) {
          assert.equal(method, "GET");
          assert.equal(headers.referer, undefined);
        }
        assert.deepEqual(page.complaints, []);
        await client.close();
      });
    }

    test("meets a missing scope", async (t) => {
      const { hub, client, seen, user } = await setting(t, make, { byDocument: false });
      await hub.executor("bot");
      user.uncheck = ["Hand out tasks"];
      await client.start();
      assert.deepEqual(
        (await activeGrants(hub)).map(({ scopes }) => scopes),
        [["tasks:read"]],
      );
      user.uncheck = [];
      if (!stepsUp) {
        // It refreshes, which cannot bring more, and gives up: that it says so is all that the hub can do for it.
        await assert.rejects(client.call("submit_task", TASK), /403/);
        assert.equal(seen.length, 1);
        return;
      }
      const task = await client.call("submit_task", TASK);
      assert.equal(seen.length, 2, "the owner is asked for more");
      const wanted = new Set(seen[1].url.searchParams.get("scope").split(" "));
      assert.ok(wanted.has("tasks:read") && wanted.has("tasks:write"), [...wanted].join(" "));
      assert.equal((await hub.task(task.task_id)).state, "submitted");
      await client.close();
    });
  });
}
