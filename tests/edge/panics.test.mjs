// Panics, switched in by the test build: each is answered within a second, leaves nothing half written, and takes
// neither other requests nor the alarm with it.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { pass, timed, until } from "./harness/until.mjs";

/** Far less than the front's own limit, and enough for a busy machine. */
const ANSWER_MS_MAX = 4_000;

function panic(point) {
  return { "x-test-panic": point };
}

/** That this request is answered 500 in time, in words for the caller. */
async function assertPanics(request) {
  const { value: answer, ms } = await timed(request);
  assert.equal(answer.status, 500, answer.text);
  assert.equal(answer.headers.get("content-type"), "application/problem+json");
  assert.deepEqual([answer.body.code, answer.body.retryable], ["internal", true]);
  assert.ok(ms < ANSWER_MS_MAX, `answered after ${ms} ms`);
}

const TASK = { executor: "one", title: "A task", instructions: "Do it." };

describe("panics", { concurrency: 3 }, () => {
  for (const point of ["front", "handler", "transaction"]) {
    test(`a panic in the ${point}: 500 at once, nothing written, the same call works afterwards`, async (t) => {
      const hub = await startHub(t);
      const executor = await hub.executor("one");
      await assertPanics(() => hub.mcp.call("submit_task", TASK, panic(point)));
      assert.equal(await executor.claim(), null, "no task was left behind");

      const id = await hub.submit({ executor: "one" });
      await assertPanics(() => executor.call("claim", { request_id: "r-1" }, panic(point)));
      const submitted = await hub.task(id);
      assert.deepEqual([submitted.state, submitted.attempt], ["submitted", 0]);

      const claim = await executor.claim({ request_id: "r-1" });
      assert.equal(claim.answer.attempt, 1);
      const before = await hub.task(id);
      const done = { status: "completed", result: "Done." };
      await assertPanics(() => claim.call("heartbeat", { note: "lost" }, panic(point)));
      await assertPanics(() => claim.call("result", done, panic(point)));
      assert.deepEqual(await hub.task(id), before);
      assert.equal((await claim.call("result", done)).status, 200);
      assert.equal((await hub.task(id)).state, "completed");
    });
  }

  test("a panic in the owner's API rolls back what it wrote", async (t) => {
    const hub = await startHub(t);
    await assertPanics(() => hub.owner("POST", "/api/executors", { name: "one" }, panic("transaction")));
    assert.deepEqual((await hub.owner("GET", "/api/executors")).body.executors, []);
    await hub.executor("one");
  });

  test("other requests in flight are answered whatever panics beside them", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    await hub.executor("two");
    const other = await hub.submit({ executor: "two" });
    const claiming = executor.claim({ wait_seconds: 10 });
    const watching = hub.mcp.tool("get_task", { task_id: other, wait_seconds: 10 });
    await pass(200);

    for (const point of ["front", "handler", "transaction"]) {
      await assertPanics(() => hub.mcp.call("submit_task", TASK, panic(point)));
    }
    const settled = await Promise.race([claiming.then(() => true), watching.then(() => true), pass(200)]);
    assert.equal(settled, undefined, "both still wait");

    const id = await hub.submit({ executor: "one" });
    assert.equal((await claiming).id, id);
    await hub.mcp.tool("cancel_task", { task_id: other });
    assert.match(JSON.stringify(await watching), /canceled/);
  });

  test("fifty panics among fifty good calls at the same time: every call gets its own answer", async (t) => {
    const hub = await startHub(t);
    await hub.executor("one");
    const points = ["front", "handler", "transaction"];
    const calls = Array.from({ length: 100 }, async (_, n) => {
      const fails = n % 2 === 1;
      const answer = await hub.mcp.call("submit_task", TASK, fails ? panic(points[n % points.length]) : {});
      assert.equal(answer.status, fails ? 500 : 200, answer.text);
    });
    await Promise.all(calls);
    const { body } = await hub.owner("GET", "/api/executors");
    assert.equal(body.executors[0].ready, 50);
  });

  test("a panic in the alarm: the sweep comes again by itself, and later alarms fire", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 3 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const claim = await executor.claim();
    await hub.request("GET", "/healthz", { headers: panic("alarm") });
    await until(() => hub.log.includes("a sweep panicked"), { what: "the alarm to panic", more: () => hub.log });
    assert.equal((await claim.complete()).body.code, "lease_lost", "requests are answered meanwhile");

    // Nobody calls from here on; the second try comes after five seconds.
    await pass(8_000);
    const task = await hub.task(id);
    assert.deepEqual([task.state, task.failures], ["submitted", 1]);

    await executor.claim();
    const { lease_expires_at: dueAt } = await hub.task(id);
    await pass(dueAt - Date.now() + 3_000);
    assert.equal((await hub.task(id)).failures, 2);
  });

  test("an object that never answers: 503 from the front when its time is over; others are served", async (t) => {
    const hub = await startHub(t);
    const hanging = timed(() => hub.request("GET", "/__test/hang"));
    const { value: health, ms } = await timed(() => hub.request("GET", "/healthz"));
    assert.equal(health.status, 200);
    assert.ok(ms < ANSWER_MS_MAX);
    const { value: answer, ms: hung } = await hanging;
    assert.deepEqual([answer.status, answer.body.code, answer.body.retryable], [503, "unavailable", true]);
    assert.ok(hung > 9_000 && hung < 20_000, `after ${hung} ms`);
    assert.equal((await hub.request("GET", "/healthz")).status, 200);
  });
});
