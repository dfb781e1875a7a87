// GET /api/events: every event of the hub, once and in order.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";
import { OAuthClient } from "./harness/oauth.mjs";
import { Socket, handshake } from "./harness/socket.mjs";
import { pass, timed, until } from "./harness/until.mjs";

const EVENTS = "/api/events";
const HIBERNATES_MS = 13_000;
const EVENTS_MIN = 1_000;
const ROUNDS = 300;

const watch = (t, hub, query = "") => Socket.open(t, hub, EVENTS + query, OWNER_TOKEN);
const events = (socket) => socket.heard.filter(({ type }) => type === "event");
const seqs = (socket) => events(socket).map(({ seq }) => seq);
const upTo = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

async function untilSeq(socket, seq, ms = 30_000) {
  const more = () => JSON.stringify([socket.ended, socket.heard.slice(-3)]);
  await until(() => seqs(socket).at(-1) >= seq, { what: `event ${seq}`, ms, more });
  return events(socket);
}

/** Submits so many tasks, one after the other: an event each. */
async function submitMany(hub, count) {
  for (let n = 0; n < count; n += 1) await hub.submit({ executor: "box" });
}

describe("watching events", { concurrency: 4 }, () => {
  test("tells the newest seq, then what happens, as it happens, in the words of the wire", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    await hub.submit({ executor: "box" });
    const live = await watch(t, hub);
    const all = await watch(t, hub, "?after=0");
    assert.deepEqual(await live.untilHeard(1), [{ type: "hello", seq: 1 }]);
    assert.deepEqual((await all.untilHeard(2))[0], { type: "hello", seq: 1 });
    const claim = await executor.claim();
    const { value: heard, ms } = await timed(() => live.untilHeard(2));
    assert.ok(ms < 1_000, `after ${ms} ms`);
    const { at, ...event } = heard[1];
    assert.ok(Math.abs(at - Date.now()) < 60_000);
    const what = { type: "event", seq: 2, task_id: claim.id, kind: "claimed", attempt: 1, actor: "executor:box", data: null };
    assert.deepEqual(event, what);
    await claim.heartbeat({ note: "under way" });
    await claim.heartbeat();
    await claim.complete();
    const changed = { type: "changed", task_id: claim.id };
    await untilSeq(live, 3);
    assert.deepEqual(live.heard[2], changed, "a note is no event, and a bare heartbeat changes nothing");
    assert.deepEqual([live.heard.length, live.heard[3].kind], [4, "completed"]);
    await untilSeq(all, 3);
    assert.deepEqual(seqs(all), [1, 2, 3]);
    assert.deepEqual(all.heard.filter(({ type }) => type === "changed"), [changed]);
  });

  test("an event is there to be read when it is told", async (t) => {
    const hub = await startHub(t);
    await hub.executor("box");
    const socket = await watch(t, hub);
    const told = [];
    const look = (event) => told.push(hub.task(event.task_id));
    const push = socket.heard.push.bind(socket.heard);
    socket.heard.push = (message) => {
      if (message.type === "event") look(message);
      return push(message);
    };
    await submitMany(hub, 20);
    await untilSeq(socket, 20);
    const found = await Promise.all(told);
    assert.deepEqual(found.map(({ state }) => state), Array(20).fill("submitted"));
  });

  test("1,000 events in order across reconnects at random moments, each exactly once", { timeout: 180_000 }, async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 600 });
    const executor = await hub.executor("box");
    const heard = [];
    let [isOver, last] = [false, 0];
    const watching = (async () => {
      while (!isOver) {
        const after = heard.at(-1) ?? 0;
        const socket = await watch(t, hub, `?after=${after}`);
        const wanted = Math.min(after + 1 + Math.floor(Math.random() * 60), EVENTS_MIN);
        await until(() => isOver || seqs(socket).at(-1) >= wanted, { what: "more", ms: 60_000 });
        // What has arrived counts, and nothing that arrives later.
        heard.push(...seqs(socket));
        socket.drop();
        await pass(Math.random() * 30);
      }
    })();
    watching.catch(() => {});
    while (last < EVENTS_MIN) {
      const tasks = Array.from({ length: 5 }, () => hub.submit({ executor: "box" }));
      const ids = await Promise.all(tasks);
      const claims = await Promise.all(ids.map(() => executor.claim()));
      await Promise.all(claims.map((claim) => claim.complete()));
      last += 15;
    }
    await until(() => heard.at(-1) >= last, { what: `event ${last}`, ms: 60_000, more: () => `${heard.at(-1)}` });
    isOver = true;
    await watching;
    assert.deepEqual(heard, upTo(1, last));
  });

  test("a long backlog comes in pages, other calls have their turns, and live events follow", async (t) => {
    const hub = await startHub(t);
    await hub.executor("box");
    await submitMany(hub, 300);
    const { value: sockets } = await timed(() => Promise.all(Array.from({ length: 4 }, () => watch(t, hub, "?after=0"))));
    const { ms } = await timed(() => hub.submit({ executor: "box" }));
    assert.ok(ms < 2_000, `a submit beside it took ${ms} ms`);
    for (const socket of sockets) {
      await untilSeq(socket, 301);
      assert.deepEqual(seqs(socket), upTo(1, 301));
      assert.ok(socket.heard[0].seq >= 300, "the hello came first");
    }
  });

  test("the cursor survives hibernation", { timeout: 120_000 }, async (t) => {
    const hub = await startHub(t);
    await hub.executor("box");
    await submitMany(hub, 3);
    const socket = await watch(t, hub, "?after=1");
    await untilSeq(socket, 3);
    await pass(HIBERNATES_MS);
    assert.ok((await hub.test("GET", "sockets")).in_memory_ms < 5_000, "the object was out of memory");
    await submitMany(hub, 2);
    await untilSeq(socket, 5);
    assert.deepEqual(seqs(socket), [2, 3, 4, 5]);
  });

  test("after kill -9 a client goes on where it was, and nothing is missing", async (t) => {
    const hub = await startHub(t);
    await hub.executor("box");
    const before = await watch(t, hub);
    await submitMany(hub, 5);
    await untilSeq(before, 5);
    const submitting = Promise.allSettled(Array.from({ length: 20 }, () => hub.submit({ executor: "box" })));
    await pass(20);
    await hub.kill();
    await submitting;
    await before.closed;
    const told = seqs(before).at(-1);
    await hub.start();
    const after = await watch(t, hub, `?after=${told}`);
    await hub.submit({ executor: "box" });
    const newest = after.heard[0].seq;
    assert.ok(newest >= told, "what was told was on disk");
    await untilSeq(after, newest + 1);
    assert.deepEqual([...seqs(before), ...seqs(after)], upTo(1, newest + 1));
  });

  test("a client that never reads holds up nobody, and costs little memory", { timeout: 120_000 }, async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box", { max_concurrent: 1_000 });
    (await watch(t, hub)).deafen();
    const reading = await watch(t, hub);
    // 32,000 bytes each: what lies in the buffers of the kernel in between is soon full.
    const question = "\u{1F642}".repeat(8_000);
    for (let n = 0; n < ROUNDS; n += 1) {
      await hub.submit({ executor: "box" });
      const claim = await executor.claim();
      await claim.heartbeat({ question });
    }
    const newest = 3 * ROUNDS;
    await untilSeq(reading, newest);
    assert.deepEqual(seqs(reading), upTo(1, newest));
    const { unread_bytes_max: unread, events: open } = await hub.test("GET", "sockets");
    assert.equal(open, 2);
    assert.ok(unread > 100_000, `the deaf one is behind: ${unread} bytes`);
    assert.ok(unread < 400_000, `it has ${unread} bytes in memory`);
    const { ms } = await timed(() => hub.submit({ executor: "box" }));
    assert.ok(ms < 1_000, `a submit takes ${ms} ms`);
  });

  test("is the owner's, and says what is wrong with a request", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    for (const token of [undefined, "junk", executor.key]) {
      assert.equal((await handshake(hub, EVENTS, token)).status, 401);
    }
    const plain = await hub.owner("GET", EVENTS);
    assert.deepEqual([plain.status, plain.body.code], [426, "upgrade_required"]);
    for (const query of ["?after=1", "?after=x", "?since=0"]) {
      const { status, body } = await handshake(hub, EVENTS + query, OWNER_TOKEN);
      assert.deepEqual([status, body.code], [400, "bad_request"]);
    }
    assert.equal((await handshake(hub, `${EVENTS}?after=0`, OWNER_TOKEN)).status, 101);
  });

  test("a client with hub:admin may watch; once its grant or its token has ended it is told nothing more", async (t) => {
    const hub = await startHub(t, { ACCESS_TOKEN_SECONDS: 60 });
    await hub.executor("box");
    const client = await OAuthClient.register(hub);
    const opened = async (...scopes) => {
      const { access_token: token } = await client.signIn({ scope: scopes.join(" ") }, { scopes });
      return Socket.open(t, hub, EVENTS, token);
    };
    await assert.rejects(opened("tasks:read"), /403/);
    const revoked = await opened("hub:admin", "tasks:read");
    const expires = await opened("hub:admin");
    await hub.submit({ executor: "box" });
    for (const socket of [revoked, expires]) await untilSeq(socket, 1);
    const { body } = await hub.owner("GET", "/api/grants");
    const ids = body.grants.filter(({ scopes }) => scopes.length === 2).map(({ id }) => id);
    assert.equal(ids.length, 1, JSON.stringify(body));
    assert.equal((await hub.owner("DELETE", `/api/grants/${ids[0]}`)).status, 200);
    await hub.submit({ executor: "box" });
    assert.equal((await revoked.closed).code, 4005);
    await untilSeq(expires, 2);
    const later = { "x-test-now": String(Date.now() + 61_000) };
    await hub.mcp.tool("submit_task", { executor: "box", title: "A", instructions: "B" }, later);
    const { code, reason } = await expires.closed;
    assert.equal(code, 4005);
    assert.match(reason, /reconnect with after=N/);
    assert.deepEqual([seqs(revoked), seqs(expires)], [[1], [1, 2]]);
  });

  test("pings are answered, other messages are not taken, and the tenth closes the socket", async (t) => {
    const hub = await startHub(t);
    await hub.executor("box");
    const socket = await watch(t, hub);
    socket.send("ping");
    assert.equal((await socket.untilHeard(2))[1], "pong");
    for (let n = 0; n < 5; n += 1) socket.send("more!");
    await socket.untilHeard(7);
    await hub.submit({ executor: "box" });
    assert.equal((await socket.untilHeard(8))[7].seq, 1);
    for (let n = 0; n < 5; n += 1) socket.send("more!");
    assert.equal((await socket.closed).code, 4004);
  });

  test("of more than 64 watchers the one that was heard from longest ago gives way", async (t) => {
    const hub = await startHub(t);
    await hub.executor("box");
    const first = await watch(t, hub);
    await pass(5);
    const second = await watch(t, hub);
    await pass(5);
    first.send("ping");
    await first.untilHeard(2);
    const others = [];
    for (let n = 0; n < 62; n += 1) others.push(await watch(t, hub));
    assert.equal(second.ended, null);
    const last = await watch(t, hub);
    assert.equal((await second.closed).code, 4003);
    await hub.submit({ executor: "box" });
    for (const socket of [first, last, ...others]) await untilSeq(socket, 1);
  });
});
