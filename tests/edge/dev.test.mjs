// scripts/dev as its user meets it, and `wrangler dev` on the same files.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";

import { copyCheckout, Program } from "./harness/checkout.mjs";
import { until } from "./harness/until.mjs";

const shell = (line) => promisify(execFile)("/bin/sh", ["-c", line]).then(({ stdout }) => stdout);

function dev(t, directory, env = {}) {
  return new Program(t, directory, path.join(directory, "scripts/dev"), [], { PORT: "0", ...env });
}

/** The hub once it is up: its URL and the owner's token, as printed. */
async function untilUp(program) {
  const [, url] = await program.untilPrinted(/taskhub listens on (http:\/\/\S+)/);
  const [, token] = await program.untilPrinted(/claude mcp add .*Bearer (\S+)"/);
  await program.untilPrinted(/relay\.py"? run -- COMMAND/);
  return { url, token };
}

async function hubPid(directory) {
  return Number(await readFile(path.join(directory, ".taskhub/state/hub.pid"), "utf8"));
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function api(hub, method, pathname, body) {
  const headers = { authorization: `Bearer ${hub.token}`, "content-type": "application/json" };
  const response = await fetch(hub.url + pathname, { method, headers, body: body && JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

/** One task from submit to result, over the wire. */
async function oneTask(hub, name) {
  const { body: executor } = await api(hub, "POST", "/api/executors", { name });
  const call = (token, pathname, body) => api({ ...hub, token }, "POST", pathname, body);
  const task = { executor: name, title: "A task", instructions: "Do it." };
  const params = { name: "submit_task", arguments: task };
  const submitted = await call(hub.token, "/mcp", { jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const { task_id } = submitted.body.result.structuredContent;
  const { body: claim } = await call(executor.key, "/executor/claim", { wait_seconds: 5 });
  assert.equal(claim.task.id, task_id);
  const result = { task_id, claim_token: claim.claim_token, status: "completed", result: "Done." };
  assert.equal((await call(executor.key, "/executor/result", result)).body.state, "completed");
  return task_id;
}

describe("scripts/dev", { concurrency: 2 }, () => {
  test("makes secrets that only its user can read, prints lines that work, and keeps its data", async (t) => {
    const directory = await copyCheckout(t);
    const first = dev(t, directory);
    const hub = await untilUp(first);
    const vars = path.join(directory, ".dev.vars");
    assert.equal((await stat(vars)).mode & 0o777, 0o600);
    const secrets = await readFile(vars, "utf8");
    for (const name of ["HUB_SECRET", "OWNER_TOKEN", "OWNER_PASSPHRASE"]) {
      assert.match(secrets, new RegExp(`^${name}=\\S{16,}$`, "m"));
    }
    const [curl] = await first.untilPrinted(/curl -sS .*"shell".*/);
    const { code, command } = JSON.parse(await shell(curl));
    assert.ok(command.startsWith(`curl -fsSL ${hub.url}/kit/install.sh | sh -s -- --enroll ${code}`), command);
    const { key } = (await api(hub, "POST", "/executor/enroll", { code, nonce: "a nonce of this test" })).body;
    assert.match(key, /^exk_shell\./);
    const id = await oneTask(hub, "one");
    assert.equal(await first.stop("SIGTERM"), 0);

    const second = dev(t, directory);
    const again = await untilUp(second);
    assert.equal(again.token, hub.token);
    assert.equal((await api(again, "GET", `/api/tasks/${id}`)).body.task.result, "Done.");
    const claim = await api({ ...again, token: key }, "POST", "/executor/ping", {});
    assert.equal(claim.body.executor, "shell");
    assert.equal(await readFile(vars, "utf8"), secrets);
    assert.equal(await second.stop("SIGINT"), 0);
  });

  test("serves a build without the switches of the tests", async (t) => {
    const directory = await copyCheckout(t);
    const hub = await untilUp(dev(t, directory));
    const headers = { "x-test-panic": "front", "x-test-now": "2000000000000" };
    const health = await fetch(`${hub.url}/healthz`, { headers });
    assert.equal(health.status, 200);
    assert.ok(Math.abs((await health.json()).time - Date.now()) < 10_000);
    assert.equal(health.headers.get("x-rows-read"), null);
    for (const route of ["alarm", "rows", "tick", "history", "hang"]) {
      assert.equal((await fetch(`${hub.url}/__test/${route}`, { method: "POST" })).status, 404);
    }
  });

  for (const signal of ["SIGTERM", "SIGINT"]) {
    test(`${signal} ends it and its hub at once, though a call is waiting`, async (t) => {
      const directory = await copyCheckout(t);
      const program = dev(t, directory);
      const hub = await untilUp(program);
      const { body: executor } = await api(hub, "POST", "/api/executors", { name: "one" });
      const waiting = api({ ...hub, token: executor.key }, "POST", "/executor/claim", { wait_seconds: 25 });
      waiting.catch(() => {});
      const pid = await hubPid(directory);
      assert.ok(isAlive(pid));
      const stoppedAt = Date.now();
      assert.equal(await program.stop(signal), 0);
      assert.ok(Date.now() - stoppedAt < 10_000);
      assert.ok(!isAlive(pid), "no workerd is left");
    });
  }

  test("killed outright, it takes its hub along", async (t) => {
    const directory = await copyCheckout(t);
    const program = dev(t, directory);
    await untilUp(program);
    const pid = await hubPid(directory);
    await program.stop("SIGKILL");
    await until(() => !isAlive(pid), { what: "the hub to end" });
  });

  test("a port in use, a directory in use and a wrong setting are said clearly", async (t) => {
    const directory = await copyCheckout(t);
    const other = createServer().listen(0, "127.0.0.1");
    t.after(() => other.close());
    await once(other, "listening");
    const taken = String(other.address().port);
    const onTaken = dev(t, directory, { PORT: taken });
    assert.equal(await onTaken.ended, 1);
    assert.match(onTaken.output, new RegExp(`port ${taken} is in use; set PORT`));

    const first = dev(t, directory);
    await untilUp(first);
    const second = dev(t, directory);
    assert.equal(await second.ended, 1);
    assert.match(second.output, /serves .* already; .*STATE_DIR/);
    assert.equal(await first.stop("SIGTERM"), 0);

    const wrong = dev(t, directory, { LEASE_SECONDS: "soon" });
    assert.equal(await wrong.ended, 1);
    assert.match(wrong.output, /LEASE_SECONDS is "soon"/);
    await assert.rejects(hubPid(directory), { code: "ENOENT" });
  });

  test("wrangler dev serves the same files, and runs the scheduled sweep", async (t) => {
    const directory = await copyCheckout(t);
    const first = dev(t, directory);
    const { token } = await untilUp(first);
    await first.stop("SIGTERM");

    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    const { port } = probe.address();
    probe.close();
    const bin = path.join(directory, "node_modules/.bin");
    const args = ["dev", "--ip", "127.0.0.1", "--port", String(port)];
    const wrangler = new Program(t, directory, path.join(bin, "wrangler"), args, {
      PATH: `${bin}:${process.env.PATH}`,
      CI: "1",
      WRANGLER_SEND_METRICS: "false",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      XDG_CONFIG_HOME: path.join(directory, ".config"),
    });
    const hub = { url: `http://127.0.0.1:${port}`, token };
    const isUp = async () => (await fetch(`${hub.url}/healthz`)).ok;
    await until(isUp, { what: "wrangler dev", ms: 60_000, more: () => wrangler.output });
    const id = await oneTask(hub, "one");
    assert.equal((await api(hub, "GET", `/api/tasks/${id}`)).body.task.state, "completed");
    const scheduled = await fetch(`${hub.url}/cdn-cgi/handler/scheduled?cron=*/30+*+*+*+*`);
    assert.deepEqual([scheduled.status, await scheduled.text()], [200, "ok"]);
    assert.doesNotMatch(wrangler.output, /scheduled sweep/, "no complaint of the sweep in the log");
  });
});
