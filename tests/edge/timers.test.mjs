// Timers: what the object's alarm does by itself, on short durations. "By itself" means that nobody calls the hub from
// before the time comes until well after it; the task is looked at once, and its trail must say when it happened.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { pass, until } from "./harness/until.mjs";

/** How much later than due an alarm may act on a busy machine, in milliseconds; less than what `quiet` waits on top. */
const LATE_MS_MAX = 2_500;

/** Leaves the hub alone until this moment, and then some. */
function quietUntil(at) {
  return pass(at - Date.now() + LATE_MS_MAX + 100);
}

/** That the trail's last event is of this kind and happened at its time. */
function assertOnTime(task, kind, dueAt) {
  const event = task.events.at(-1);
  assert.equal(event.kind, kind, JSON.stringify(task.events));
  assert.equal(event.actor, "hub");
  const late = event.at - dueAt;
  assert.ok(late >= 0 && late <= LATE_MS_MAX, `${kind} came ${late} ms after its time`);
  return event;
}

// They mostly wait, so some wait at the same time.
describe("timers", { concurrency: 4 }, () => {
  test("a lease that expires is requeued by the alarm with nobody calling", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 3 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const claim = await executor.claim();
    await claim.heartbeat({ note: "half way" });
    const { lease_expires_at: dueAt } = await hub.task(id);
    await quietUntil(dueAt);
    const task = await hub.task(id);
    assert.deepEqual([task.state, task.failures], ["submitted", 1]);
    const event = assertOnTime(task, "requeued", dueAt);
    assert.deepEqual([event.data.reason, event.data.note], ["lease_expired", "half way"]);
  });

  test("heartbeats keep a lease alive far beyond its length", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 3 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const claim = await executor.claim();
    const end = Date.now() + 7_000;
    while (Date.now() < end) {
      assert.equal((await claim.heartbeat()).status, 200);
      await pass(500);
    }
    assert.equal((await claim.complete()).status, 200);
    const task = await hub.task(id);
    assert.deepEqual([task.attempt, task.failures], [1, 0]);
  });

  test("a lease that expires is requeued by the alarm after kill -9 and a restart, with nobody calling", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 6 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    await executor.claim();
    const { lease_expires_at: dueAt } = await hub.task(id);
    await hub.kill();
    await hub.serve();
    assert.ok(Date.now() < dueAt, "the restart was quick enough for this test to mean something");
    await quietUntil(dueAt);
    const task = await hub.task(id);
    assert.deepEqual([task.state, task.failures], ["submitted", 1]);
    assertOnTime(task, "requeued", dueAt);
  });

  test("a lease that expires while the hub is down is requeued when it comes up, with nobody calling", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 3 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    await executor.claim();
    const { lease_expires_at: dueAt } = await hub.task(id);
    await hub.kill();
    await pass(dueAt - Date.now() + 500);
    const upAt = Date.now();
    await hub.serve();
    await pass(LATE_MS_MAX);
    const askedAt = Date.now();
    const task = await hub.task(id);
    assert.equal(task.state, "submitted");
    const event = task.events.at(-1);
    assert.equal(event.kind, "requeued");
    assert.ok(event.at >= upAt && event.at < askedAt, "it was the alarm, not the request that asked");
  });

  test("the budget of max_attempts ends a task whose executor dies every time", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 1 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one", max_attempts: 2 });
    await executor.claim();
    await until(() => executor.claim(), { what: "the second attempt" });
    const task = await hub.untilState(id, "failed");
    assert.deepEqual([task.error_code, task.attempt, task.failures], ["lease_expired", 2, 2]);
  });

  test("deadline_exceeded happens by itself, in every open state", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const deadline = { executor: "one", deadline_seconds: 8 };
    const working = await hub.submit(deadline);
    await executor.claim();
    const blocked = await hub.submit(deadline);
    await (await executor.claim()).heartbeat({ question: "Which?" });
    const ready = await hub.submit(deadline);
    const waiting = await hub.submit({ ...deadline, delay_seconds: 7 });
    const tasks = await Promise.all([working, blocked, ready, waiting].map((id) => hub.task(id)));
    assert.deepEqual(tasks.map((task) => task.state), ["working", "input-required", "submitted", "waiting"]);
    await quietUntil(Math.max(...tasks.map((task) => task.deadline_at)));
    for (const { id, deadline_at } of tasks) {
      const task = await hub.task(id);
      assert.deepEqual([task.state, task.error_code], ["failed", "deadline_exceeded"]);
      assertOnTime(task, "failed", deadline_at);
    }
  });

  test("input_timeout happens by itself", async (t) => {
    const hub = await startHub(t, { INPUT_TIMEOUT_SECONDS: 3 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const claim = await executor.claim();
    const beat = await claim.heartbeat({ question: "Which table?" });
    assert.deepEqual([beat.body.state, beat.body.lease_expires_at], ["input-required", null]);
    const { input_expires_at: dueAt } = await hub.task(id);
    await quietUntil(dueAt);
    const task = await hub.task(id);
    assert.deepEqual([task.state, task.error_code], ["failed", "input_timeout"]);
    assertOnTime(task, "failed", dueAt);
  });

  test("an answered question whose executor stays silent for a lease goes back to the queue by itself", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 4 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const claim = await executor.claim();
    await claim.heartbeat({ question: "Which table?" });
    await hub.mcp.tool("answer_task", { task_id: id, answer: "The round one." });
    assert.equal((await hub.task(id)).state, "input-required");
    await pass(4_000 + LATE_MS_MAX + 100);
    const task = await hub.task(id);
    assert.equal(task.state, "submitted");
    assert.equal(task.events.at(-1).data.reason, "silent");
    assert.equal((await claim.heartbeat()).body.code, "lease_lost");
    const next = await executor.claim();
    assert.deepEqual(next.answer.context.messages.map((message) => message.text), ["Which table?", "The round one."]);
  });

  test("a delayed and a deferred task become claimable by themselves", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const delayed = await hub.submit({ executor: "one", delay_seconds: 5 });
    const deferred = await hub.submit({ executor: "one" });
    const claim = await executor.claim();
    assert.equal(claim.id, deferred);
    const answer = await claim.call("defer", { seconds: 5, checkpoint: { page: 7 }, note: "not ready" });
    assert.deepEqual([answer.status, answer.body.state], [200, "waiting"]);
    assert.equal(await executor.claim(), null);
    const due = [(await hub.task(delayed)).visible_at, (await hub.task(deferred)).visible_at];
    await quietUntil(Math.max(...due));
    for (const [index, id] of [delayed, deferred].entries()) {
      const task = await hub.task(id);
      assert.deepEqual([task.state, task.failures], ["submitted", 0]);
      assertOnTime(task, "requeued", due[index]);
    }
    const claims = [await executor.claim(), await executor.claim()];
    const again = claims.find((found) => found.id === deferred);
    assert.deepEqual(again.answer.context.checkpoint, { page: 7 });
  });

  test("a waiting claim is served when the alarm makes a task claimable", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one", delay_seconds: 3 });
    const { visible_at: dueAt } = await hub.task(id);
    const claim = await executor.claim({ wait_seconds: 10 });
    assert.equal(claim.id, id);
    assert.ok(Date.now() - dueAt < LATE_MS_MAX, "at once");
  });

  test("an earlier timer moves the alarm, a later one does not", async (t) => {
    const hub = await startHub(t);
    await hub.executor("one");
    const armedAt = async () => (await hub.test("GET", "alarm")).armed_at;
    await hub.submit({ executor: "one", delay_seconds: 600 });
    const first = await armedAt();
    await hub.submit({ executor: "one", delay_seconds: 1200 });
    assert.equal(await armedAt(), first);
    await hub.submit({ executor: "one", delay_seconds: 60 });
    assert.ok((await armedAt()) < first - 500_000);
  });

  test("a lost alarm is set again by any request", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 4 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    await executor.claim();
    await hub.test("POST", "lose-alarm");
    assert.equal((await hub.test("GET", "alarm")).armed_at, null);
    const { lease_expires_at: dueAt } = await hub.task(id);
    await pass(dueAt - Date.now() + 3_000);
    assert.equal((await fetch(`${hub.url}/healthz`)).status, 200);
    const task = await hub.untilState(id, "submitted");
    assert.equal(task.events.at(-1).data.reason, "lease_expired");
  });

  test("a lost alarm is set again by a restart's first request", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 2 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    await executor.claim();
    await hub.test("POST", "lose-alarm");
    await hub.kill();
    await hub.serve();
    assert.equal((await fetch(`${hub.url}/healthz`)).status, 200);
    await hub.untilState(id, "submitted");
  });
});
