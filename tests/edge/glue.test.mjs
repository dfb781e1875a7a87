// The few lines of JavaScript between a request and the object, without the Worker around them.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const source = await readFile(new URL("../../src/edge/glue.js", import.meta.url), "utf8");
const { forward } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const BYTES_MAX = 1_000;

/** What becomes of a body that comes in these parts, so far apart, at an object that answers so late. */
async function forwarded({ parts = ["x"], apart = 0, answersAfter = 0, limit = 200, look }) {
  const asked = [];
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const fetch = async (_url, init) => {
    asked.push(new TextDecoder().decode(init.body));
    await pause(answersAfter);
    return new Response("answered");
  };
  const body = new ReadableStream({
    async pull(controller) {
      const part = parts.shift();
      await pause(apart);
      if (part === undefined) return controller.close();
      if (part === null) return controller.error(new Error("gone"));
      controller.enqueue(new TextEncoder().encode(part));
    },
  });
  const request = new Request("http://hub/executor/ping", { method: "POST", body, duplex: "half" });
  const env = { HUB: { getByName: () => ({ fetch }) } };
  const trouble = (_env, _request, bytes, deadline, kind) => ({ bytes, deadline, kind });
  const answer = await forward(env, request, false, BYTES_MAX, limit, trouble, look);
  return { asked, kind: answer.kind, text: answer instanceof Response ? await answer.text() : null };
}

test("a client that sends slowly uses up none of the object's time", async () => {
  const { asked, text, kind } = await forwarded({ parts: ["a", "b", "c"], apart: 100, answersAfter: 100 });
  assert.deepEqual({ asked, text, kind }, { asked: ["abc"], text: "answered", kind: undefined });
});

test("an object that does not answer in time is trouble", async () => {
  assert.deepEqual(await forwarded({ answersAfter: 400 }), { asked: ["x"], kind: "late", text: null });
});

test("a body that breaks off or is too large does not reach the object", async () => {
  assert.deepEqual(await forwarded({ parts: ["x", null] }), { asked: [], kind: "broken", text: null });
  assert.deepEqual(await forwarded({ parts: ["x".repeat(BYTES_MAX), "x"] }), { asked: [], kind: "too large", text: null });
});

test("a body that is looked at first reaches the object only if nobody answers in its place", async () => {
  const seen = [];
  const look = (answer) => (_env, _request, bytes) => {
    seen.push(new TextDecoder().decode(bytes));
    return answer;
  };
  const refusal = await forwarded({ parts: ["a", "b"], look: look(new Response("refused")) });
  assert.deepEqual(refusal, { asked: [], kind: undefined, text: "refused" });
  const passed = await forwarded({ look: look(undefined) });
  assert.deepEqual(passed, { asked: ["x"], kind: undefined, text: "answered" });
  assert.deepEqual(seen, ["ab", "x"]);
});
