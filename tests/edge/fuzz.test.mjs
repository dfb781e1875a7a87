// Anything may be sent to a running hub: it answers in time, never by a fault of its own, and goes on working.
//
// FUZZ_REQUESTS says how many requests are made, and FUZZ_SEED which; the same seed makes the same ones.

import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 400);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const ANSWER_MS_MAX = 8_000;
const AT_ONCE = 8;
/** The hub reads bodies of at most this many bytes. */
const BODY_BYTES_MAX = 1_048_576;

/** Mulberry32: numbers from 0 to 1 that follow from the seed. */
function chance(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end) => Math.floor(next() * end);
  return { next, below, pick: (list) => list[below(list.length)], maybe: (share) => next() < share };
}

const METHODS = ["GET", "POST", "POST", "POST", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "PURGE"];
const PATHS = [
  "/", "//", "/healthz", "/healthz/", "//healthz", "/healthz?x=1&x=2", "/healthz#f", "/mcp", "/mcp/", "/mcp?key=1", "/MCP",
  "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/../mcp",
  "/executor/claim", "/executor/heartbeat", "/executor/result", "/executor/defer", "/executor/release", "/executor/ping",
  "/executor//claim", "/executor/%63laim", "/executor/claim%00", "/executor/claim%2f", "/executor/../api/executors",
  "/api/executors", "/api/executors/", "/api/executors/nobody/keys", "/api/executors/%F0%9F%98%80/keys", "/api/executors/%ff",
  "/api/tasks/$ID", "/api/tasks/%24ID", "/api/tasks/$ID/..", "/api/tasks/%E2%80%AE", "/api/tasks/" + "x".repeat(4_000),
  "/__internal/sweep", "/%2e%2e/%2e%2e/etc/passwd", "/%", "/%zz", "/\u00e9\u{1f600}", "/a b", "/;x=1", "/?", "/??", "/[::1]",
];
const VALUES = [
  null, true, 0, -1, 1.5, 1e300, 2 ** 53, "", " ", "x", "\u0000", "\ud800", "\u{10ffff}", "$ID", "$TOKEN", "bot", "q", [], {}, [[]],
  "x".repeat(9_000), "2027-01-01T00:00:00Z", ["q"], { a: { a: { a: [] } } },
];
const FIELDS = [
  "task_id", "claim_token", "status", "note", "progress", "checkpoint", "seconds", "queues", "request_id", "wait_seconds", "name",
  "wake", "max_concurrent", "result", "data", "next", "state", "question", "__proto__", "", "jsonrpc", "id", "method", "params",
];
const RIGHT = {
  "/executor/claim": { request_id: "r" },
  "/executor/heartbeat": { task_id: "$ID", claim_token: "$TOKEN", note: "n", checkpoint: { page: 1 } },
  "/executor/result": { task_id: "$ID", claim_token: "clm_1.AAAAAAAAAAAAAAAAAAAAAA", status: "completed" },
  "/executor/defer": { task_id: "$ID", claim_token: "clm_9.AAAAAAAAAAAAAAAAAAAAAA", seconds: 5 },
  "/executor/release": { task_id: "$ID", claim_token: "clm_0.AAAAAAAAAAAAAAAAAAAAAA" },
  "/executor/ping": { version: "1" },
  "/api/executors": { name: "ant", wake: { adapter: "webhook", url: "https://127.0.0.1:1/", auth: { kind: "none" } } },
  "/mcp": { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "get_task", arguments: { task_id: "$ID" } } },
  "/mcp?list": { jsonrpc: "2.0", id: "l", method: "tools/call", params: { name: "list_tasks", arguments: { cursor: "0~1~~" } } },
  "/mcp?tools": { jsonrpc: "2.0", id: -1, method: "tools/list" },
  "/mcp?submit": { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "submit_task", arguments: { title: "\u0000" } } },
};
const HEADERS = [
  ["content-type", "application/json"], ["content-type", "text/plain"], ["content-type", ""], ["accept", "*/*"],
  ["mcp-protocol-version", "2025-11-25"], ["mcp-protocol-version", "2026-07-28"], ["mcp-protocol-version", "\u00ff\u00fe"],
  ["mcp-method", "tools/call"], ["mcp-name", "=?base64?!!!?="], ["origin", "null"], ["origin", "http://localhost"],
  ["origin", "https://\u00e9"], ["x-claim-token", "$TOKEN"], ["x-claim-token", "\u00e9"], ["x-forwarded-for", "1.2.3.4"],
  ["authorization", "Bearer"], ["authorization", "Basic b3duZXI6eA=="], ["authorization", "Bearer \u00ff"], ["cookie", "a=b"],
  ["x-long", "y".repeat(6_000)], ["if-none-match", "*"], ["range", "bytes=0-"], ["expect", "100-continue"], ["te", "trailers"],
  ["accept-encoding", "gzip"], ["content-encoding", "gzip"], ["x-http-method-override", "DELETE"],
];

/** A body for this path: right, nearly right, no JSON, or too large. */
function body(random, path) {
  const right = structuredClone(RIGHT[path] ?? {});
  switch (random.below(10)) {
    case 0: return Buffer.alloc(0);
    case 1: return Buffer.from(Array.from({ length: random.below(60) }, () => random.below(256)));
    case 2: return Buffer.from(JSON.stringify(right).slice(0, -1 - random.below(5)));
    case 3: return Buffer.from(`{"checkpoint":${"[".repeat(random.pick([10, 126, 127, 5_000]))}`);
    case 4: return random.maybe(0.3) ? Buffer.alloc(2 * BODY_BYTES_MAX, "x") : Buffer.from(`{"note":"\\ud800"}`);
    case 5:
    case 6: return Buffer.from(JSON.stringify(right));
    default:
      for (let left = 1 + random.below(2); left > 0; left -= 1) right[random.pick(FIELDS)] = random.pick(VALUES);
      return Buffer.from(JSON.stringify(right));
  }
}

/** One request as it goes over the wire. */
function draw(random) {
  const path = random.maybe(0.5) ? random.pick(Object.keys(RIGHT)) : random.pick(PATHS);
  const method = path in RIGHT && random.maybe(0.9) ? "POST" : random.pick(METHODS);
  const headers = [["host", "hub.example"], ["connection", "close"]];
  if (random.maybe(0.85)) headers.push(["authorization", path.startsWith("/executor") ? "Bearer $KEY" : `Bearer ${OWNER_TOKEN}`]);
  if (random.maybe(0.7)) headers.push(["content-type", "application/json"]);
  for (let left = random.below(4); left > 0; left -= 1) headers.push(random.pick(HEADERS));
  const bytes = random.maybe(0.85) ? body(random, path) : Buffer.alloc(0);
  return { method, path, headers, bytes, isChunked: random.maybe(0.2) };
}

/** The bytes of a request. Of the target, what HTTP has no room for goes out as UTF-8, unescaped. */
function encode({ method, path, headers, bytes, isChunked }) {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const target = Buffer.from(`${method} ${path} HTTP/1.1\r\n`);
  if (!isChunked) {
    const length = bytes.length > 0 || method === "POST" ? `content-length: ${bytes.length}\r\n` : "";
    return Buffer.concat([target, Buffer.from(`${lines}${length}\r\n`, "latin1"), bytes]);
  }
  const parts = [target, Buffer.from(`${lines}transfer-encoding: chunked\r\n\r\n`, "latin1")];
  const size = Math.max(1, Math.ceil(bytes.length / 3));
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** Sends a request on a connection of its own and reads until the hub closes it. */
function exchange(hub, request) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(hub.port, "127.0.0.1");
    const chunks = [];
    const text = () => Buffer.concat(chunks).toString("latin1");
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no answer in ${ANSWER_MS_MAX} ms, only ${JSON.stringify(text().slice(0, 200))}`));
    }, ANSWER_MS_MAX);
    // Who refuses a large body before it has come may close the connection under it.
    socket.on("error", () => {});
    socket.on("data", (data) => chunks.push(data));
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(text());
    });
    socket.end(encode(request));
  });
}

/** Status, and body as JSON where it says that it is some. */
function read(answer) {
  const end = answer.indexOf("\r\n\r\n");
  const head = answer.slice(0, end).toLowerCase();
  let text = answer.slice(end + 4);
  if (head.includes("transfer-encoding: chunked")) text = text.replace(/(^|\r\n)[0-9a-f]+\r\n/gi, "");
  const isJson = /content-type: application\/(problem\+)?json/.test(head) && text.trim() !== "";
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]), head, text, body: isJson ? JSON.parse(text) : null };
}

/** What holds for every answer. One without a body of ours comes from the runtime, which reads HTTP before the hub does. */
function check(answer) {
  if (answer === "") return "closed";
  const { status, head, text, body } = read(answer.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, ""));
  assert.ok(status >= 200 && status < 500, "no fault of the hub");
  if (body !== null && head.includes("content-type: application/problem+json")) {
    assert.equal(body.status, status);
    assert.match(body.detail, /\.$/);
    assert.ok(body.code && body.title && typeof body.retryable === "boolean");
  }
  if (status >= 400) {
    for (const secret of [OWNER_TOKEN, "clm_"]) assert.ok(!text.includes(secret), `${secret} in a refusal`);
  }
  return String(status);
}

test(`${REQUESTS} odd requests: each is answered in time and by no fault, and the work goes on`, async (t) => {
  const hub = await startHub(t);
  const executor = await hub.executor("bot", { queues: ["q"] });
  const id = await hub.submit({ executor: "bot" });
  const claim = await executor.claim();
  const fill = (text) => text.replaceAll("$ID", id).replaceAll("$TOKEN", claim.token).replaceAll("$KEY", executor.key);
  const random = chance(SEED);
  const requests = Array.from({ length: REQUESTS }, () => draw(random));
  const seen = {};
  const client = async () => {
    for (let request = requests.pop(); request; request = requests.pop()) {
      const filled = {
        ...request,
        path: fill(request.path),
        headers: request.headers.map(([name, value]) => [name, fill(value)]),
        bytes: request.bytes.length < 20_000 ? Buffer.from(fill(request.bytes.toString("latin1")), "latin1") : request.bytes,
      };
      try {
        const what = check(await exchange(hub, filled));
        seen[what] = (seen[what] ?? 0) + 1;
      } catch (error) {
        const shown = JSON.stringify({ ...request, bytes: request.bytes.toString("latin1").slice(0, 500) });
        error.message = `${error.message}\nseed ${SEED}: ${shown}\n${hub.log.slice(-2_000)}`;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  t.diagnostic(`answers by status: ${JSON.stringify(seen)}`);
  assert.ok(Math.min(seen[200], seen[400]) > REQUESTS / 30, `it is not all refused alike: ${JSON.stringify(seen)}`);

  hub.assertSound();
  const beat = await claim.heartbeat({ note: "still here" });
  assert.equal(beat.status, 200, beat.text);
  const done = await claim.complete("Done in spite of everything.");
  assert.equal(done.status, 200, done.text);
  assert.equal((await hub.task(id)).state, "completed");
  const next = await hub.submit({ queue: "q" });
  assert.equal((await executor.claim()).id, next);
});
