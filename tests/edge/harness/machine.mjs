// Somebody's machine, on which the kit is installed: a home of its own, and little beside python3 and curl.
//
// Where scripts/test could make one, it is a minimal Debian in a folder (`DEBIAN_ROOT`), entered by chroot in a mount
// namespace of its own, as a user without privileges: all but the home is as Debian ships it. Elsewhere it is this machine
// with an emptied PATH.

import { execFileSync, spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { pass } from "./until.mjs";

const DEBIAN = process.env.DEBIAN_ROOT || "";
const IS_ROOT = process.getuid() === 0;
const USER = 1_000;
const LINE_MS_MAX = 120_000;
/** What the essential packages of Debian bring of what a script may want. */
const TOOLS = [
  "[", "awk", "cat", "chmod", "cp", "cut", "date", "dirname", "env", "false", "grep", "head", "id", "kill", "ln",
  "ls", "mkdir", "mktemp", "mv", "nohup", "printf", "pwd", "rm", "rmdir", "sed", "sh", "sha256sum", "sleep", "sort",
  "stat", "tail", "tee", "test", "touch", "tr", "true", "uname", "wc",
];
/** Enters the folder of a Debian: its root, the home, the folder of further programs, then what is to be run. */
const ENTER = `set -e
root=$1 home=$2 bin=$3
shift 3
mount --bind "$home" "$root/home"
mount --bind "$bin" "$root/mnt"
mount -t tmpfs none "$root/tmp"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot ${IS_ROOT ? `--userspec=${USER}:${USER} --groups=` : ""} "$root" "$@"`;

/** What a shell that installs the kit may be, and how it comes by the name `sh`. */
export const SHELLS = ["dash", "busybox", "bash"].filter((shell) => DEBIAN || find(shell));

function find(name) {
  return (process.env.PATH ?? "").split(path.delimiter).map((place) => path.join(place, name)).find(existsSync);
}

/** The interpreter itself: what is called python3 may be a script that looks for it. */
function python() {
  return execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
}

export class Machine {
  /** A fresh one for the time of a test, whose `sh` is this shell; `home` is what the user calls home below its folder. */
  static async start(context, { shell = "dash", home = "" } = {}) {
    const directory = await mkdtemp(path.join(tmpdir(), "taskhub-machine-"));
    const machine = new Machine(directory, home);
    context.after(() => machine.remove());
    await machine.furnish(shell);
    context.diagnostic(DEBIAN ? "a minimal Debian" : "this machine with an emptied PATH");
    return machine;
  }

  constructor(directory, home) {
    this.mark = randomUUID();
    this.directory = directory;
    this.outer = path.join(directory, "home");
    this.bin = path.join(directory, "bin");
    /** The home as this process sees it, and as the machine's user does. */
    this.files = path.join(this.outer, home);
    this.home = path.join(DEBIAN ? "/home" : this.outer, home);
    this.path = DEBIAN ? "/mnt:/usr/bin:/bin" : this.bin;
  }

  async furnish(shell) {
    await mkdir(this.files, { recursive: true });
    await mkdir(this.bin);
    await chmod(this.directory, 0o755);
    if (!DEBIAN) {
      for (const tool of [...TOOLS, "curl"]) await this.link(tool, find(tool));
      await this.link("python3", python());
    }
    const place = (name) => (DEBIAN ? `/bin/${name}` : find(name));
    if (shell === "bash") await this.program("sh", `#!${place("bash")}\nexec ${place("bash")} --posix "$@"\n`);
    if (shell === "dash" && !DEBIAN) await this.link("sh", place("dash"));
    if (shell === "busybox") {
      const list = DEBIAN ? path.join(DEBIAN, "bin/busybox") : find("busybox");
      const applets = execFileSync(list, ["--list"], { encoding: "utf8" }).trim().split("\n");
      for (const applet of applets) await this.link(applet, place("busybox"));
      if (DEBIAN) {
        for (const name of ["python3", "curl"]) await this.link(name, `/usr/bin/${name}`);
        this.path = "/mnt";
      }
    }
    await this.own(this.outer);
  }

  async link(name, target) {
    await rm(path.join(this.bin, name), { force: true });
    await symlink(target, path.join(this.bin, name));
  }

  /** Takes a program away, and returns where its link led. */
  async lacks(name) {
    const target = await readlink(path.join(this.bin, name));
    await rm(path.join(this.bin, name));
    return target;
  }

  /** A program on the machine's PATH. */
  async program(name, text) {
    await rm(path.join(this.bin, name), { force: true });
    await writeFile(path.join(this.bin, name), text, { mode: 0o755 });
  }

  /** A file of the machine's user. */
  async write(name, text, mode = 0o644) {
    await mkdir(path.dirname(path.join(this.files, name)), { recursive: true });
    await writeFile(path.join(this.files, name), text, { mode });
    await this.own(this.outer);
  }

  read(name) {
    return readFile(path.join(this.files, name), "utf8");
  }

  async own(directory) {
    if (!DEBIAN || !IS_ROOT) return;
    execFileSync("chown", ["-R", `${USER}:${USER}`, directory]);
  }

  /** Runs a line of shell as its user, to its end, and returns how that went: `{code, out}`. What it leaves running runs on. */
  async run(line, env = {}) {
    const all = { HOME: this.home, PATH: this.path, TASKHUB_TEST_MACHINE: this.mark, ...env };
    const pairs = Object.entries(all).map(([name, value]) => `${name}=${value}`);
    const words = ["-i", ...pairs, "sh", "-c", `cd || exit\n${line}`];
    const inside = ["--mount", ...(IS_ROOT ? [] : ["--user", "--map-root-user"])];
    const [command, ...args] = DEBIAN
      ? ["unshare", ...inside, "sh", "-c", ENTER, "sh", DEBIAN, this.outer, this.bin, "/usr/bin/env", ...words]
      : ["env", ...words];
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
    let out = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (out += data));
    const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), LINE_MS_MAX);
    const code = await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (status, signal) => resolve(signal ?? status));
    });
    clearTimeout(timer);
    return { code, out };
  }

  /** Everything in the home: a line for each thing, with its kind, permissions and content. */
  async listing() {
    const lines = [];
    const walk = async (directory) => {
      for (const name of (await readdir(directory)).toSorted()) {
        const place = path.join(directory, name);
        const { mode } = await lstat(place);
        const isFile = (mode & 0o170000) === 0o100000;
        const sum = isFile ? createHash("sha256").update(await readFile(place)).digest("hex").slice(0, 12) : "";
        lines.push(`${path.relative(this.files, place)} ${mode.toString(8)} ${sum}`);
        if ((mode & 0o170000) === 0o040000) await walk(place);
      }
    };
    await walk(this.files);
    return lines;
  }

  /** Its processes, by what was marked at their start: `{pid, words}`. */
  async processes() {
    const found = [];
    for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
      try {
        if (!readFileSync(`/proc/${pid}/environ`, "utf8").includes(this.mark)) continue;
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
        if (words.length > 0) found.push({ pid: Number(pid), words });
      } catch {
        // It has ended, or is somebody else's.
      }
    }
    return found;
  }

  /** Ends everything that runs on it, as a power cut does. */
  async cutPower() {
    for (let left = await this.processes(); left.length > 0; left = await this.processes()) {
      for (const { pid } of left) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // It has ended by itself.
        }
      }
      await pass(20);
    }
  }

  async remove() {
    await this.cutPower();
    await rm(this.directory, { recursive: true, force: true, maxRetries: 3 });
  }
}
