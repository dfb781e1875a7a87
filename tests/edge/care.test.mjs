// What the owner does for executors, where the runtime matters: calls that wait, restarts, a method and a query of its own.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { pass, timed } from "./harness/until.mjs";

/** How soon a waiting call is answered after what it waits for, on a busy machine too; far sooner than its own time ends. */
const PROMPT_MS_MAX = 5_000;

describe("executors' care", { concurrency: 4 }, () => {
  test("a claim that waits ends at once when its executor is disabled, its key is revoked, or it is deleted", async (t) => {
    const hub = await startHub(t);
    for (const [name, status, end] of [
      ["disabled", 403, () => hub.owner("PATCH", "/api/executors/disabled", { disabled: true })],
      ["revoked", 401, async () => {
        const { body } = await hub.owner("GET", "/api/executors/revoked/keys");
        return hub.owner("DELETE", `/api/executors/revoked/keys/${body.keys[0].id}`);
      }],
      ["deleted", 401, () => hub.owner("DELETE", "/api/executors/deleted")],
    ]) {
      const executor = await hub.executor(name);
      const claiming = executor.call("claim", { wait_seconds: 25 });
      await pass(300);
      const ended = await end();
      assert.equal(ended.status, 200, ended.text);
      const { value: answer, ms } = await timed(() => claiming);
      assert.equal(answer.status, status, `${name}: ${answer.text}`);
      assert.ok(ms < PROMPT_MS_MAX, `${name}: answered after ${ms} ms`);
    }
  });

  test("a claim that waits is given a task when its executor is resumed", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one", { paused: true });
    const id = await hub.submit({ executor: "one" });
    const claiming = executor.claim({ wait_seconds: 20 });
    await pass(300);
    assert.equal((await hub.owner("PATCH", "/api/executors/one", { paused: false })).body.paused, false);
    const { value: claim, ms } = await timed(() => claiming);
    assert.equal(claim.id, id);
    assert.ok(ms < PROMPT_MS_MAX, `answered after ${ms} ms`);
  });

  test("what is known of an executor outlives the process", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const said = { version: "1.2.3", capabilities: ["shell"] };
    assert.equal((await executor.call("ping", said)).status, 200);
    const seen = async () => (await hub.owner("GET", "/api/executors")).body.executors[0];
    const before = await seen();
    assert.equal(before.online, true);
    await hub.kill();
    await hub.start();
    const { version, capabilities, last_seen_at } = await seen();
    assert.deepEqual({ version, capabilities }, said);
    assert.equal(last_seen_at, before.last_seen_at);
  });

  test("an executor goes, and its tasks move", async (t) => {
    const hub = await startHub(t);
    const one = await hub.executor("one");
    const two = await hub.executor("two", { queues: ["q"] });
    const held = await hub.submit({ executor: "one" });
    const claim = await one.claim();
    const ready = await hub.submit({ executor: "one" });
    const waiting = two.claim({ wait_seconds: 20 });
    await pass(300);
    const refused = await hub.owner("DELETE", "/api/executors/one");
    assert.deepEqual([refused.status, refused.body.code], [409, "executor_has_tasks"]);
    const moved = await hub.owner("DELETE", "/api/executors/one?tasks=move&to=q");
    assert.deepEqual([moved.status, moved.body.moved, moved.body.deleted], [200, 2, true], moved.text);
    assert.equal((await claim.complete()).status, 401);
    const taken = [(await waiting).id, (await two.claim()).id];
    assert.deepEqual(taken.sort(), [held, ready].sort());
  });
});
