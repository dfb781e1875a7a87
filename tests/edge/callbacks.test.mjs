// Callbacks as a receiver on loopback sees them, and what the owner sees of those that do not get there.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, test } from "node:test";
import { Webhook } from "standardwebhooks";

import { startHub } from "./harness/hub.mjs";
import { python } from "./harness/python.mjs";
import { answerWith, neverAnswer, startReceiver } from "./harness/receiver.mjs";
import { until } from "./harness/until.mjs";

/** Submits a task with a callback and calls it off, so that the callback is owed. */
async function owe(hub, url) {
  const id = await hub.submit({ executor: "bot", callback_url: url });
  await hub.mcp.tool("cancel_task", { task_id: id });
  return id;
}

/** The message about this task once a try of it has ended. */
function untilTried(hub, id) {
  return until(
    async () => {
      const { body } = await hub.owner("GET", "/api/outbox");
      return [...body.due, ...body.dead].find((message) => message.task_id === id && message.last_status !== null);
    },
    { what: "the outcome of the callback", more: () => hub.log },
  );
}

function untilGone(hub) {
  return until(async () => (await hub.owner("GET", "/api/outbox")).body.due.length === 0, { what: "an empty outbox" });
}

/** A receiver that is no web server: what it does with the connection is `behave(socket)`. */
async function startSocket(context, behave) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => behave(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}/told`;
}

describe("callbacks", { concurrency: 4 }, () => {
  test("the end of a task is told, verified by standardwebhooks from npm and from PyPI", async (t) => {
    const hub = await startHub(t);
    const receiver = await startReceiver(t);
    const executor = await hub.executor("bot");
    const id = await hub.submit({ executor: "bot", title: "Secret title", callback_url: receiver.url });
    const claim = await executor.claim();
    assert.equal(receiver.received.length, 0);
    await claim.complete("secret result");
    const [told] = await receiver.untilReceived(1);

    const { secret } = (await hub.owner("GET", "/api/callbacks/secret")).body;
    const message = new Webhook(secret).verify(told.body, told.headers);
    assert.deepEqual([message.type, message.data.task_id, message.data.state], ["task.completed", id, "completed"]);
    assert.ok(!/secret (title|result)/i.test(told.body), "it never holds the task");
    const headers = Object.fromEntries(Object.entries(told.headers).filter(([name]) => name.startsWith("webhook-")));
    const seen = await python("verify_webhook.py", [JSON.stringify({ secret, headers, body: told.body })]);
    assert.deepEqual(seen, { verified: message, forgery_passes: false });
    await untilGone(hub);
    assert.equal(receiver.received.length, 1);
  });

  for (const [what, behave] of [
    ["200", answerWith(200)],
    ["204", answerWith(204)],
    ["200 with a body that never ends", (response) => response.writeHead(200).write("{")],
    ["200 with garbage", (response) => response.writeHead(200, { "content-type": "application/json" }).end("\u0000{[")],
  ]) {
    test(`a receiver that answers ${what} has been told`, async (t) => {
      const hub = await startHub(t);
      const receiver = await startReceiver(t, behave);
      await hub.executor("bot");
      await owe(hub, receiver.url);
      await receiver.untilReceived(1);
      await untilGone(hub);
    });
  }

  for (const [what, behave, status, least, most] of [
    ["301", answerWith(301, { location: "/elsewhere" }), /^answered 301, a redirect, which is not followed$/, 30, 36],
    ["401", answerWith(401), /^answered 401$/, 30, 36],
    ["429 with seconds", answerWith(429, { "retry-after": "600" }), /^answered 429$/, 600, 600],
    [
      "429 with a date",
      (response) =>
        response.writeHead(429, { "retry-after": new Date(Date.now() + 600_000).toUTCString() }).end(),
      /^answered 429$/,
      595,
      600,
    ],
    ["429 with nonsense", answerWith(429, { "retry-after": "soon" }), /^answered 429$/, 30, 36],
    ["500", answerWith(500), /^answered 500$/, 30, 36],
    ["nothing in time", neverAnswer, /^no answer in time$/, 30, 36],
  ]) {
    test(`a receiver that answers ${what} is told again later`, async (t) => {
      const hub = await startHub(t, { WAKE_TIMEOUT_SECONDS: 4 });
      const receiver = await startReceiver(t, behave);
      await hub.executor("bot");
      const id = await owe(hub, receiver.url);
      const message = await untilTried(hub, id);
      assert.match(message.last_status, status);
      const seconds = (message.next_at - Date.now()) / 1000;
      assert.ok(seconds > least - 15 && seconds <= most, `again in ${seconds} s`);
      assert.deepEqual(receiver.received.map((told) => told.path), ["/wake"], "no redirect is followed");
    });
  }

  for (const [what, behave] of [
    ["closes at once", (socket) => socket.destroy()],
    ["closes in the middle of its headers", (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-le")],
    ["speaks another protocol", (socket) => socket.end("220 mail.example ESMTP\r\n")],
  ]) {
    test(`a receiver that ${what} is told again later`, async (t) => {
      const hub = await startHub(t);
      const url = await startSocket(t, behave);
      await hub.executor("bot");
      const message = await untilTried(hub, await owe(hub, url));
      assert.equal(message.tries, 1);
    });
  }

  test("a refusal is repeated with the same id and body until the bound; then the owner sees it and may repeat it", async (t) => {
    const hub = await startHub(t);
    const receiver = await startReceiver(t, answerWith(503));
    await hub.executor("bot");
    const id = await owe(hub, receiver.url);
    for (let tries = 1; tries < 8; tries += 1) {
      const message = await until(
        async () => {
          const { body } = await hub.owner("GET", "/api/outbox");
          return body.due.find((one) => one.tries === tries && one.last_status !== null && one.next_at > Date.now());
        },
        { what: `try ${tries}`, more: () => hub.log },
      );
      await hub.test("POST", "tick", { now: message.next_at });
      await receiver.untilReceived(tries + 1);
    }
    const dead = await until(async () => (await hub.owner("GET", "/api/outbox")).body.dead[0], { what: "a dead letter" });
    assert.deepEqual([dead.id, dead.tries, dead.last_status], [`end_${id}`, 8, "answered 503"]);
    for (const part of [(told) => told.headers["webhook-id"], (told) => told.body]) {
      assert.equal(new Set(receiver.received.map(part)).size, 1);
    }
    const { attention } = await hub.mcp.tool("hub_status", {});
    assert.match(attention.join(), /could not be delivered: 1; the latest is a callback/);

    receiver.behave = answerWith(200);
    assert.equal((await hub.owner("POST", `/api/outbox/${dead.id}/retry`)).status, 200);
    await receiver.untilReceived(9);
    await untilGone(hub);
  });

  test("a hub that dies between commit and send, or between send and record, tells after the restart", async (t) => {
    const hub = await startHub(t, { WAKE_TIMEOUT_SECONDS: 1 });
    const receiver = await startReceiver(t, neverAnswer);
    await hub.executor("bot");
    const id = await owe(hub, receiver.url);
    await receiver.untilReceived(1);
    await hub.kill();
    receiver.behave = answerWith(200);
    await hub.serve();
    await receiver.untilReceived(2);
    await untilGone(hub);
    const ids = receiver.received.map((told) => told.headers["webhook-id"]);
    assert.deepEqual([...new Set(ids)], [`end_${id}`]);
  });

  test("two hundred at once are all told, a few at a time", async (t) => {
    const hub = await startHub(t);
    let open = 0;
    let most = 0;
    const receiver = await startReceiver(t, (response) => {
      open += 1;
      most = Math.max(most, open);
      setTimeout(() => {
        open -= 1;
        response.writeHead(200).end();
      }, 20);
    });
    await hub.executor("bot");
    const ids = await Promise.all(Array.from({ length: 200 }, () => owe(hub, receiver.url)));
    await receiver.untilReceived(200, 60_000);
    await untilGone(hub);
    const told = receiver.received.map((one) => JSON.parse(one.body).data.task_id);
    assert.deepEqual(told.toSorted(), ids.toSorted(), "each once");
    assert.ok(most <= 6, `${most} at a time`);
  });
});
