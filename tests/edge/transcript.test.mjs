// The scripted runs of tests/suite/transcript, against the built Worker: every answer is word for word the native one.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { root, startHub } from "./harness/hub.mjs";

/** What `World` and the scripts of the native suite are configured with. */
const VARS = {
  HUB_SECRET: "a secret of the tests, long enough",
  OWNER_TOKEN: "owner-token-of-the-tests",
  PUBLIC_URL: "https://hub.example",
  LEASE_SECONDS: "60",
  INPUT_TIMEOUT_SECONDS: "120",
};

/** Headers that the runtime adds, or that only the test build has. */
const NOT_OURS = ["content-length", "transfer-encoding", "connection", "keep-alive", "date"];

async function nativeScripts(t) {
  const directory = await mkdtemp(path.join(tmpdir(), "taskhub-transcripts-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const env = { ...process.env, TASKHUB_TRANSCRIPTS: directory };
  await promisify(execFile)("cargo", ["test", "--quiet", "--test", "suite", "transcript"], { cwd: root, env });
  const files = (await readdir(directory)).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(path.join(directory, file), "utf8")));
  return texts.map((text) => text.trim().split("\n").map((line) => JSON.parse(line)));
}

/** Sends a scripted request as it is. fetch would not let it choose its Host. */
function send(hub, agent, step) {
  const headers = { ...Object.fromEntries(step.headers), "x-test-now": step.now, "x-test-entropy": step.entropy };
  const body = Buffer.from(step.body);
  if (body.length > 0) headers["content-length"] = body.length;
  const options = { host: "127.0.0.1", port: hub.port, method: step.method, path: step.path, headers, agent };
  return new Promise((resolve, reject) => {
    const request = http.request(options, async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      resolve({ status: response.statusCode, headers: response.headers, body: text });
    });
    request.on("error", reject).end(body);
  });
}

/** The runtime keeps tables of its own beside the hub's, so its database is larger. */
const DATABASE_SIZE = /(database_bytes\\*":)\d+/g;

/** An answer in the form in which both sides can be compared. */
function comparable({ status, headers, body }) {
  const ours = Object.entries(headers).filter(([name]) => !NOT_OURS.includes(name) && !name.startsWith("x-rows-"));
  return { status, headers: Object.fromEntries(ours), body: body.replace(DATABASE_SIZE, "$1…") };
}

test("scripted runs give the same answers in workerd as natively", { timeout: 600_000 }, async (t) => {
  const scripts = await nativeScripts(t);
  assert.ok(scripts.length >= 4);
  for (const [index, script] of scripts.entries()) {
    const hub = await startHub(t, VARS);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    for (const [number, step] of script.entries()) {
      const { answer, ...asked } = step;
      const expected = comparable({ ...answer, headers: Object.fromEntries(answer.headers) });
      const what = `script ${index + 1}, request ${number + 1}: ${JSON.stringify(asked)}`;
      assert.deepEqual(comparable(await send(hub, agent, step)), expected, what);
    }
    t.diagnostic(`script ${index + 1}: ${script.length} requests`);
    await hub.stop();
  }
});
