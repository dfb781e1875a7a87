// Refresh tokens rotate, and yet several processes may hold the same one, and answers may be lost.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { OAuthClient } from "./harness/oauth.mjs";

const PROCESSES = 20;
const GRACE_MS = 120_000;

async function signedIn(t) {
  const hub = await startHub(t);
  const client = await OAuthClient.register(hub);
  const tokens = await client.signIn();
  const grants = async () => (await hub.owner("GET", "/api/grants")).body.grants;
  return { hub, client, tokens, grants };
}

async function refreshed(client, refreshToken) {
  const answer = await client.refresh(refreshToken);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

describe("refresh", { concurrency: 2 }, () => {
  test("twenty processes refresh the same token at once, again and again, and none is signed out", async (t) => {
    const { client, tokens, grants } = await signedIn(t);
    let held = tokens.refresh_token;
    const seen = new Set([held]);
    for (let round = 0; round < 5; round += 1) {
      const all = await Promise.all(Array.from({ length: PROCESSES }, () => refreshed(client, held)));
      assert.equal(new Set(all.map((each) => each.refresh_token)).size, 1, "they all get the same token");
      const calls = await Promise.all(all.map((each) => client.call(each.access_token)));
      assert.deepEqual([...new Set(calls.map((call) => call.status))], [200]);
      held = all[0].refresh_token;
      seen.add(held);
    }
    assert.equal(seen.size, 6, "every round brought a new one");
    const [grant, ...others] = await grants();
    assert.deepEqual([grant.active, grant.revoked_because, others.length], [true, null, 0]);
  });

  test("processes that lag behind by one generation go on", async (t) => {
    const { client, tokens, grants } = await signedIn(t);
    const processes = Array.from({ length: PROCESSES }, () => ({ held: tokens.refresh_token }));
    for (let round = 0; round < 3; round += 1) {
      const half = processes.filter((_, index) => index % 2 === round % 2);
      for (const group of [half, processes]) {
        await Promise.all(group.map(async (each) => (each.held = (await refreshed(client, each.held)).refresh_token)));
      }
    }
    const calls = await Promise.all(
      processes.map(async (each) => (await client.call((await refreshed(client, each.held)).access_token)).status),
    );
    assert.deepEqual([...new Set(calls)], [200]);
    assert.deepEqual(
      (await grants()).map((grant) => grant.active),
      [true],
    );
  });

  test("a lost answer is repaired by asking again, also after the hub was killed", async (t) => {
    const { hub, client, tokens, grants } = await signedIn(t);
    const lost = await refreshed(client, tokens.refresh_token);
    await hub.kill();
    await hub.start();
    const again = await refreshed(client, tokens.refresh_token);
    assert.equal(again.refresh_token, lost.refresh_token);
    assert.equal((await client.call(again.access_token)).status, 200);
    assert.equal((await client.call(tokens.access_token)).status, 200, "the older access token is good for its time");
    const next = await refreshed(client, again.refresh_token);
    assert.notEqual(next.refresh_token, again.refresh_token);
    await hub.kill();
    await hub.start();
    assert.equal((await client.call(next.access_token)).status, 200);
    assert.deepEqual(
      (await grants()).map((grant) => grant.active),
      [true],
    );
  });

  test("a client that hangs up in the middle gets the same by asking again", async (t) => {
    const { hub, client, tokens } = await signedIn(t);
    const form = new URLSearchParams({
      grant_type: "refresh_token",
      refresh_token: tokens.refresh_token,
      client_id: client.id,
    });
    const hungUp = Array.from({ length: 10 }, async (_, index) => {
      const signal = AbortSignal.timeout(1 + index);
      const headers = { "content-type": "application/x-www-form-urlencoded" };
      return hub.request("POST", "/token", { headers, body: `${form}`, signal }).catch(() => null);
    });
    await Promise.all(hungUp);
    const again = await refreshed(client, tokens.refresh_token);
    assert.equal((await refreshed(client, tokens.refresh_token)).refresh_token, again.refresh_token);
    assert.equal((await client.call(again.access_token)).status, 200);
  });

  test("a copy that is used after the grace ends the grant, and the owner is told", async (t) => {
    const { hub, client, tokens, grants } = await signedIn(t);
    const second = await refreshed(client, tokens.refresh_token);
    const third = await refreshed(client, second.refresh_token);
    assert.equal(
      (await refreshed(client, tokens.refresh_token)).refresh_token,
      second.refresh_token,
      "within the grace",
    );
    const late = { "x-test-now": String(Date.now() + GRACE_MS + 5_000) };
    const replayed = await client.refresh(tokens.refresh_token, late);
    assert.equal(replayed.status, 400);
    assert.equal(replayed.body.error, "invalid_grant");
    for (const { access_token: token } of [tokens, second, third]) {
      const call = await client.call(token);
      assert.equal(call.status, 401);
      assert.match(call.headers.get("www-authenticate"), /error="invalid_token"/);
    }
    assert.equal((await client.refresh(third.refresh_token)).body.error, "invalid_grant");
    assert.deepEqual(
      (await grants()).map((grant) => grant.revoked_because),
      ["refresh_replayed"],
    );
    assert.match(JSON.stringify(await hub.mcp.tool("hub_status")), /replay|copy/i);
  });
});
