// The Python parts of the tests: scripts beside this directory, run in the virtual environment that scripts/test makes.

import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { leash, root } from "./hub.mjs";

const SCRIPTS = path.join(root, "tests/edge/python");

/** The Python of the virtual environment. */
export function interpreter() {
  const program = path.join(root, ".venv", "bin", "python");
  if (!existsSync(program)) throw new Error("there is no .venv; scripts/test makes it");
  return program;
}

/** Runs tests/edge/python/<script> to its end and returns what it printed, as JSON. */
export async function python(script, args = [], env = {}) {
  const { stdout } = await promisify(execFile)(interpreter(), [path.join(SCRIPTS, script), ...args], {
    env: { PATH: process.env.PATH, ...env },
    timeout: 120_000,
  });
  return JSON.parse(stdout);
}

/** Starts a script that talks in lines of JSON, for the time of a test. */
export function startPython(context, script, args = []) {
  const child = spawn(interpreter(), [path.join(SCRIPTS, script), ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env.PATH },
  });
  let errors = "";
  child.stderr.on("data", (data) => (errors += data));
  leash(child);
  context.after(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    tell: (value) => child.stdin.write(`${JSON.stringify(value)}\n`),
    /** The next thing that it says. */
    async heard() {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${script} ended:\n${errors}`);
      return JSON.parse(value);
    },
  };
}
