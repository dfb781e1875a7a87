// Rows are the currency of a Durable Object: what each call reads and writes, whatever the history.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";

import { startHub } from "./harness/hub.mjs";
import { addTasks, EMPTY_CLAIM_READ_MAX, measure, TASK_READ_MAX, TASK_WRITTEN_MAX } from "./harness/measure.mjs";
import { OAuthClient } from "./harness/oauth.mjs";
import { until } from "./harness/until.mjs";

const LITTLE = 10;
const MUCH = 100_000;

test("rows per call are within the limits, and the same with 10 and with 100,000 tasks of history", async (t) => {
  const hub = await startHub(t);
  await addTasks(hub, LITTLE);
  const young = await measure(hub, "young");
  await addTasks(hub, MUCH - LITTLE);
  const old = await measure(hub, "old");

  for (const { first, usual, others } of [young, old]) {
    for (const task of [first, usual]) {
      assert.ok(task.task.written <= TASK_WRITTEN_MAX, JSON.stringify(task));
      assert.ok(task.task.read <= TASK_READ_MAX, JSON.stringify(task));
      for (const beat of [task["heartbeat 1"], task["heartbeat 2"]]) assert.equal(beat.written, 1);
    }
    assert.equal(others["empty claim"].written, 0);
    assert.ok(others["empty claim"].read <= EMPTY_CLAIM_READ_MAX, JSON.stringify(others));
    for (const name of ["ping", "healthz", "list_tasks", "list_executors", "hub_status"]) {
      assert.equal(others[name].written, 0, name);
    }
  }
  // The second executor is one more row for whatever looks at all of them.
  for (const name of ["list_executors", "hub_status", "list_tasks"]) delete young.others[name], delete old.others[name];
  // The alarm was set before the second measurement, so the first task of that need not set it.
  assert.deepEqual(old.usual, young.usual);
  assert.deepEqual(old.others, young.others);
});

test("an empty claim that waits costs the same as one that does not", async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("one");
  await executor.call("claim");
  const waited = await executor.call("claim", { wait_seconds: 1 });
  assert.equal(waited.status, 204);
  assert.equal(waited.headers.get("x-rows-written"), "0");
  assert.ok(Number(waited.headers.get("x-rows-read")) <= 20);
});

test("a stranger's look at the consent page reads no more than the page shows", async (t) => {
  const hub = await startHub(t);
  const bots = ["bot-1", "bot-2", "bot-3"];
  for (const name of bots) await hub.executor(name);
  for (const name of bots) for (let task = 0; task < 10; task += 1) await hub.submit({ executor: name });
  const client = await OAuthClient.register(hub);
  for (const [scope, readMax] of [
    ["tasks:read tasks:write", 5],
    ["tasks:read tasks:execute", 5 + bots.length],
  ]) {
    const page = await fetch(client.authorizeUrl({ scope }));
    assert.equal(page.status, 200);
    assert.equal((await page.text()).includes("bot-1"), scope.includes("execute"));
    assert.equal(page.headers.get("x-rows-written"), "0");
    assert.ok(Number(page.headers.get("x-rows-read")) <= readMax, `${scope}: ${page.headers.get("x-rows-read")}`);
  }
});

test("credentials that cannot be right never reach the object", async (t) => {
  const hub = await startHub(t);
  const { key } = await hub.executor("one");
  // A request that only read may be followed by a look at the alarm, which reads too.
  let before;
  let same = 0;
  const settled = async () => {
    const now = await hub.test("GET", "rows");
    same = isDeepStrictEqual(now, before) ? same + 1 : 0;
    before = now;
    return same >= 5;
  };
  await until(settled, { what: "the object to be at rest" });
  const forged = `${key.slice(0, -2)}${key.endsWith("AA") ? "BB" : "AA"}`;
  for (const bearer of ["junk", "exk_one.abc.def", forged, ""]) {
    for (const [method, path] of [["POST", "/executor/claim"], ["POST", "/mcp"], ["GET", "/api/executors"]]) {
      const answer = await hub.request(method, path, {
        headers: { authorization: `Bearer ${bearer}` },
        body: method === "POST" ? {} : undefined,
      });
      assert.equal(answer.status, 401, `${path} with ${bearer}: ${answer.text}`);
      assert.equal(answer.headers.get("x-rows-read"), null, "the front answered");
    }
  }
  assert.deepEqual(await hub.test("GET", "rows"), before);
});
