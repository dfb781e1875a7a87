// kit/relay.py against the real hub.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { Relay } from "./harness/relay.mjs";
import { pass, until } from "./harness/until.mjs";

/** A command that says who it is and never ends by itself. */
const ENDLESS = 'echo $$ > "$DIR/pid"; echo under way >&2; exec sleep 60';

async function directory(t) {
  const made = await mkdtemp(path.join(tmpdir(), "taskhub-relay-"));
  t.after(() => rm(made, { recursive: true, force: true }));
  return made;
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A hub with one executor and a relay that runs the endless command, which has begun. */
async function endless(t, vars) {
  const hub = await startHub(t, vars);
  const executor = await hub.executor("box");
  const DIR = await directory(t);
  const id = await hub.submit({ executor: "box" });
  const relay = Relay.start(t, executor, ENDLESS, { env: { DIR } });
  const read = async () => Number(await readFile(path.join(DIR, "pid"), "utf8"));
  const pid = await until(read, { what: "the command to begin", more: () => relay.log });
  t.after(() => isAlive(pid) && process.kill(pid, "SIGKILL"));
  return { hub, executor, id, relay, pid };
}

function untilDead(pid, relay) {
  return until(() => !isAlive(pid), { what: "the command to be killed", more: () => relay.log });
}

describe("the relay", { concurrency: 3 }, () => {
  test("does a task end to end: the task in, heartbeats with notes, the result out", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 6 });
    const executor = await hub.executor("box");
    const relay = Relay.start(t, executor, 'echo counting >&2; sleep 4; wc -c; echo "for $TASKHUB_TASK_ID"; cat');
    const id = await hub.submit({ executor: "box", instructions: "Zähle mich. ☃" });
    const task = await hub.untilState(id, "completed", 30_000);
    assert.match(task.result, new RegExp(`^\\d+\\s+for ${id}`));
    assert.deepEqual([task.attempt, task.failures, task.note], [1, 0, "counting"]);
    assert.ok(!relay.log.includes(executor.key), "no key in the log");
    assert.equal(await relay.stop(), 0);
  });

  test("hands the command the claim without its token", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    Relay.start(t, executor, "cat");
    const id = await hub.submit({ executor: "box", context: { city: "Köln" } });
    const { result } = await hub.untilState(id, "completed");
    const given = JSON.parse(result);
    assert.deepEqual([given.task.id, given.task.context, given.attempt], [id, { city: "Köln" }, 1]);
    assert.equal(given.claim_token, undefined);
  });

  test("reports a failure with the end of stderr, and one worth a retry as such", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    Relay.start(t, executor, 'echo "no such host" >&2; exit $(cat | grep -c "try again" | sed s/1/75/ | sed s/0/3/)');
    const failed = await hub.submit({ executor: "box" });
    const task = await hub.untilState(failed, "failed");
    assert.equal(task.error_code, "executor_failed");
    assert.match(task.error, /no such host/);
    const retried = await hub.submit({ executor: "box", instructions: "try again" });
    const waiting = await hub.untilState(retried, "waiting");
    assert.deepEqual([waiting.waiting_on, waiting.failures], ["time", 1]);
  });

  test("kills the command when the lease is lost", async (t) => {
    const { hub, executor, id, relay, pid } = await endless(t, { LEASE_SECONDS: 4 });
    relay.signal("SIGSTOP");
    await hub.untilState(id, "submitted");
    const other = await executor.claim();
    assert.equal(other.answer.attempt, 2);
    relay.signal("SIGCONT");
    await untilDead(pid, relay);
    assert.equal((await other.complete("by the other")).status, 200);
    assert.equal((await hub.task(id)).result, "by the other");
  });

  test("kills the command when the task is canceled, and goes on with the next", async (t) => {
    const { hub, id, relay, pid } = await endless(t, { LEASE_SECONDS: 5 });
    await hub.mcp.tool("cancel_task", { task_id: id });
    await untilDead(pid, relay);
    assert.equal((await hub.task(id)).state, "canceled");
    const next = await hub.submit({ executor: "box" });
    await hub.untilState(next, "working");
  });

  test("SIGTERM ends the command and gives the task back at once, free of charge", async (t) => {
    const { hub, id, relay, pid } = await endless(t, {});
    assert.equal(await relay.stop(), 0);
    assert.ok(!isAlive(pid));
    const task = await hub.task(id);
    assert.deepEqual([task.state, task.failures], ["submitted", 0]);
  });

  test("a relay that is stopped while it waits leaves the next task to others", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    const first = Relay.start(t, executor, "echo first");
    await first.untilLogged(/waiting for tasks/);
    await pass(500);
    assert.equal(await first.stop(), 0);
    const id = await hub.submit({ executor: "box" });
    Relay.start(t, executor, "echo second");
    const task = await hub.untilState(id, "completed", 30_000);
    assert.deepEqual([task.result.trim(), task.attempt], ["second", 1]);
  });

  test("a command goes on while its hub is killed and restarted, and its result arrives", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 10 });
    const executor = await hub.executor("box");
    const relay = Relay.start(t, executor, "sleep 3; echo made it");
    const id = await hub.submit({ executor: "box" });
    await hub.untilState(id, "working");
    await hub.kill();
    await pass(500);
    await hub.start();
    const task = await hub.untilState(id, "completed", 30_000);
    assert.deepEqual([task.result.trim(), task.attempt], ["made it", 1]);
    assert.equal(await relay.stop(), 0);
  });

  test("the task of a relay that is killed comes back after its lease, for another relay", async (t) => {
    const { hub, executor, id, relay, pid } = await endless(t, { LEASE_SECONDS: 5 });
    await relay.kill();
    process.kill(pid, "SIGKILL");
    Relay.start(t, executor, "echo second");
    const task = await hub.untilState(id, "completed", 30_000);
    assert.deepEqual([task.result.trim(), task.attempt, task.failures], ["second", 2, 1]);
  });

  test("two relays with two slots each do each of 20 tasks once", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box", { max_concurrent: 4 });
    const DIR = await directory(t);
    const script = 'echo "$TASKHUB_TASK_ID $NAME" >> "$DIR/done"; echo "$NAME"';
    const args = ["--concurrency", "2"];
    for (const NAME of ["a", "b"]) Relay.start(t, executor, script, { env: { DIR, NAME }, args });
    const ids = [];
    for (let n = 0; n < 20; n += 1) ids.push(await hub.submit({ executor: "box" }));
    for (const id of ids) assert.equal((await hub.untilState(id, "completed", 30_000)).attempt, 1);
    const lines = (await readFile(path.join(DIR, "done"), "utf8")).trim().split("\n");
    assert.deepEqual(lines.map((line) => line.split(" ")[0]).toSorted(), ids.toSorted());
    assert.equal(new Set(lines.map((line) => line.split(" ")[1])).size, 2, "both worked");
  });
});
