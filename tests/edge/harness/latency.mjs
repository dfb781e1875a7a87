// How long it takes from the submit of a task until an executor has claimed it: one that listens on a socket, and one that polls
// with claims that wait. From the moment at which the submit is sent to the one at which the claim's answer is there, so two
// calls over loopback are part of it.

import { Hub } from "./hub.mjs";
import { PRODUCTION_BUILD } from "./load.mjs";
import { Socket } from "./socket.mjs";
import { pass } from "./until.mjs";

/** How long a polling claim waits, in seconds. */
const POLL_SECONDS = 10;
/** A polling claim is on its way so long before the task is submitted, in milliseconds. */
const POLL_SETTLES_MS = 20;

/** `{tasks, p50, p99, polling: {p50, p99}}` in milliseconds, of so many tasks each. */
export async function measureWakeLatency(tasks) {
  const hub = new Hub({}, { build: PRODUCTION_BUILD });
  try {
    await hub.start();
    const listening = await listened(hub, tasks);
    const polling = await polled(hub, tasks);
    return { tasks, ...percentiles(listening), polling: percentiles(polling) };
  } finally {
    await hub.remove();
  }
}

/** Claims at each wake, as the relay does. */
async function listened(hub, tasks) {
  const executor = await hub.executor("listens");
  const socket = await Socket.open({ after: () => {} }, hub, "/executor/listen", executor.key);
  try {
    return await repeated(hub, executor, tasks, async () => ({ claiming: socket.next().then(() => executor.claim()) }));
  } finally {
    socket.drop();
  }
}

async function polled(hub, tasks) {
  const executor = await hub.executor("polls");
  return repeated(hub, executor, tasks, async () => {
    const claiming = executor.claim({ wait_seconds: POLL_SECONDS });
    await pass(POLL_SETTLES_MS);
    return { claiming };
  });
}

/** One task after the other; what `expect` returns is the claim to come, under `claiming`. */
async function repeated(hub, executor, tasks, expect) {
  const all = [];
  for (let n = 0; n < tasks; n += 1) {
    const { claiming } = await expect();
    const began = performance.now();
    const taken = claiming.then((claim) => ({ claim, ms: performance.now() - began }));
    const id = await hub.submit({ executor: executor.name });
    const { claim, ms } = await taken;
    if (claim?.id !== id) throw new Error(`task ${id} was not claimed, but ${claim?.id}`);
    all.push(ms);
    await claim.complete();
  }
  return all;
}

function percentiles(all) {
  const sorted = all.toSorted((left, right) => left - right);
  const at = (share) => Number(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(2));
  return { p50: at(0.5), p99: at(0.99) };
}
