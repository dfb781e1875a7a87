// kit/relay.py beside a hub, as its user runs it.

import { spawn } from "node:child_process";
import path from "node:path";

import { leash, root } from "./hub.mjs";
import { interpreter } from "./python.mjs";
import { until } from "./until.mjs";

export class Relay {
  /**
   * Starts a relay for the time of a test. It runs `script` with sh for each task, with `env` beside its variables, in the
   * system's Python, which polls; in that of the virtual environment, which has what it takes to listen, if it `listens`.
   */
  static start(context, executor, script, { env = {}, args = [], listens = false } = {}) {
    const relay = new Relay(executor, script, env, args, listens ? interpreter() : "python3");
    context.after(() => relay.kill());
    return relay;
  }

  constructor(executor, script, env, args, python) {
    const options = ["run", "--grace", "1", ...args, "--", "/bin/sh", "-c", script];
    this.log = "";
    this.process = spawn(python, [path.join(root, "kit", "relay.py"), ...options], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, TASKHUB_URL: executor.hub.url, TASKHUB_KEY: executor.key, ...env },
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
