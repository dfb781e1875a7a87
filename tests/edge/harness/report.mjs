// From what was measured to a table for a reader and figures for a program.

import { EMPTY_CLAIM_READ_MAX, TASK_READ_MAX, TASK_WRITTEN_MAX } from "./measure.mjs";

const RATIO_MIN = 0.6;
const RATIO_CLIENTS = 8;
/** The calls that an ordinary task consists of. */
const TASK_CALLS = ["submit", "claim", "heartbeat", "result"];
const SWEEP_BATCH_MS_MAX = 100;
const WAKE_MS_MAX = 1_000;
const WASM_GZIPPED_MAX = 750_000;

const byHistory = (rows, value) =>
  Object.fromEntries(Object.entries(rows).map(([tasks, measured]) => [tasks, value(measured)]));
const worst = (rows, value) => Math.max(...Object.values(byHistory(rows, value)));
/** The dearer one of an executor's first task and the task after it. */
const perTask = (kind) => ({ first, usual }) => Math.max(first.task[kind], usual.task[kind]);
const emptyClaim = (kind) => ({ others }) =>
  Math.max(others["empty claim"][kind], others["empty claim, once at work"][kind]);

function ratios(load) {
  const step = load.find(({ clients }) => clients === RATIO_CLIENTS);
  return Object.fromEntries(TASK_CALLS.map((call) => [call, step.calls[call].ratio]));
}

/** Every target with what was found. */
export function targets({ rows, load, sweep, size, wake_latency }) {
  const most = (what, found, limit, depends_on_time = false) =>
    ({ what, found, target: `at most ${limit}`, is_met: found <= limit, depends_on_time });
  const calls = Object.entries(ratios(load)).map(([call, found]) => ({
    what: `${call}, of the bare object's calls a second, ${RATIO_CLIENTS} clients`,
    found,
    target: `at least ${RATIO_MIN}`,
    is_met: found >= RATIO_MIN,
    depends_on_time: true,
  }));
  return [
    most("rows written by an ordinary task, at any history", worst(rows, perTask("written")), TASK_WRITTEN_MAX),
    most("rows read by it, at any history", worst(rows, perTask("read")), TASK_READ_MAX),
    most("rows written by an empty claim", worst(rows, emptyClaim("written")), 0),
    most("rows read by it", worst(rows, emptyClaim("read")), EMPTY_CLAIM_READ_MAX),
    most("bytes of wasm, gzipped", size.gzipped, WASM_GZIPPED_MAX),
    ...calls,
    most("ms from submit to claim by a listener, p99", wake_latency.p99, WAKE_MS_MAX, true),
    most("ms that a batch of the sweep holds the object", sweep.during.longest_undisturbed_ms, SWEEP_BATCH_MS_MAX, true),
  ];
}

/** What is written to the file. */
export function figures({ plan, rows, load, sweep, size, start, memory, wake_latency }, judged) {
  const ratios_c8 = ratios(load);
  return {
    plan,
    rows_written_per_task: byHistory(rows, perTask("written")),
    rows_read_per_task: byHistory(rows, perTask("read")),
    empty_claim: {
      rows_written: worst(rows, emptyClaim("written")),
      rows_read: worst(rows, emptyClaim("read")),
    },
    wasm_bytes: size.raw,
    wasm_gz_bytes: size.gzipped,
    start,
    // The lowest of the calls that an ordinary task consists of.
    throughput_ratio_c8: Math.min(...Object.values(ratios_c8)),
    throughput_ratios_c8: ratios_c8,
    tasks_ratio_c8: load.find(({ clients }) => clients === RATIO_CLIENTS).calls.tasks.ratio,
    // From outside: the longest that a ping waited, without the time in line for a processor.
    sweep_max_batch_ms: sweep.during.longest_undisturbed_ms,
    sweep,
    // From the submit to the claim, by an executor that listens, and by one that polls.
    wake_latency_ms: wake_latency,
    memory,
    load,
    rows,
    targets: judged,
  };
}

/** Prints everything. */
export function print(found, judged) {
  printRows(found.rows);
  found.load.forEach(printLoad);
  printRest(found);
  console.log("\nTargets");
  for (const { what, found: figure, target, is_met } of judged) {
    console.log(`  ${what.padEnd(58)}${String(figure).padStart(10)}  ${target.padEnd(18)}${is_met ? "met" : "NOT MET"}`);
  }
}

function printRows(rows) {
  const histories = Object.keys(rows);
  const groups = [
    ["An executor's first task", "first"],
    ["The task after it", "usual"],
    ["Other calls", "others"],
  ];
  const cell = ({ read, written }) => `${String(read).padStart(9)}${String(written).padStart(9)}`.padStart(22);
  console.log("Rows read and written per call; each move of the alarm counts as one written.");
  for (const [title, group] of groups) {
    const heads = histories.map((tasks) => `${Number(tasks).toLocaleString("en")} before`.padStart(22));
    console.log(`\n${title.padEnd(28)}${heads.join("")}`);
    console.log(" ".repeat(28) + histories.map(() => "read  written".padStart(22)).join(""));
    for (const call of Object.keys(rows[histories[0]][group])) {
      console.log(`  ${call.padEnd(26)}${histories.map((tasks) => cell(rows[tasks][group][call])).join("")}`);
    }
  }
}

function printLoad({ clients, rounds, calls }) {
  console.log(`\n${clients} ${clients === 1 ? "client" : "clients"}, ${rounds} rounds, hub and bare object in turns`);
  const head = ["hub/s", "p50 ms", "p99 ms", "bare/s", "p50 ms", "p99 ms", "ratio", "(rounds)", "cpu µs", "bare"];
  const widths = [8, 9, 9, 9, 9, 9, 8, 14, 9, 8];
  const line = (name, cells) =>
    console.log(`  ${name.padEnd(12)}${cells.map((cell, index) => String(cell).padStart(widths[index])).join("")}`);
  line("", head);
  for (const [name, { hub, bare, ratio, ratio_lowest, ratio_highest }] of Object.entries(calls)) {
    const side = ({ per_second, p50_ms, p99_ms }) => [per_second.toFixed(1), p50_ms.toFixed(2), p99_ms.toFixed(2)];
    const spread = `${ratio_lowest.toFixed(2)}-${ratio_highest.toFixed(2)}`;
    const processor = [hub.processor_us, bare.processor_us];
    line(name, [...side(hub), ...side(bare), ratio.toFixed(2), spread, ...processor]);
  }
}

function printRest({ size, start, memory, sweep, wake_latency }) {
  const mb = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  console.log(`\nThe Worker: ${size.raw} bytes of wasm, ${size.gzipped} gzipped.`);
  console.log(`From starting workerd to the first answer: ${start.first_answer_ms} ms; compiling alone ${start.compile_ms} ms.`);
  console.log(
    `Memory of the process: ${mb(memory.before)} without open tasks, ${mb(memory.after)} with ` +
      `${memory.tasks.toLocaleString("en")}: ${memory.bytes_per_task} bytes a task.`,
  );
  const waited = ({ longest_undisturbed_ms, longest_ms, p50_ms }) =>
    `at most ${longest_undisturbed_ms} ms (${longest_ms} with the time in line for a processor; p50 ${p50_ms})`;
  console.log(
    `A sweep of ${sweep.leases.toLocaleString("en")} leases: ${sweep.total_ms} ms in ${sweep.batches} batches.\n` +
      `  A ping waited ${waited(sweep.during)} meanwhile,\n  and ${waited(sweep.quiet)} before.`,
  );
  const took = ({ p50, p99 }) => `p50 ${p50} ms, p99 ${p99} ms`;
  console.log(
    `From submit to claim, ${wake_latency.tasks} tasks on loopback: ${took(wake_latency)} by an executor that listens,\n` +
      `  ${took(wake_latency.polling)} by one that polls with claims that wait.`,
  );
}
