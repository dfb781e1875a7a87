// kill -9 under load, again and again on the same state: what was acknowledged is there, nothing is done twice, every lease
// and every wake goes on. CRASH_ROUNDS says how often; the ordinary run is short.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { answerWith, startReceiver } from "./harness/receiver.mjs";
import { pass, until } from "./harness/until.mjs";

const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 5);
const SUBMITTERS = 3;
const EXECUTORS = 4;
const OPEN_MAX = 40;
/** The share of attempts that end without a word. */
const ABANDONED = 0.05;
const SETTLE_MS_MAX = 120_000;

/** What the clients were told, and how long they go on. */
class Ledger {
  constructor() {
    this.submitting = true;
    this.working = true;
    /** Key of a submission to the id it was acknowledged with. */
    this.tasks = new Map();
    /** Id to the result that was acknowledged. */
    this.results = new Map();
    /** "id#attempt" to the executor that was given it. */
    this.claims = new Map();
  }

  get open() {
    return this.tasks.size - this.results.size;
  }
}

/** Calls until there is an answer that is not the hub's death: the same call each time, as a careful client does. */
async function insist(call, goesOn) {
  while (goesOn()) {
    try {
      const answer = await call();
      if (answer.status < 500) return answer;
      assert.equal(answer.status, 503, `only an object that is gone may fail: ${answer.status} ${answer.text}`);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    await pass(20);
  }
  return null;
}

async function submitter(hub, ledger, to) {
  while (ledger.submitting) {
    if (ledger.open >= OPEN_MAX) {
      await pass(20);
      continue;
    }
    const key = randomUUID();
    const task = { title: "A task", instructions: "Do it.", idempotency_key: key, max_attempts: 100, ...to };
    const answer = await insist(() => hub.mcp.call("submit_task", task), () => ledger.working);
    if (answer === null) return;
    const { isError, structuredContent } = answer.body.result;
    assert.ok(!isError, answer.text);
    ledger.tasks.set(key, structuredContent.task_id);
  }
}

/** Claims once and does what it gets. Returns whether there was a task. */
async function work(executor, ledger) {
  const goesOn = () => ledger.working;
  const request = { request_id: randomUUID() };
  const claimed = await insist(() => executor.call("claim", request), goesOn);
  if (claimed === null || claimed.status === 204) return false;
  // A claim whose answer was lost for longer than the lease is over.
  if (claimed.status === 409) return true;
  assert.equal(claimed.status, 200, claimed.text);
  const { task, attempt, claim_token } = claimed.body;
  const name = `${task.id}#${attempt}`;
  assert.ok(!ledger.claims.has(name), `${name} was given to ${ledger.claims.get(name)} and to ${executor.name}`);
  ledger.claims.set(name, executor.name);

  const own = { task_id: task.id, claim_token };
  await insist(() => executor.call("heartbeat", { ...own, note: name }), goesOn);
  // Some die on the way; the lease brings their task to another attempt.
  if (Math.random() < ABANDONED) return true;
  const report = { ...own, status: "completed", result: name };
  const ended = await insist(() => executor.call("result", report), goesOn);
  if (ended?.status === 200) {
    assert.ok(!ledger.results.has(task.id), `${task.id} has two accepted results`);
    ledger.results.set(task.id, name);
  } else if (ended !== null) {
    assert.equal(ended.body.code, "lease_lost", ended.text);
  }
  return true;
}

async function poller(executor, ledger) {
  while (ledger.working) {
    if (!(await work(executor, ledger))) await pass(20);
  }
}

/** Works only when it was woken, until nothing is left: a wake that is lost for good leaves its tasks behind. */
async function sleeper(executor, ledger, receiver) {
  let seen = 0;
  while (ledger.working) {
    const woken = receiver.received.length > seen;
    seen = receiver.received.length;
    if (woken) while (await work(executor, ledger));
    else await pass(20);
  }
}

test(`${ROUNDS} rounds of kill -9 under load lose nothing and do nothing twice`, async (t) => {
  const settings = { LEASE_SECONDS: 2, REWAKE_AFTER_SECONDS: 2, WAKE_COALESCE_SECONDS: 1, WAKE_TIMEOUT_SECONDS: 1 };
  const hub = await startHub(t, settings);
  const receiver = await startReceiver(t, answerWith(200));
  const wake = { adapter: "webhook", url: receiver.url, auth: { kind: "none" } };
  const woken = await hub.executor("sleeper", { wake });
  const polling = [];
  for (let index = 0; index < EXECUTORS; index += 1) {
    polling.push(await hub.executor(`poller-${index}`, { queues: ["errands"] }));
  }

  const ledger = new Ledger();
  const submitters = Promise.all([
    submitter(hub, ledger, { executor: "sleeper" }),
    ...Array.from({ length: SUBMITTERS }, () => submitter(hub, ledger, { queue: "errands" })),
  ]);
  const executors = [...polling.map((executor) => poller(executor, ledger)), sleeper(woken, ledger, receiver)];
  const all = Promise.all([submitters, ...executors]);
  all.catch(() => {
    ledger.submitting = false;
    ledger.working = false;
  });

  for (let round = 0; round < ROUNDS && ledger.working; round += 1) {
    await pass(150 + Math.random() * 450);
    await hub.kill();
    await hub.start();
  }
  ledger.submitting = false;
  // A submission that is still under way is acknowledged too; its task is among those that must be done.
  await submitters;
  const done = async (id) => (await hub.task(id)).state === "completed";
  const waiting = new Set(ledger.tasks.values());
  await until(
    async () => {
      for (const id of waiting) if (ledger.results.has(id) || (await done(id))) waiting.delete(id);
      return waiting.size === 0 || !ledger.working;
    },
    { what: "every task to be done", ms: SETTLE_MS_MAX, more: () => `${[...waiting]}\n${hub.log.slice(-2_000)}` },
  );
  ledger.working = false;
  await all;

  assert.equal(new Set(ledger.tasks.values()).size, ledger.tasks.size, "each key has a task of its own");
  for (const [key, id] of ledger.tasks) {
    const again = { title: "A task", instructions: "Do it.", idempotency_key: key, max_attempts: 100 };
    const task = await hub.task(id);
    const to = task.executor === null ? { queue: task.queue } : { executor: task.executor };
    assert.equal((await hub.mcp.tool("submit_task", { ...again, ...to })).task_id, id, "its key still names it");
    assert.equal(task.state, "completed", `${id} is ${task.state}: ${JSON.stringify(task.events)}`);
    if (ledger.results.has(id)) assert.equal(task.result, ledger.results.get(id), `${id} has the acknowledged result`);
    const ends = task.events.filter((event) => event.kind === "completed");
    assert.equal(ends.length, 1, `${id} ended ${ends.length} times`);
    const attempts = task.events.filter((event) => event.kind === "claimed").map((event) => event.attempt);
    assert.deepEqual(attempts, attempts.map((_, index) => index + 1), `${id} counts its attempts`);
  }
  t.diagnostic(`${ledger.tasks.size} tasks, ${ledger.claims.size} claims, ${receiver.received.length} wakes`);
  assert.ok(ledger.tasks.size >= ROUNDS, "there was load");
});
