// kit/relay.py beside a hub, as its user runs it.

import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import path from "node:path";

import { leash, root } from "./hub.mjs";
import { interpreter } from "./python.mjs";
import { until } from "./until.mjs";

/** Nobody's configuration: a relay of a test knows only what the test tells it. */
const NOWHERE = path.join(tmpdir(), "taskhub-of-nobody");

export class Relay {
  /**
   * Starts a relay for the time of a test. It runs `script` with sh for each task, with `env` beside its variables, in the
   * system's Python, which polls; in that of the virtual environment, which has what it takes to listen, if it `listens`.
   * `verb` is another way to run than `run`, `url` another way to the hub than the straight one. With null as script, it runs what
   * its options say.
   */
  static start(context, executor, script, more = {}) {
    const relay = new Relay(executor, script, more);
    context.after(() => relay.kill());
    return relay;
  }

  constructor(executor, script, { env = {}, args = [], listens = false, verb = "run", url = executor.hub.url }) {
    const command = script === null ? [] : ["--", "/bin/sh", "-c", script];
    const options = [verb, "--grace", "1", ...args, ...command];
    this.log = "";
    this.process = spawn(listens ? interpreter() : "python3", [path.join(root, "kit", "relay.py"), ...options], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...surroundings(executor), TASKHUB_URL: url, ...env },
    });
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (data) => (this.log += data));
    this.ended = new Promise((resolve) => this.process.once("exit", (code, signal) => resolve(signal ?? code)));
    leash(this.process);
  }

  signal(name) {
    this.process.kill(name);
  }

  /** SIGTERM; returns the exit code. */
  stop() {
    this.signal("SIGTERM");
    return this.ended;
  }

  kill() {
    this.signal("SIGKILL");
    return this.ended;
  }

  untilLogged(pattern, ms = 20_000) {
    return until(() => pattern.test(this.log), { what: `the relay to log ${pattern}`, ms, more: () => this.log });
  }
}

function surroundings(executor) {
  const places = { XDG_CONFIG_HOME: NOWHERE, XDG_STATE_HOME: NOWHERE };
  return { PATH: process.env.PATH, ...places, TASKHUB_URL: executor.hub.url, TASKHUB_KEY: executor.key };
}

/** Runs a verb of the relay to its end, as an agent in a shell would: `{code, said}`. */
export function verb(executor, args, env = {}) {
  const child = spawn("python3", [path.join(root, "kit", "relay.py"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...surroundings(executor), ...env },
  });
  leash(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, said })));
}
