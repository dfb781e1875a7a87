// The compiled load generator (tests/load), and the bare object that the hub is measured against.

import { spawn } from "node:child_process";
import path from "node:path";

import { Hub, OWNER_TOKEN, root } from "./hub.mjs";

const LOAD = path.join(root, "tests", "load");
const BINARY = path.join(process.env.CARGO_TARGET_DIR || path.join(root, "target"), "load", "release", "taskhub-load");
/** The build that is deployed; the test build counts rows and can be moved in time. */
export const PRODUCTION_BUILD = path.join(root, "build");
/** Tasks that an executor may hold. */
const HELD_MAX = 1_000;

const target = ({ port, process }) => ({ address: `127.0.0.1:${port}`, pid: process.pid });

/** Runs the load generator on a plan. `until` ends a probe. Returns its report. */
async function load(what, plan, until = Promise.resolve()) {
  const child = spawn(BINARY, [what], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stdin.write(`${JSON.stringify(plan)}\n`);
  try {
    await Promise.race([until, ended]);
  } finally {
    child.stdin.end();
  }
  const code = await ended;
  if (code !== 0) throw new Error(`the load generator ended with ${code}`);
  return JSON.parse(output);
}

/** The least that a Durable Object can do and still keep what it is sent. */
export function bareObject() {
  return new Hub({}, { build: LOAD, config: path.join(LOAD, "bare.capnp"), service: "bare" });
}

/** Hub and bare object under the same calls in turns; one report a step. See tests/load/src/plan.rs for `steps`. */
export async function measureLoad(steps, secondsMax) {
  const hub = new Hub({}, { build: PRODUCTION_BUILD });
  const bare = bareObject();
  try {
    await hub.start();
    await bare.start();
    const executors = [];
    for (let index = 0; index < Math.max(...steps.map((step) => step.clients)); index += 1) {
      const { name, key } = await hub.executor(`client-${index}`, { max_concurrent: HELD_MAX });
      executors.push({ name, key });
    }
    const plan = { hub: target(hub), bare: target(bare), owner_token: OWNER_TOKEN, executors, steps };
    return await load("rounds", { ...plan, seconds_max: secondsMax });
  } finally {
    await hub.remove();
    await bare.remove();
  }
}

/** Pings without a pause for as long as `during` takes. Returns its value, and how long the answers took. */
export async function probe(hub, executor, during) {
  const plan = { hub: target(hub), key: executor.key, seconds_max: 120 };
  const running = during();
  const answers = await load("probe", plan, running);
  return { value: await running, answers };
}
