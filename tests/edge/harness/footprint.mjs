// What the Worker weighs, how fast it is there, and what its object keeps in memory.

import { execFileSync } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import path from "node:path";

import { Hub, TEST_BUILD } from "./hub.mjs";
import { PRODUCTION_BUILD } from "./load.mjs";
import { addTasks } from "./measure.mjs";

const WASM = path.join(PRODUCTION_BUILD, "index_bg.wasm");
const STARTS = 3;
/** Calls of each kind before memory is read, so that what is loaded on first use is loaded. */
const WARM_CALLS = 20;

const middle = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** Bytes of the compiled Worker, raw and as Cloudflare counts them. */
export async function measureSize() {
  // The program, because Node's own gzip packs a little worse than what scripts/build reports.
  const gzipped = execFileSync("gzip", ["-9", "-c", WASM], { maxBuffer: 64 << 20 }).length;
  return { raw: (await stat(WASM)).size, gzipped };
}

/** From starting the process to the first answer, on an empty state directory; and compiling alone, in this process. */
export async function measureStart() {
  const starts = [];
  for (let index = 0; index < STARTS; index += 1) {
    const hub = new Hub({}, { build: PRODUCTION_BUILD });
    try {
      const began = performance.now();
      await hub.serve();
      await answered(hub);
      starts.push(performance.now() - began);
    } finally {
      await hub.remove();
    }
  }
  const bytes = await readFile(WASM);
  const began = performance.now();
  await WebAssembly.compile(bytes);
  return { first_answer_ms: Math.round(middle(starts)), compile_ms: Math.round(performance.now() - began) };
}

async function answered(hub) {
  const { status, text } = await hub.request("GET", "/healthz");
  if (status !== 200) throw new Error(`/healthz answered ${status}: ${text}`);
}

/** Memory of the whole process after the same calls on the same database, without open tasks and with this many. */
export async function measureMemory(tasks) {
  const hub = new Hub({});
  try {
    await hub.start();
    await hub.executor("history");
    const executor = await hub.executor("one");
    const before = await residentBytes(hub, executor);
    await restart(hub, TEST_BUILD);
    await addTasks(hub, tasks, "ready");
    const after = await residentBytes(hub, executor);
    return { tasks, before, after, bytes_per_task: Math.round((after - before) / tasks) };
  } finally {
    await hub.remove();
  }
}

async function restart(hub, build) {
  await hub.kill();
  hub.worker.build = build;
  await hub.start();
}

/** Starts the deployed build on the state as it is, makes some calls, and reads what the process occupies. */
async function residentBytes(hub, executor) {
  await restart(hub, PRODUCTION_BUILD);
  for (let index = 0; index < WARM_CALLS; index += 1) {
    await executor.call("ping");
    await hub.submit({ executor: "one" });
    await (await executor.claim()).complete();
    await hub.mcp.call("list_tasks", { states: ["submitted"] });
    await hub.mcp.call("hub_status");
  }
  const status = await readFile(`/proc/${hub.process.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)[1]) * 1024;
}
