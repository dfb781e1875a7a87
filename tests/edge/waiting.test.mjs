// Calls that wait: a claim for work, get_task for a change.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { pass, timed, until } from "./harness/until.mjs";

/** How soon a waiting call is answered after what it waits for, on a busy machine too; far sooner than its own time ends. */
const PROMPT_MS_MAX = 5_000;

describe("waiting", { concurrency: 4 }, () => {
  test("a waiting claim is answered as soon as a task is submitted", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one", { queues: ["q"] });
    for (const address of [{ executor: "one" }, { queue: "q" }]) {
      const claiming = executor.claim({ wait_seconds: 20 });
      await pass(200);
      const id = await hub.submit(address);
      const { value: claim, ms } = await timed(() => claiming);
      assert.equal(claim.id, id);
      assert.ok(ms < PROMPT_MS_MAX, `answered after ${ms} ms`);
      await claim.complete();
    }
  });

  test("a waiting claim is answered 204 when its time is over", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const { value: answer, ms } = await timed(() => executor.call("claim", { wait_seconds: 1 }));
    assert.equal(answer.status, 204);
    assert.ok(ms >= 950 && ms < PROMPT_MS_MAX, `after ${ms} ms`);
  });

  test("of eight waiting claims one gets the task, and the others wait on", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one", { max_concurrent: 8 });
    const claims = Array.from({ length: 8 }, () => executor.claim({ wait_seconds: 3 }));
    await pass(200);
    const id = await hub.submit({ executor: "one" });
    assert.equal((await Promise.race(claims)).id, id);
    const taken = (await Promise.all(claims)).filter(Boolean);
    assert.equal(taken.length, 1);
  });

  test("a claim whose connection breaks takes no task", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const body = JSON.stringify({ wait_seconds: 20 });
    const head = `POST /executor/claim HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer ${executor.key}\r\n`;
    const socket = connect(hub.port, "127.0.0.1");
    socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
    await pass(300);
    // A reset: bare workerd takes a mere end of the client's data for a client that still listens.
    socket.resetAndDestroy();
    await pass(1_000);
    const id = await hub.submit({ executor: "one" });
    const claim = await executor.claim({ wait_seconds: 5 });
    assert.deepEqual([claim?.id, claim?.answer.attempt], [id, 1]);
  });

  test("a claim that waits while its hub is killed fails cleanly, and goes on with the restarted hub", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const claiming = executor.claim({ request_id: "r-1", wait_seconds: 20 });
    const failing = assert.rejects(timed(() => claiming), TypeError);
    await pass(200);
    await hub.kill();
    await failing;
    await hub.start();
    const again = executor.claim({ request_id: "r-1", wait_seconds: 20 });
    const id = await hub.submit({ executor: "one" });
    assert.equal((await again).id, id);
  });

  test("a released task goes to a claim that waits", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one", { max_concurrent: 2 });
    const id = await hub.submit({ executor: "one" });
    const first = await executor.claim();
    const claiming = executor.claim({ wait_seconds: 20 });
    await pass(200);
    assert.equal((await first.call("release", { note: "shutting down" })).body.state, "submitted");
    const second = await claiming;
    assert.deepEqual([second.id, second.answer.attempt, second.answer.task.failures], [id, 2, 0]);
  });

  test("get_task with wait_seconds returns on every change, and when its time is over", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one" });
    const watch = (wait_seconds) => timed(() => hub.mcp.tool("get_task", { task_id: id, wait_seconds }));
    const assertSeen = async (change, shows) => {
      const watching = watch(20);
      await pass(150);
      const changedAt = performance.now();
      const changed = await change();
      assert.match(JSON.stringify((await watching).value), shows);
      assert.ok(performance.now() - changedAt < PROMPT_MS_MAX, `${shows} was seen late`);
      return changed;
    };
    assert.ok((await watch(1)).ms >= 950, "nothing changed");
    const claim = await assertSeen(() => executor.claim(), /working/);
    await assertSeen(() => claim.heartbeat({ note: "counting chairs" }), /counting chairs/);
    await assertSeen(() => claim.heartbeat({ question: "Which table?" }), /Which table\?/);
    assert.ok((await watch(20)).ms < PROMPT_MS_MAX, "an open question is answered at once");
    await hub.mcp.tool("answer_task", { task_id: id, answer: "The round one." });
    await assertSeen(() => claim.complete("Booked."), /Booked\./);
    assert.ok((await watch(20)).ms < PROMPT_MS_MAX, "a finished task is answered at once");
  });

  test("get_task that waits sees what the alarm does", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 1 });
    const executor = await hub.executor("one");
    const id = await hub.submit({ executor: "one", max_attempts: 1 });
    await executor.claim();
    const { value: seen, ms } = await timed(() => hub.mcp.tool("get_task", { task_id: id, wait_seconds: 20 }));
    assert.match(JSON.stringify(seen), /lease_expired/);
    assert.ok(ms < 10_000);
  });

  test("one call too many does not wait", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("one");
    const gone = new AbortController();
    const headers = { authorization: `Bearer ${executor.key}` };
    const options = { headers, body: { wait_seconds: 20 }, signal: gone.signal };
    const wait = () => hub.request("POST", "/executor/claim", options);
    const waiting = Array.from({ length: 256 }, () => wait().catch(() => {}));
    await until(
      async () => {
        const { value: answer, ms } = await timed(() => executor.call("claim", { wait_seconds: 5 }));
        return answer.status === 204 && ms < 4_500;
      },
      { what: "a claim that does not wait", ms: 60_000 },
    );
    gone.abort();
    await Promise.all(waiting);
  });
});
