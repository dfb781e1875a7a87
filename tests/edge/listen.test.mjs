// GET /executor/listen: executors that hold a socket open are told of work at once.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";
import { Socket, handshake } from "./harness/socket.mjs";
import { pass, until } from "./harness/until.mjs";

const LISTEN = "/executor/listen";
/** How soon a wake must arrive. */
const WAKE_MS_MAX = 1_000;
/** The runtime takes an object out of memory after ten seconds without an event. */
const HIBERNATES_MS = 13_000;
const WAKE = { event: "wake" };

const listen = (t, executor) => Socket.open(t, executor.hub, LISTEN, executor.key);
const requests = async (hub) => (await hub.test("GET", "requests")).count;
const sockets = (hub) => hub.test("GET", "sockets");

/** Submits and returns how long it took until each of these sockets heard of it. */
async function woken(hub, task, listeners) {
  const before = listeners.map((socket) => socket.heard.length);
  const submitted = performance.now();
  await hub.submit(task);
  await Promise.all(listeners.map((socket, index) => socket.untilHeard(before[index] + 1)));
  return listeners.map((socket) => socket.arrived.at(-1) - submitted);
}

describe("listening", { concurrency: 4 }, () => {
  test("a wake arrives within a second of the submit, at the executor's own address and at its queues", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box", { queues: ["ops", "errands"] });
    await hub.executor("other");
    const socket = await listen(t, executor);
    for (const address of [{ executor: "box" }, { queue: "ops" }, { queue: "errands" }]) {
      const [ms] = await woken(hub, address, [socket]);
      assert.ok(ms < WAKE_MS_MAX, `after ${ms} ms`);
    }
    await hub.submit({ executor: "other" });
    await pass(300);
    assert.deepEqual(socket.heard, [WAKE, WAKE, WAKE]);
  });

  test("a wake to a queue reaches all that serve it, and none else", async (t) => {
    const hub = await startHub(t);
    const serving = [];
    for (const name of ["a", "b", "c"]) serving.push(await listen(t, await hub.executor(name, { queues: ["shared"] })));
    const aside = await listen(t, await hub.executor("d", { queues: ["aside"] }));
    for (const ms of await woken(hub, { queue: "shared" }, serving)) assert.ok(ms < WAKE_MS_MAX, `after ${ms} ms`);
    await pass(200);
    assert.deepEqual([serving.map((socket) => socket.heard.length), aside.heard], [[1, 1, 1], []]);
  });

  test("work that is there already is told at the connect, and work that comes back is told again", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 1 });
    const executor = await hub.executor("box");
    await hub.submit({ executor: "box" });
    const socket = await listen(t, executor);
    assert.deepEqual(await socket.untilHeard(1), [WAKE]);
    const claim = await executor.claim();
    assert.deepEqual((await listen(t, executor)).heard, []);
    await claim.call("release");
    assert.deepEqual(await socket.untilHeard(2), [WAKE, WAKE]);
    await executor.claim();
    // Its lease ends without a heartbeat: it is the alarm that makes the task claimable.
    assert.deepEqual((await socket.untilHeard(3)).length, 3);
  });

  test("a socket outlives the object's memory: a wake and a ping after hibernation", { timeout: 120_000 }, async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box", { queues: ["q"] });
    const socket = await listen(t, executor);
    await pass(HIBERNATES_MS);
    socket.send("ping");
    assert.deepEqual(await socket.untilHeard(1), ["pong"]);
    const { listening, in_memory_ms } = await sockets(hub);
    assert.equal(listening, 1);
    assert.ok(in_memory_ms < 5_000, `the object was out of memory: ${in_memory_ms} ms`);
    for (const address of [{ executor: "box" }, { queue: "q" }]) {
      const [ms] = await woken(hub, address, [socket]);
      assert.ok(ms < WAKE_MS_MAX, `after ${ms} ms`);
    }
    assert.deepEqual(socket.heard, ["pong", WAKE, WAKE]);
    assert.equal((await socket.close()).code, 1000);
    await until(async () => (await sockets(hub)).listening === 0, { what: "the socket to be gone" });
  });

  test("pings keep nobody awake", { timeout: 120_000 }, async (t) => {
    const hub = await startHub(t);
    const socket = await listen(t, await hub.executor("box"));
    for (let n = 0; n < 13; n += 1) {
      socket.send("ping");
      await pass(1_000);
    }
    assert.deepEqual(await socket.untilHeard(13), Array(13).fill("pong"));
    assert.ok((await sockets(hub)).in_memory_ms < 5_000, "the object was out of memory");
  });

  test("after kill -9 the socket is gone, and a new one is told of what was submitted before", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    const socket = await listen(t, executor);
    await hub.submit({ executor: "box" });
    await socket.untilHeard(1);
    await hub.kill();
    assert.equal((await socket.closed).code, 1006);
    await hub.start();
    assert.deepEqual(await (await listen(t, executor)).untilHeard(1), [WAKE]);
  });

  test("junk never reaches the object; a revoked key does, and is refused", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    const before = await requests(hub);
    for (const token of [undefined, "junk", "exk_box.AAAA.BBBB", OWNER_TOKEN, `${executor.key}x`]) {
      const answer = await handshake(hub, LISTEN, token);
      assert.deepEqual([answer.status, answer.body.code], [401, "unauthorized"]);
    }
    const plain = await hub.request("GET", LISTEN, { headers: { authorization: `Bearer ${executor.key}` } });
    assert.deepEqual([plain.status, plain.body.code], [426, "upgrade_required"]);
    assert.equal(await requests(hub), before, "all that was the front's");
    assert.equal((await handshake(hub, LISTEN, executor.key)).status, 101);
    await hub.owner("POST", "/api/executors/box/keys", { revoke_others: true });
    assert.equal((await handshake(hub, LISTEN, executor.key)).status, 401);
  });

  test("a message that is no ping is answered with what to send; the tenth closes the socket", async (t) => {
    const hub = await startHub(t);
    const socket = await listen(t, await hub.executor("box"));
    for (let n = 1; n < 10; n += 1) {
      socket.send(n % 2 ? "Ping" : JSON.stringify({ event: "claim" }));
      const heard = await socket.untilHeard(n);
      assert.equal(heard.at(-1).error.code, "unexpected_message");
      assert.match(heard.at(-1).error.detail, /ping/);
    }
    socket.send(new Uint8Array([1, 2, 3]));
    const { code, reason } = await socket.closed;
    assert.equal(code, 4004);
    assert.match(reason, /nothing but the text ping/);
  });

  test("of more than eight sockets of an executor the oldest gives way", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    const other = await listen(t, await hub.executor("other"));
    const open = [];
    for (let n = 0; n < 8; n += 1) {
      open.push(await listen(t, executor));
      await pass(5);
    }
    assert.deepEqual(open.map((socket) => socket.ended), Array(8).fill(null));
    const ninth = await listen(t, executor);
    const { code, reason } = await open[0].closed;
    assert.equal(code, 4003);
    assert.match(reason, /Keep one open/);
    await woken(hub, { executor: "box" }, [...open.slice(1), ninth]);
    assert.deepEqual([(await sockets(hub)).listening, other.ended], [9, null]);
  });

  test("an executor whose key is revoked is cut off at once, and nobody else is", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    const other = await listen(t, await hub.executor("other"));
    const open = [await listen(t, executor), await listen(t, executor)];
    const revoked = performance.now();
    await hub.owner("POST", "/api/executors/box/keys", { revoke_others: true });
    for (const socket of open) {
      const { code, reason } = await socket.closed;
      assert.equal(code, 4001);
      assert.match(reason, /after a 401 ask the owner for a new key/);
    }
    assert.ok(performance.now() - revoked < WAKE_MS_MAX);
    assert.deepEqual([other.ended, (await sockets(hub)).listening], [null, 1]);
  });

  test("who listens is online, and who has been silent for 150 seconds neither is nor stays", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    await (await hub.executor("caller")).call("ping");
    const socket = await listen(t, executor);
    const began = Date.now();
    const online = async (after_ms) => {
      const { body } = await hub.owner("GET", "/api/executors", undefined, { "x-test-now": String(began + after_ms) });
      return Object.fromEntries(body.executors.map(({ name, online: is }) => [name, is]));
    };
    assert.deepEqual(await online(1_000), { box: true, caller: true });
    assert.deepEqual(await online(100_000), { box: true, caller: false });
    assert.deepEqual(await online(160_000), { box: false, caller: false });
    assert.equal(socket.ended, null, "looking closes nothing");
    await hub.mcp.tool("submit_task", { executor: "box", title: "A", instructions: "B" }, { "x-test-now": String(began + 160_000) });
    const { code, reason } = await socket.closed;
    assert.deepEqual([code, socket.heard], [4002, []]);
    assert.match(reason, /send the text ping every 50 seconds/);
  });

  test("an executor that listens writes no rows", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    await executor.call("ping");
    const before = (await hub.test("GET", "rows")).written;
    const socket = await listen(t, executor);
    socket.send("ping");
    await socket.untilHeard(1);
    await socket.close();
    assert.equal((await hub.test("GET", "rows")).written, before);
  });
});
