// Claims: each task once, repeated claims the same, and every call of a claim that is over refused, but kept as
// evidence.

import assert from "node:assert/strict";
import { test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { pass } from "./harness/until.mjs";

const TASKS = 40;
const CLAIMERS = 8;

async function submitMany(hub, address, count) {
  const ids = [];
  for (let n = 0; n < count; n += 1) ids.push(await hub.submit({ ...address, title: `Task ${n}` }));
  return ids;
}

/** Claims until nothing is left, and finishes what it claims. */
async function drain(executor) {
  const taken = [];
  for (;;) {
    const claim = await executor.claim();
    if (claim === null) return taken;
    taken.push(claim.id);
    assert.equal(claim.answer.attempt, 1);
    const done = await claim.complete();
    assert.equal(done.status, 200, done.text);
  }
}

/** The evidence that refused calls left on a task: `call refused` each. */
function evidence(task) {
  return task.events.filter((event) => event.kind === "late").map(({ data }) => `${data.call} ${data.refused}`);
}

test("8 executors that claim from one queue take each of 40 tasks once", async (t) => {
  const hub = await startHub(t);
  const names = Array.from({ length: CLAIMERS }, (_, n) => `claimer-${n}`);
  const executors = await Promise.all(names.map((name) => hub.executor(name, { queues: ["race"] })));
  const ids = await submitMany(hub, { queue: "race" }, TASKS);
  const taken = (await Promise.all(executors.map(drain))).flat();
  assert.deepEqual(taken.toSorted(), ids.toSorted());
  for (const id of ids) assert.equal((await hub.task(id)).attempt, 1);
});

test("8 claims at a time under one executor's key take each of 40 tasks once", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one", { max_concurrent: CLAIMERS });
  const ids = await submitMany(hub, { executor: "one" }, TASKS);
  const taken = (await Promise.all(Array.from({ length: CLAIMERS }, () => drain(executor)))).flat();
  assert.deepEqual(taken.toSorted(), ids.toSorted());
});

test("a claim repeated with its request_id is the same claim, in a row and at the same moment", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one", { max_concurrent: 10 });
  await submitMany(hub, { executor: "one" }, 5);

  const first = await executor.claim({ request_id: "r-1" });
  const again = await executor.claim({ request_id: "r-1" });
  assert.deepEqual([again.id, again.token, again.answer.attempt], [first.id, first.token, 1]);

  const together = await Promise.all(Array.from({ length: 6 }, () => executor.claim({ request_id: "r-2" })));
  assert.equal(new Set(together.map((claim) => `${claim.id} ${claim.token}`)).size, 1);
  assert.notEqual(together[0].id, first.id);

  const ping = await executor.call("ping");
  assert.equal(ping.body.held, 2);

  await first.complete();
  const ended = await executor.call("claim", { request_id: "r-1" });
  assert.deepEqual([ended.status, ended.body.code, ended.body.retryable], [409, "claim_ended", false]);
});

test("a repeated claim is the same claim after kill -9 too", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  await hub.submit({ executor: "one" });
  const first = await executor.claim({ request_id: "r-1" });
  await hub.kill();
  await hub.start();
  const again = await executor.claim({ request_id: "r-1" });
  assert.deepEqual([again.id, again.token], [first.id, first.token]);
  assert.equal((await again.complete()).status, 200);
});

test("a result after the lease is refused with lease_lost and kept as evidence", async (t) => {
  const hub = await startHub(t, { LEASE_SECONDS: 4 });
  const executor = await hub.executor("one");
  const id = await hub.submit({ executor: "one" });
  const late = await executor.claim();
  await pass(4_100);
  const refused = await late.complete("too late");
  assert.deepEqual([refused.status, refused.body.code], [409, "lease_lost"]);
  assert.equal(refused.headers.get("content-type"), "application/problem+json");

  await hub.untilState(id, "submitted");
  const fresh = await executor.claim();
  assert.equal(fresh.answer.attempt, 2);
  assert.equal((await late.complete("later still")).body.code, "lease_lost");
  assert.equal((await late.heartbeat()).body.code, "lease_lost");
  assert.equal((await fresh.complete("in time")).status, 200);
  assert.equal((await late.complete("far too late")).body.code, "already_finished");

  const task = await hub.task(id);
  assert.deepEqual([task.state, task.result, task.attempt, task.failures], ["completed", "in time", 2, 1]);
  assert.deepEqual(evidence(task), [
    "result lease_lost", "result lease_lost", "heartbeat lease_lost", "result already_finished",
  ]);
  assert.match(task.events.find((event) => event.kind === "late").data.brought, /too late/);
  assert.ok(!JSON.stringify(task).includes(late.token), "no claim token in the trail");
});

test("a result of another executor is refused with lease_lost and kept as evidence", async (t) => {
  const hub = await startHub(t);
  const mine = await hub.executor("mine", { queues: ["shared"] });
  const other = await hub.executor("other", { queues: ["shared"] });
  const id = await hub.submit({ queue: "shared" });
  const claim = await mine.claim();
  const body = { task_id: id, status: "completed", result: "stolen" };
  for (const claim_token of [claim.token, `${claim.token}x`, "junk"]) {
    const refused = await other.call("result", { ...body, claim_token });
    assert.deepEqual([refused.status, refused.body.code], [409, "lease_lost"], refused.text);
  }
  const forged = await mine.call("result", { ...body, claim_token: "junk" });
  assert.deepEqual([forged.status, forged.body.code], [409, "lease_lost"]);
  assert.equal((await claim.complete("mine")).status, 200);
  const task = await hub.task(id);
  assert.equal(task.result, "mine");
  assert.equal(evidence(task).length, 4);
  assert.ok(task.events.some((event) => event.kind === "late" && event.actor === "executor:other"));
});

test("calls on a canceled task are refused with canceled and kept as evidence", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  const id = await hub.submit({ executor: "one" });
  const claim = await executor.claim();
  await hub.mcp.tool("cancel_task", { task_id: id });
  for (const answer of [await claim.heartbeat({ note: "still at it" }), await claim.complete("too late")]) {
    assert.deepEqual([answer.status, answer.body.code, answer.body.retryable], [409, "canceled", false]);
  }
  const task = await hub.task(id);
  assert.deepEqual([task.state, task.result], ["canceled", null]);
  assert.deepEqual(evidence(task), ["heartbeat canceled", "result canceled"]);
});

test("the same result sent twice is 200 twice and changes nothing; another one is refused", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  const id = await hub.submit({ executor: "one" });
  const claim = await executor.claim();
  const first = await claim.complete("Done.");
  assert.deepEqual([first.status, first.body.state], [200, "completed"]);
  const before = await hub.task(id);
  const again = await claim.complete("Done.");
  assert.deepEqual([again.status, again.body], [200, first.body]);
  assert.deepEqual(await hub.task(id), before);
  const other = await claim.complete("Something else.");
  assert.deepEqual([other.status, other.body.code], [409, "already_finished"]);
  assert.equal((await hub.task(id)).result, "Done.");
});

test("a result claims the next task in the same call, and the same one when it is repeated", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  const [a, b] = await submitMany(hub, { executor: "one" }, 2);
  const claim = await executor.claim();
  assert.equal(claim.id, a);
  const first = await claim.complete("Done.", { next: {} });
  const again = await claim.complete("Done.", { next: {} });
  assert.equal(first.body.next.task.id, b);
  assert.equal(again.body.next.claim_token, first.body.next.claim_token);
});

test("an executor holds no more tasks than max_concurrent", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one", { max_concurrent: 2 });
  await submitMany(hub, { executor: "one" }, 3);
  const claims = await Promise.all([executor.claim(), executor.claim(), executor.claim(), executor.claim()]);
  assert.equal(claims.filter(Boolean).length, 2);
  await claims.find(Boolean).complete();
  assert.notEqual(await executor.claim(), null);
});
