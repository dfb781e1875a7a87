// The official conformance suites for MCP servers, both of them, in both eras. The suites know no bearer, so a proxy
// adds it. What cannot apply to a tools-only server stands in conformance/*.yml, line by line with its reason;
// everything else must pass, and so must the scenarios named here, lest a run that tests nothing look like success.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, test } from "node:test";

import { root, startHub } from "./harness/hub.mjs";
import { startProxy } from "./harness/proxy.mjs";

const RUN_MS_MAX = 240_000;

const RUNS = [
  {
    suite: "conformance-0.1",
    expected: "0.1.yml",
    mustPass: ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"],
  },
  {
    suite: "conformance-0.2",
    version: "2025-11-25",
    expected: "0.2-2025-11-25.yml",
    mustPass: ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"],
  },
  {
    suite: "conformance-0.2",
    version: "2026-07-28",
    expected: "0.2-2026-07-28.yml",
    mustPass: [
      "tools-list", "http-header-validation", "dns-rebinding-protection", "server-sse-multiple-streams",
      "input-required-result-unsupported-methods", "input-required-result-validate-input",
    ],
  },
];

/** Runs a suite to its end. Returns its exit code and what it printed. */
function run(suite, args) {
  const main = path.join(root, "node_modules", suite, "dist", "index.js");
  return new Promise((resolve) => {
    const options = { timeout: RUN_MS_MAX, maxBuffer: 64 << 20 };
    execFile(process.execPath, [main, "server", ...args], options, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, output: stdout + stderr });
    });
  });
}

describe("conformance", { concurrency: 2 }, () => {
  for (const { suite, version, expected, mustPass } of RUNS) {
    test(`${suite}${version ? ` at ${version}` : ""}: everything that applies passes`, async (t) => {
      const hub = await startHub(t);
      const proxy = await startProxy(t, hub);
      const results = await mkdtemp(path.join(tmpdir(), "taskhub-conformance-"));
      t.after(() => rm(results, { recursive: true, force: true }));
      const list = path.join(root, "tests/edge/conformance", expected);
      const args = ["--url", `${proxy}/mcp`, "--suite", "all", "--expected-failures", list, "-o", results];
      const { code, output } = await run(suite, version ? [...args, "--spec-version", version] : args);
      const summary = output.slice(output.indexOf("=== SUMMARY ==="));
      assert.equal(code, 0, output);
      for (const scenario of mustPass) {
        const [, passed, failed] = new RegExp(`${scenario}: (\\d+) passed, (\\d+) failed`).exec(summary) ?? [];
        assert.ok(Number(passed) > 0 && failed === "0", `${scenario}\n${summary}`);
      }
    });

    test(`${expected} gives a reason for every failure that it expects`, async () => {
      const lines = (await readFile(path.join(root, "tests/edge/conformance", expected), "utf8")).split("\n");
      const entries = lines.filter((line) => line.startsWith("  - "));
      assert.ok(entries.length > 0);
      for (const entry of entries) assert.match(entry, /^ {2}- [\w:-]+ # \S.{5,}$/);
    });
  }
});
