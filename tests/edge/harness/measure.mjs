// Rows read and written per call, by the object's own cursor counters. Each move of the alarm counts as a row written.
// The tests hold the limits; scripts/bench prints the numbers.

import { Hub } from "./hub.mjs";

/** What an ordinary task may write and read, and what a claim that finds nothing may read. */
export const TASK_WRITTEN_MAX = 14;
export const TASK_READ_MAX = 60;
export const EMPTY_CLAIM_READ_MAX = 10;

/** What /__test/history adds in one request, so that it stays within the front's time limit. */
const HISTORY_CALL_MAX = 50_000;

/** Adds this many tasks that are `finished`, `ready` or `expired`. */
export async function addTasks(hub, tasks, state = "finished") {
  for (let left = tasks; left > 0; left -= HISTORY_CALL_MAX) {
    const answer = await hub.test("POST", "history", { tasks: Math.min(left, HISTORY_CALL_MAX), state });
    if (answer.error) throw new Error(`no tasks were added: ${answer.error}`);
  }
}

function rows(answer) {
  if (answer.status >= 300) throw new Error(`measured a refusal: ${answer.status} ${answer.text}`);
  return { read: Number(answer.headers.get("x-rows-read")), written: Number(answer.headers.get("x-rows-written")) };
}

function total(calls) {
  const sum = { read: 0, written: 0 };
  for (const { read, written } of calls) {
    sum.read += read;
    sum.written += written;
  }
  return sum;
}

function ordinary(executor) {
  return { executor: executor.name, title: "An ordinary task", instructions: "Do it." };
}

/** One ordinary task of this executor from submit to result. Returns the rows of each call, and their sum as `task`. */
async function measureTask(hub, executor) {
  const submit = await hub.mcp.call("submit_task", ordinary(executor));
  const claim = await executor.call("claim", { request_id: crypto.randomUUID() });
  const held = { task_id: claim.body.task.id, claim_token: claim.body.claim_token };
  const first = await executor.call("heartbeat", { ...held, note: "under way", progress: 0.2 });
  const second = await executor.call("heartbeat", { ...held, note: "nearly there", checkpoint: { page: 3 } });
  const result = await executor.call("result", { ...held, status: "completed", result: "Done." });
  const calls = {
    submit: rows(submit),
    claim: rows(claim),
    "heartbeat 1": rows(first),
    "heartbeat 2": rows(second),
    result: rows(result),
  };
  const read = await hub.mcp.call("get_task", { task_id: held.task_id });
  return { ...calls, task: total(Object.values(calls)), get_task: rows(read) };
}

/**
 * The rows of every call that an ordinary day consists of. `first` is the executor's first task, which also sets the
 * alarm and notes that the executor was at work; `usual` is the one after.
 */
export async function measure(hub, name) {
  const executor = await hub.executor(name);
  const emptyClaim = rows(await executor.call("claim"));
  const first = await measureTask(hub, executor);
  const usual = await measureTask(hub, executor);
  const others = {
    "empty claim": emptyClaim,
    "empty claim, once at work": rows(await executor.call("claim")),
    ping: rows(await executor.call("ping")),
    healthz: rows(await hub.request("GET", "/healthz")),
    list_tasks: rows(await hub.mcp.call("list_tasks")),
    "list_tasks, open ones": rows(await hub.mcp.call("list_tasks", { states: ["submitted", "working"] })),
    list_executors: rows(await hub.mcp.call("list_executors")),
    hub_status: rows(await hub.mcp.call("hub_status")),
    "submit under a key": rows(await hub.mcp.call("submit_task", { ...ordinary(executor), idempotency_key: name })),
  };
  return { first, usual, others };
}

/** The same with so many finished tasks before, one size after the other in one hub. */
export async function measureRows(histories) {
  const hub = new Hub({});
  try {
    await hub.start();
    const all = {};
    let there = 0;
    for (const tasks of histories) {
      await addTasks(hub, tasks - there);
      there = tasks;
      all[tasks] = await measure(hub, `bench-${tasks}`);
    }
    return all;
  } finally {
    await hub.remove();
  }
}
