// Places for a hub's state that can run out of room or become read-only. A place has the `directory`, and the `wrapper` that
// its hub is to be run with.
//
// A `Volume` is a small file system in a namespace of its own: no privileges are needed where the system lets its users
// make namespaces. What works everywhere: a `Ceiling`, under which the system refuses the hub's writes as a quota would,
// and `Permissions`.

import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { until } from "./until.mjs";

/** More than SQLite's log grows to before it is written back. */
const SIZE_BYTES = 16 << 20;
const PAGE_BYTES = 4_096;
/** Enough for SQLite's shared memory, without which it cannot even read, and less than the hub's schema takes. */
const CEILING_BYTES = 36 << 10;

/** A tmpfs that lives as long as the shell in whose namespace it is mounted. */
class Volume {
  constructor(shell, mount) {
    this.shell = shell;
    this.mount = mount;
    this.directory = `/proc/${shell.pid}/root${mount}`;
    this.wrapper = [];
    this.said = "";
    for (const stream of [shell.stdout, shell.stderr]) stream.on("data", (data) => (this.said += data));
  }

  /** Runs a line in the namespace. */
  async run(line) {
    this.said = "";
    this.shell.stdin.write(`${line}; echo "ended $?"\n`);
    const ended = () => /ended (\d+)\n$/.exec(this.said) ?? (this.shell.exitCode !== null && [null, "1"]);
    const [, code] = await until(ended, { what: line, more: () => this.said });
    if (code !== "0") throw new Error(`${line}: ${this.said}`);
  }

  /** Takes all the room that is left but these bytes. */
  async fill(_hub, left = 0) {
    const ballast = await open(path.join(this.directory, "ballast"), "a");
    try {
      for (;;) await ballast.appendFile(Buffer.alloc(PAGE_BYTES));
    } catch (error) {
      if (error.code !== "ENOSPC") throw error;
    }
    if (left > 0) await ballast.truncate(Math.max(0, (await ballast.stat()).size - left));
    await ballast.close();
  }

  async makeRoom() {
    await rm(path.join(this.directory, "ballast"));
  }

  setReadOnly(isReadOnly) {
    return this.run(`mount -o remount,${isReadOnly ? "ro" : "rw"} '${this.mount}'`);
  }
}

/** The hub's process may write only the beginning of a file. */
class Ceiling {
  constructor(directory) {
    this.directory = directory;
    // Who does not ignore the signal is ended by it.
    this.wrapper = ["/bin/sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"];
  }

  async fill(hub) {
    limitFiles(hub, CEILING_BYTES);
  }

  async makeRoom(hub) {
    limitFiles(hub, "unlimited");
  }
}

function limitFiles(hub, bytes) {
  execFileSync("prlimit", ["--pid", String(hub.process.pid), `--fsize=${bytes}:unlimited`]);
}

/** Files and directories whose permissions hold for the hub too, if it is run by root. */
class Permissions {
  constructor(directory) {
    this.directory = directory;
    this.wrapper = process.getuid() === 0 ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"] : [];
  }

  async setReadOnly(isReadOnly) {
    execFileSync("chmod", ["-R", isReadOnly ? "a-w" : "u+w", this.directory]);
  }
}

async function temporary(context) {
  const directory = await mkdtemp(path.join(tmpdir(), "taskhub-volume-"));
  context.after(async () => {
    execFileSync("chmod", ["-R", "u+w", directory]);
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  });
  return directory;
}

/** A file system for the time of a test; null where the system does not let its users make one. */
export async function startVolume(context) {
  const mount = await temporary(context);
  const shell = spawn("unshare", ["--user", "--map-root-user", "--mount", "/bin/sh"], { stdio: "pipe" });
  const failed = new Promise((resolve) => shell.once("error", resolve));
  context.after(() => shell.kill("SIGKILL"));
  shell.stdin.on("error", () => {});
  const volume = new Volume(shell, mount);
  const mounted = volume.run(`mount -t tmpfs -o size=${SIZE_BYTES},mode=700 none '${mount}'`);
  const error = await Promise.race([mounted.then(() => null, (reason) => reason), failed]);
  if (error !== null) {
    context.diagnostic(`no file system of its own here: ${error.message.trim()}`);
    return null;
  }
  return volume;
}

/** A directory whose hub can be kept from writing, for the time of a test. */
export async function startCeiling(context) {
  return new Ceiling(await temporary(context));
}

/** A directory that can be made read-only, for the time of a test. */
export async function startPermissions(context) {
  return new Permissions(await temporary(context));
}
