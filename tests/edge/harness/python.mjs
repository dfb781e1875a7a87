// The Python parts of the tests: scripts beside this directory, run in the virtual environment that scripts/test makes.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

import { root } from "./hub.mjs";

const interpreter = path.join(root, ".venv", "bin", "python");

/** Runs tests/edge/python/<script> to its end and returns what it printed, as JSON. */
export async function python(script, args = [], env = {}) {
  if (!existsSync(interpreter)) throw new Error("there is no .venv; scripts/test makes it");
  const { stdout } = await promisify(execFile)(interpreter, [path.join(root, "tests/edge/python", script), ...args], {
    env: { PATH: process.env.PATH, ...env },
    timeout: 120_000,
  });
  return JSON.parse(stdout);
}
