// Ten thousand requests whose bearer cannot be right: the front refuses them all by itself.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import http from "node:http";
import { test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { OAuthClient } from "./harness/oauth.mjs";

const REQUESTS = 10_000;
const AT_A_TIME = 32;
const PLACES = [
  ["POST", "/mcp", "{}"],
  ["POST", "/mcp", "{}"],
  ["GET", "/api/grants"],
  ["GET", "/api/tasks/t_1"],
  ["POST", "/executor/claim", "{}"],
  ["PUT", "/api/passphrase", "{}"],
  ["DELETE", "/api/grants"],
];

function random(bytes) {
  return randomBytes(bytes).toString("base64url");
}

/** Tokens that were issued, but not for here and now. */
async function wrongTokens(t, hub) {
  const client = await OAuthClient.register(hub);
  const right = await client.signIn();
  const code = (await client.consent()).searchParams.get("code");
  const longAgo = { "x-test-now": String(Date.now() - 2 * 86_400_000) };
  const expired = (await client.exchange(code, longAgo)).body.access_token;
  const elsewhere = await startHub(t, { HUB_SECRET: "the secret of another hub, 32+ characters" });
  const foreign = (await (await OAuthClient.register(elsewhere)).signIn()).access_token;
  // The same secret, and so the same MACs but for the audience.
  const renamed = await startHub(t, { PUBLIC_URL: "http://localhost:8787" });
  const renamedClient = await OAuthClient.register(renamed);
  const other = (await renamedClient.signIn({ resource: "http://localhost:8787/mcp" })).access_token;
  const claimed = right.access_token.replace(/\.\d+\./, `.${Math.floor(Date.now() / 1000) + 10 ** 8}.`);
  return { right: right.access_token, wrong: [expired, foreign, other, claimed, right.refresh_token, code] };
}

function junk(wrong, index) {
  const made = [
    random(1 + (index % 40)),
    `tha_${random(16)}.${Math.floor(Date.now() / 1000) + 3600}.${random(16)}`,
    `exk_${"bot"}.${random(8)}.${random(16)}`,
    "",
    "x".repeat(4_000),
  ];
  const all = [...wrong, ...made];
  return all[index % all.length];
}

test(`${REQUESTS} requests with junk for a bearer never reach the object and write nothing`, async (t) => {
  const hub = await startHub(t);
  const { right, wrong } = await wrongTokens(t, hub);
  const agent = new http.Agent({ keepAlive: true, maxSockets: AT_A_TIME });
  t.after(() => agent.destroy());
  const counts = async () => [await hub.test("GET", "requests"), await hub.test("GET", "rows")];
  const before = await counts();

  const answers = new Map();
  let next = 0;
  const send = (index) =>
    new Promise((resolve, reject) => {
      const [method, path, body] = PLACES[index % PLACES.length];
      const headers = { authorization: `Bearer ${junk(wrong, index)}`, "content-type": "application/json" };
      const request = http.request({ agent, host: "127.0.0.1", port: hub.port, method, path, headers }, (answer) => {
        const key = `${answer.statusCode} ${"www-authenticate" in answer.headers}`;
        answers.set(key, (answers.get(key) ?? 0) + 1);
        answer.resume().once("end", resolve);
      });
      request.once("error", reject).end(body);
    });
  const sender = async () => {
    while (next < REQUESTS) {
      // An object that nobody asks is unloaded after some seconds, and its count of rows begins anew.
      if (next % 500 === 0) assert.deepEqual(await counts(), before);
      await send(next++);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, sender));

  assert.deepEqual([...answers], [["401 true", REQUESTS]]);
  assert.deepEqual(await counts(), before);
  for (const query of [`access_token=${right}`, `access_token=${hub.vars.OWNER_TOKEN}`]) {
    assert.equal((await hub.request("POST", `/mcp?${query}`, { body: {} })).status, 401, "no token in the address");
  }
  assert.deepEqual(await hub.test("GET", "requests"), before[0]);

  // The count does count.
  const client = new OAuthClient(hub);
  assert.equal((await client.call(right)).status, 200);
  assert.equal((await hub.test("GET", "requests")).count, before[0].count + 1);
});
