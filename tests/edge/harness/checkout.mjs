// A copy of this checkout in which scripts/dev and wrangler may write what they like: .dev.vars, .taskhub, .wrangler.

import { spawn } from "node:child_process";
import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { leash, root } from "./hub.mjs";
import { until } from "./until.mjs";

const COPIED = [
  "scripts", "src", "kit", "build", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "package.json",
  "package-lock.json", "wrangler.toml",
];

/** Copies the checkout for the time of a test, with the build that scripts/test has made: nothing is compiled. */
export async function copyCheckout(context) {
  const directory = await mkdtemp(path.join(tmpdir(), "taskhub-checkout-"));
  context.after(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  for (const name of COPIED) await cp(path.join(root, name), path.join(directory, name), { recursive: true });
  await symlink(path.join(root, "node_modules"), path.join(directory, "node_modules"));
  return directory;
}

/** A program of the checkout, in a process group of its own. */
export class Program {
  constructor(context, directory, command, args, env = {}) {
    this.output = "";
    this.process = spawn(command, args, {
      cwd: directory,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...inherited(), CARGO_TARGET_DIR: process.env.CARGO_TARGET_DIR ?? path.join(root, "target"), ...env },
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.on("data", (data) => (this.output += data));
    }
    this.ended = new Promise((resolve) => this.process.once("exit", (code, signal) => resolve(signal ?? code)));
    leash(this.process, { isLeader: true });
    context.after(() => this.killGroup());
  }

  untilPrinted(pattern, ms = 60_000) {
    return until(() => pattern.exec(this.output), { what: `${pattern} to be printed`, ms, more: () => this.output });
  }

  stop(signal) {
    this.process.kill(signal);
    return this.ended;
  }

  /** Ends what is left of the group: wrangler leaves its workerd behind. */
  async killGroup() {
    try {
      process.kill(-this.process.pid, "SIGKILL");
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
    await this.ended;
  }
}

/** This environment without the settings of a hub. */
function inherited() {
  const settings = /^(PORT|HOST|STATE_DIR|PUBLIC_URL|HUB_SECRET|OWNER_.*|NTFY_.*|.*_SECONDS|.*_BYTES|NODE_TEST_.*)$/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !settings.test(name)));
}
