// That scripts/bench measures: one run with so few calls that its times mean nothing, though its rows and sizes do.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { root } from "./harness/hub.mjs";

const CALLS = ["claim", "empty_claim", "heartbeat", "ping", "result", "submit", "tasks"];

test("the bench measures everything, judges it, and writes it down", async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), "taskhub-bench-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const file = path.join(directory, "bench.json");
  const args = [path.join(root, "tests", "edge", "bench.mjs"), "--smoke", "--json", file];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 120_000 });
  const found = JSON.parse(await readFile(file, "utf8"));

  assert.deepEqual(Object.keys(found.rows_written_per_task), ["10", "1000"]);
  for (const written of Object.values(found.rows_written_per_task)) assert.ok(written > 0 && written <= 14);
  for (const read of Object.values(found.rows_read_per_task)) assert.ok(read > 0 && read <= 60);
  assert.equal(found.empty_claim.rows_written, 0);
  assert.ok(found.empty_claim.rows_read <= 10);
  assert.ok(found.wasm_gz_bytes > 100_000 && found.wasm_gz_bytes < found.wasm_bytes);
  assert.ok(found.start.first_answer_ms > 0);
  assert.ok(found.memory.before > 2 ** 20 && found.memory.after > 2 ** 20);

  assert.deepEqual(found.load.map(({ clients }) => clients), [1, 8]);
  for (const { calls } of found.load) {
    assert.deepEqual(Object.keys(calls), CALLS);
    for (const [name, { hub, bare, ratio, ratio_lowest, ratio_highest }] of Object.entries(calls)) {
      for (const side of [hub, bare]) {
        assert.ok(side.per_second > 0 && side.p50_ms > 0 && side.p99_ms >= side.p50_ms, `${name} ${JSON.stringify(side)}`);
      }
      assert.ok(ratio_lowest > 0 && ratio_lowest <= ratio && ratio <= ratio_highest, name);
    }
  }
  assert.equal(found.throughput_ratio_c8, Math.min(...Object.values(found.throughput_ratios_c8)));

  for (const how of [found.wake_latency_ms, found.wake_latency_ms.polling]) {
    assert.ok(how.p50 > 0 && how.p99 >= how.p50, JSON.stringify(how));
  }

  assert.equal(found.sweep.batches, 8);
  assert.ok(found.sweep.during.calls > 0 && found.sweep.during.longest_ms >= found.sweep.during.p50_ms);
  assert.ok(found.sweep_max_batch_ms > 0 && found.sweep_max_batch_ms <= found.sweep.during.longest_ms);
  for (const { what, is_met, depends_on_time } of found.targets) assert.ok(is_met || depends_on_time, what);
  assert.match(stdout, /rows written by an ordinary task, at any history +\d+ +at most 14 +met/);
});
