// The main job, end to end, with each official MCP client as the submitter: submit, wait while an executor claims,
// heartbeats and finishes, read the result. The SDKs check every answer against the protocol's and the tools' schemas.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as v2 from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "sdk-v1/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "sdk-v1/client/streamableHttp.js";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";
import { python } from "./harness/python.mjs";

const TOOLS = [
  "submit_task", "get_task", "get_attachment", "create_upload_link", "list_tasks", "answer_task", "approve_task", "cancel_task",
  "retry_task", "wake_executor", "list_executors", "enroll_executor", "hub_status",
];
const WISHES = "By the window.\n";
/** One pixel. */
const PLAN = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const FILES = [{ name: "wishes.txt", text: WISHES }, { name: "plan.png", base64: PLAN }];
const TASK = { title: "Book a table", instructions: "For two, at eight.", input_files: FILES };
const INFO = { name: "edge-tests", version: "1.0.0" };
const OPTIONS = { requestInit: { headers: { authorization: `Bearer ${OWNER_TOKEN}` } } };

function seen(result) {
  const text = result.content.filter((block) => block.type === "text").map((block) => block.text).join("");
  const images = result.content.filter((block) => block.type === "image").map((block) => [block.mimeType, block.data]);
  return { isError: result.isError ?? false, text, images, data: result.structuredContent ?? null };
}

/** What python/mcp_client.py does, with a client of either JavaScript SDK. */
async function mainJob(client) {
  const call = async (name, args) => seen(await client.callTool({ name, arguments: args }));
  const { tools } = await client.listTools();
  const refused = await call("submit_task", { ...TASK, executor: "nobody" });
  const wrong = await call("submit_task", { title: "No instructions", executor: "bot" });
  const submitted = await call("submit_task", { ...TASK, executor: "bot" });
  const states = [];
  while (!["completed", "failed", "canceled"].includes(states.at(-1)?.data.state)) {
    states.push(await call("get_task", { task_id: submitted.data.task_id, wait_seconds: 20 }));
  }
  const files = [];
  for (const { file_id: id } of states.at(-1).data.attachments) files.push(await call("get_attachment", { file_id: id }));
  const listed = await call("list_tasks", {});
  const described = tools.every((t) => t.title && t.description && t.outputSchema && t.annotations);
  const server = client.getServerVersion().name;
  await client.close();
  return {
    server, tools: tools.map((tool) => tool.name), described, refused, wrong, submitted,
    states, files, listed,
  };
}

async function withClientV2(hub, mode) {
  const transport = new v2.StreamableHTTPClientTransport(new URL(`${hub.url}/mcp`), OPTIONS);
  const client = new v2.Client(INFO, { versionNegotiation: { mode } });
  await client.connect(transport);
  const version = client.getNegotiatedProtocolVersion();
  return { version, ...(await mainJob(client)) };
}

async function withClientV1(hub) {
  const transport = new TransportV1(new URL(`${hub.url}/mcp`), OPTIONS);
  const client = new ClientV1(INFO);
  await client.connect(transport);
  return { version: transport.protocolVersion, ...(await mainJob(client)) };
}

function withPython(hub, mode) {
  return python("mcp_client.py", [`${hub.url}/mcp`, mode], { OWNER_TOKEN, TASK: JSON.stringify(TASK) });
}

/** The executor's part. */
async function work(executor) {
  const claim = await executor.claim({ wait_seconds: 25 });
  assert.equal((await claim.heartbeat({ note: "calling the restaurant", progress: 0.5 })).status, 200);
  assert.equal((await claim.complete("Booked: two, at eight. ☎", { data: { table: 7 } })).status, 200);
}

const CLIENTS = [
  ["@modelcontextprotocol/client, legacy", (hub) => withClientV2(hub, "legacy"), "2025-11-25"],
  ["@modelcontextprotocol/client, auto", (hub) => withClientV2(hub, "auto"), "2026-07-28"],
  ["@modelcontextprotocol/client, pinned", (hub) => withClientV2(hub, { pin: "2026-07-28" }), "2026-07-28"],
  ["@modelcontextprotocol/sdk 1.x", withClientV1, "2025-11-25"],
  ["PyPI's mcp, legacy", (hub) => withPython(hub, "legacy"), "2025-11-25"],
  ["PyPI's mcp, auto", (hub) => withPython(hub, "auto"), "2026-07-28"],
];

describe("the main job", { concurrency: 2 }, () => {
  for (const [name, submitWith, version] of CLIENTS) {
    test(`with ${name}`, async (t) => {
      const hub = await startHub(t);
      const executor = await hub.executor("bot");
      const working = work(executor);
      const job = await submitWith(hub);
      await working;

      assert.deepEqual([job.version, job.server], [version, "taskhub"]);
      assert.deepEqual(job.tools, TOOLS);
      assert.ok(job.described, "every tool has title, description, output schema and annotations");

      assert.equal(job.refused.isError, true);
      assert.match(job.refused.text, /no_consumer/);
      assert.match(job.refused.text, /bot/, "it names who there is");
      assert.equal(job.wrong.isError, true);
      assert.match(job.wrong.text, /instructions/);

      const done = job.states.at(-1);
      assert.deepEqual(
        [done.data.state, done.data.result, done.data.data, done.data.note],
        ["completed", "Booked: two, at eight. ☎", { table: 7 }, "calling the restaurant"],
      );
      for (const answer of [job.submitted, ...job.states, ...job.files, job.listed]) {
        assert.equal(answer.isError, false, answer.text);
        assert.deepEqual(JSON.parse(answer.text), answer.data, "the same data as text and as structured content");
      }
      const file = (name) => job.files.find((answer) => answer.data.name === name);
      assert.equal(file("wishes.txt").data.text, WISHES);
      assert.deepEqual(file("plan.png").images, [["image/png", PLAN]]);
      assert.deepEqual(job.listed.data.tasks.map((task) => task.task_id), [job.submitted.data.task_id]);
    });
  }
});
