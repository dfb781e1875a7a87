// Wakes as a receiver on loopback sees them, and what their outcome does to the task.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { describe, test } from "node:test";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

import { startHub } from "./harness/hub.mjs";
import { python } from "./harness/python.mjs";
import { answerWith, neverAnswer, startReceiver } from "./harness/receiver.mjs";
import { pass, timed, until } from "./harness/until.mjs";

const SECRET = `whsec_${Buffer.alloc(32, "taskhub").toString("base64")}`;
const NONE = { kind: "none" };

function webhook(url, auth = NONE, more = {}) {
  return { wake: { adapter: "webhook", url, auth, ...more } };
}

/** The task once the outcome of its wake is known, whatever it is. */
function untilRecorded(hub, id) {
  return until(
    async () => {
      const task = await hub.task(id);
      return task.last_wake_status !== "sent" && task.last_wake_status !== null && task;
    },
    { what: "the outcome of the wake", more: () => hub.log },
  );
}

async function unusedUrl() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return `http://127.0.0.1:${port}/`;
}

describe("wakes", { concurrency: 4 }, () => {
  test("an hmac wake is verified by standardwebhooks from npm and from PyPI", async (t) => {
    const hub = await startHub(t);
    const receiver = await startReceiver(t);
    const executor = await hub.executor("bot", webhook(receiver.url, { kind: "hmac", secret: SECRET }));
    const id = await hub.submit({ executor: "bot", title: "Secret title", instructions: "Secret instructions" });
    const [wake] = await receiver.untilReceived(1);

    assert.deepEqual([wake.method, wake.path, wake.headers["content-type"]], ["POST", "/wake", "application/json"]);
    const expected = { event: "wake", executor: "bot", hub: hub.url };
    assert.deepEqual(new Webhook(SECRET).verify(wake.body, wake.headers), expected);
    assert.throws(() => new Webhook(SECRET).verify(`${wake.body} `, wake.headers), WebhookVerificationError);
    const headers = Object.fromEntries(Object.entries(wake.headers).filter(([name]) => name.startsWith("webhook-")));
    const seen = await python("verify_webhook.py", [JSON.stringify({ secret: SECRET, headers, body: wake.body })]);
    assert.deepEqual(seen, { verified: expected, forgery_passes: false });

    assert.ok(!JSON.stringify(wake).includes("Secret"), "a wake never holds the task");
    assert.equal((await hub.untilState(id, "dispatched")).last_wake_status, "accepted");
    assert.equal((await executor.claim()).id, id);
  });

  test("a bearer wake carries the token, which the hub never shows again", async (t) => {
    const hub = await startHub(t);
    const receiver = await startReceiver(t);
    await hub.executor("bot", webhook(receiver.url, { kind: "bearer", token: "token-of-the-bot" }));
    await hub.submit({ executor: "bot" });
    const [wake] = await receiver.untilReceived(1);
    assert.equal(wake.headers.authorization, "Bearer token-of-the-bot");
    const listed = await hub.owner("GET", "/api/executors");
    const shown = { adapter: "webhook", url: receiver.url, auth: { kind: "bearer" } };
    assert.deepEqual(listed.body.executors[0].wake, shown);
    assert.ok(!listed.text.includes("token-of-the-bot"));
  });

  test("a fixed body is sent as the owner configured it, under the signature", async (t) => {
    const hub = await startHub(t);
    const receiver = await startReceiver(t);
    const body = { text: "Ärbeit für dich ☃", nested: [1, { a: null }] };
    await hub.executor("bot", webhook(receiver.url, { kind: "hmac", secret: SECRET }, { body }));
    await hub.submit({ executor: "bot" });
    const [wake] = await receiver.untilReceived(1);
    assert.deepEqual(new Webhook(SECRET).verify(wake.body, wake.headers), body);
  });

  test("an executor that polls is sent nothing", async (t) => {
    const hub = await startHub(t);
    await hub.executor("bot", { wake: { adapter: "poll" } });
    const id = await hub.submit({ executor: "bot" });
    const task = await hub.task(id);
    assert.deepEqual([task.state, task.next_wake_at, task.last_wake_status], ["submitted", null, null]);
  });

  test("no answer in time: dispatched, outcome unknown; and the submitter did not wait for it", async (t) => {
    const hub = await startHub(t, { WAKE_TIMEOUT_SECONDS: 6 });
    const receiver = await startReceiver(t, neverAnswer);
    await hub.executor("bot", webhook(receiver.url));
    const { value: id, ms } = await timed(() => hub.submit({ executor: "bot" }));
    assert.ok(ms < 4_000, `submit took ${ms} ms`);
    assert.equal((await hub.task(id)).state, "submitted");
    const task = await hub.untilState(id, "dispatched");
    assert.equal(task.last_wake_status, "unknown");
    assert.equal(receiver.received.length, 1);
  });

  for (const [what, behave] of [
    ["500", answerWith(500)],
    ["404", answerWith(404)],
    ["301, which is not followed", answerWith(301, { location: "/elsewhere" })],
  ]) {
    test(`a receiver that answers ${what}: stays submitted, rejected, again in a minute`, async (t) => {
      const hub = await startHub(t);
      const receiver = await startReceiver(t, behave);
      await hub.executor("bot", webhook(receiver.url));
      const id = await hub.submit({ executor: "bot" });
      const task = await untilRecorded(hub, id);
      assert.deepEqual([task.state, task.last_wake_status, task.wake_attempts], ["submitted", "rejected", 1]);
      assert.ok(Math.abs(task.next_wake_at - Date.now() - 60_000) < 20_000);
      assert.deepEqual(receiver.received.map((wake) => wake.path), ["/wake"]);
    });
  }

  test("a refused connection: stays submitted, rejected, and an executor may claim it all the same", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("bot", webhook(await unusedUrl()));
    const id = await hub.submit({ executor: "bot" });
    const task = await untilRecorded(hub, id);
    assert.deepEqual([task.state, task.last_wake_status], ["submitted", "rejected"]);
    assert.equal((await executor.claim()).id, id);
  });

  test("a rejected wake is sent again with the same id, and given up after WAKE_MAX_ATTEMPTS", async (t) => {
    const hub = await startHub(t, { WAKE_MAX_ATTEMPTS: 3 });
    const receiver = await startReceiver(t, answerWith(503));
    await hub.executor("bot", webhook(receiver.url));
    const id = await hub.submit({ executor: "bot" });
    for (const attempts of [2, 3]) {
      const { next_wake_at: dueAt } = await untilRecorded(hub, id);
      await hub.test("POST", "tick", { now: dueAt });
      await receiver.untilReceived(attempts);
    }
    const task = await untilRecorded(hub, id);
    assert.deepEqual([task.state, task.last_wake_status, task.next_wake_at], ["submitted", "given_up", null]);
    assert.equal(new Set(receiver.received.map((wake) => wake.headers["webhook-id"])).size, 1);

    receiver.behave = answerWith(200);
    await hub.mcp.tool("wake_executor", { executor: "bot" });
    await hub.untilState(id, "dispatched");
  });

  test("tasks that follow an accepted wake send none until the executor has claimed", async (t) => {
    const hub = await startHub(t);
    const receiver = await startReceiver(t);
    const executor = await hub.executor("bot", webhook(receiver.url));
    const first = await hub.submit({ executor: "bot" });
    await hub.untilState(first, "dispatched");
    const covered = await hub.submit({ executor: "bot" });
    assert.equal((await hub.task(covered)).last_wake_status, "coalesced");
    await executor.claim();
    await executor.claim();
    const third = await hub.submit({ executor: "bot" });
    await hub.untilState(third, "dispatched");
    assert.equal(receiver.received.length, 2);
  });

  test("an accepted wake that brings no claim is followed by another after REWAKE_AFTER_SECONDS", async (t) => {
    const hub = await startHub(t, { REWAKE_AFTER_SECONDS: 2, WAKE_COALESCE_SECONDS: 0 });
    const receiver = await startReceiver(t);
    await hub.executor("bot", webhook(receiver.url));
    await hub.submit({ executor: "bot" });
    const [first, second] = await receiver.untilReceived(2);
    assert.ok(second.at - first.at >= 1_000, `${second.at - first.at} ms apart`);
    assert.notEqual(second.headers["webhook-id"], first.headers["webhook-id"]);
  });

  test("every executor of a queue is woken; one that accepts dispatches the task", async (t) => {
    const hub = await startHub(t);
    const up = await startReceiver(t);
    const down = await startReceiver(t, answerWith(500));
    await hub.executor("up", { ...webhook(up.url), queues: ["q"] });
    await hub.executor("down", { ...webhook(down.url), queues: ["q"] });
    const id = await hub.submit({ queue: "q" });
    await Promise.all([up.untilReceived(1), down.untilReceived(1)]);
    await hub.untilState(id, "dispatched");
  });

  test("a wake whose hub dies between commit and send is sent after the restart, with nobody calling", async (t) => {
    const hub = await startHub(t, { WAKE_TIMEOUT_SECONDS: 1 });
    const receiver = await startReceiver(t);
    await hub.executor("bot", webhook(receiver.url));
    // A scripted request commits and sends nothing, which is what a hub does that dies at that point.
    const script = { "x-test-now": String(Date.now()), "x-test-entropy": "commit" };
    const task = { executor: "bot", title: "A task", instructions: "Do it." };
    await hub.mcp.tool("submit_task", task, script);
    await hub.kill();
    assert.equal(receiver.received.length, 0);
    await hub.serve();
    await receiver.untilReceived(1);
  });

  test("a wake whose hub dies between send and record is sent again with the same id", async (t) => {
    const hub = await startHub(t, { WAKE_TIMEOUT_SECONDS: 1 });
    const receiver = await startReceiver(t, neverAnswer);
    await hub.executor("bot", webhook(receiver.url));
    await hub.submit({ executor: "bot" });
    await receiver.untilReceived(1);
    await hub.kill();
    receiver.behave = answerWith(204);
    await hub.serve();
    const [first, second] = await receiver.untilReceived(2);
    assert.equal(second.headers["webhook-id"], first.headers["webhook-id"]);
  });

  test("a wake that is answered after the claim changes nothing", async (t) => {
    const hub = await startHub(t, { WAKE_TIMEOUT_SECONDS: 5 });
    let answer;
    const receiver = await startReceiver(t, (response) => (answer = () => response.writeHead(204).end()));
    const executor = await hub.executor("bot", webhook(receiver.url));
    const id = await hub.submit({ executor: "bot" });
    await receiver.untilReceived(1);
    await executor.claim();
    const before = await hub.task(id);
    answer();
    await pass(300);
    assert.deepEqual(await hub.task(id), before);
  });

  test("private addresses are refused unless ALLOW_PRIVATE_WEBHOOKS says otherwise", async (t) => {
    const hub = await startHub(t, { ALLOW_PRIVATE_WEBHOOKS: "false" });
    for (const url of [
      "http://127.0.0.1:9/", "https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://10.0.0.1/",
      "https://0x7f.1/", "https://169.254.169.254/latest", "http://example.com/", "https://user:pw@example.com/",
    ]) {
      const answer = await hub.owner("POST", "/api/executors", { name: "bot", ...webhook(url) });
      assert.deepEqual([answer.status, answer.body.code], [400, "bad_request"], `${url}: ${answer.text}`);
      assert.match(answer.body.detail, /url/);
    }
    const answer = await hub.owner("POST", "/api/executors", { name: "bot", ...webhook("https://example.com/wake") });
    assert.equal(answer.status, 201);
  });
});
