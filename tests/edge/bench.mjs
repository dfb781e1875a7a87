// What scripts/bench prints: the rows of an ordinary task and of the calls beside it, and the Worker's size.

import { execFileSync } from "node:child_process";
import { mkdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";

import { Hub, root } from "./harness/hub.mjs";
import { addHistory, measure, TASK_WRITTEN_MAX } from "./harness/measure.mjs";

const HISTORIES = [10, 100_000];

async function measureRows() {
  const hub = new Hub({});
  try {
    await hub.start();
    const all = {};
    let there = 0;
    for (const tasks of HISTORIES) {
      await addHistory(hub, tasks - there);
      there = tasks;
      all[tasks] = await measure(hub, `bench-${tasks}`);
    }
    return all;
  } finally {
    await hub.remove();
  }
}

async function measureSize() {
  const wasm = path.join(root, "build", "index_bg.wasm");
  // The program, because Node's own gzip packs a little worse than what scripts/build reports.
  const gzipped = execFileSync("gzip", ["-9", "-c", wasm], { maxBuffer: 64 << 20 }).length;
  return { raw: (await stat(wasm)).size, gzipped };
}

function printRows(rows) {
  const groups = [
    ["an executor's first task", "first"],
    ["the task after it", "usual"],
    ["other calls", "others"],
  ];
  const cell = ({ read, written }) => `${String(read).padStart(6)}${String(written).padStart(9)}`;
  const history = HISTORIES.map((tasks) => `${tasks} tasks before`.padStart(22)).join("");
  for (const [title, group] of groups) {
    console.log(`\n${title.padEnd(28)}${history}`);
    console.log(" ".repeat(28) + HISTORIES.map(() => "  read  written".padStart(22)).join(""));
    for (const call of Object.keys(rows[HISTORIES[0]][group])) {
      const cells = HISTORIES.map((tasks) => cell(rows[tasks][group][call]).padStart(22));
      console.log(`  ${call.padEnd(26)}${cells.join("")}`);
    }
  }
}

const [rows, size] = [await measureRows(), await measureSize()];
console.log("Rows per call; each move of the alarm counts as one written.");
printRows(rows);
console.log(`\nAn ordinary task may write ${TASK_WRITTEN_MAX} rows.`);
console.log(`The Worker: ${size.raw} bytes of wasm, ${size.gzipped} gzipped.`);
await mkdir(path.join(root, "target"), { recursive: true });
await writeFile(path.join(root, "target", "bench.json"), `${JSON.stringify({ rows, wasm: size }, null, 2)}\n`);
