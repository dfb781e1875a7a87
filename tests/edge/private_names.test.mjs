// Host names that look public and resolve to this machine: what the check of addresses cannot see, the network below it
// refuses. The name is made for the hub alone, by a hosts file in a namespace of its own.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { until } from "./harness/until.mjs";

const NAME = "rebound.example.com";

/** What a hub is to be run with, so that the name leads to this machine. */
async function rebound(context) {
  const directory = await mkdtemp(path.join(tmpdir(), "taskhub-hosts-"));
  context.after(() => rm(directory, { recursive: true }));
  const hosts = path.join(directory, "hosts");
  await writeFile(hosts, `127.0.0.1 localhost ${NAME}\n`);
  const line = 'mount --bind "$0" /etc/hosts && exec "$@"';
  return ["unshare", "--mount", "--map-root-user", "/bin/sh", "-c", line, hosts];
}

/** A port of this machine, and how many connections came to it. */
async function startPort(context) {
  const port = { connections: 0, number: 0 };
  const server = createServer((socket) => {
    port.connections += 1;
    socket.on("error", () => {});
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  port.number = server.address().port;
  return port;
}

/** Owes a wake, a callback and a notice to the port, and returns once each was tried. */
async function oweAll(hub, url) {
  await hub.executor("bot", { wake: { adapter: "webhook", url, auth: { kind: "none" } } });
  const woken = await hub.submit({ executor: "bot" });
  await until(async () => (await hub.task(woken)).last_wake_status === "rejected", { what: "a refused wake" });
  const told = await hub.submit({ executor: "bot", callback_url: url });
  await hub.mcp.tool("cancel_task", { task_id: told });
  const { body } = await hub.owner("POST", "/api/notify/test");
  return until(
    async () => {
      const { due } = (await hub.owner("GET", "/api/outbox")).body;
      const callback = due.find((message) => message.kind === "callback" && message.last_status !== null);
      return callback && { callback: callback.last_status, notice: JSON.stringify(body) };
    },
    { what: "a refused callback", more: () => hub.log },
  );
}

for (const [what, vars, service, reaches] of [
  ["is not reached where only public addresses are permitted", { ALLOW_PRIVATE_WEBHOOKS: null }, "hubPublicOnly", false],
  ["is reached where private ones are", {}, "hub", true],
]) {
  test(`a name that resolves to a private address ${what}`, async (t) => {
    const port = await startPort(t);
    const url = `https://${NAME}:${port.number}/`;
    const place = { service, wrapper: await rebound(t) };
    const hub = await startHub(t, { ...vars, NTFY_URL: url, NTFY_TOPIC: "a-topic" }, place);
    const said = await oweAll(hub, url);
    assert.ok(reaches ? port.connections >= 3 : port.connections === 0, `${port.connections} ${JSON.stringify(said)}`);
  });
}
