// One hub: the test build of the Worker on bare workerd, with a state directory of its own, on a port of its own.
//
// A hub is stopped by its process id when its test ends; should the test process itself be killed, the leash ends it.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { Executor } from "./executor.mjs";
import { McpCaller } from "./mcp.mjs";
import { until } from "./until.mjs";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
export const OWNER_TOKEN = "owner-token-of-the-edge-tests";
export const TEST_BUILD = path.resolve(root, process.env.TASKHUB_TEST_BUILD || "build-test");
const HUB_SECRET = "hub secret of the edge tests, 32+ characters";
const SCRIPTS = path.join(root, "scripts");
const CONFIG = path.join(SCRIPTS, "workerd.capnp");
const workerd = createRequire(path.join(root, "package.json"))("workerd").default;
/** How the credentials begin that the hub issues. */
const CREDENTIALS = ["exk_", "thc_", "tha_", "thr_", "ths_"];
const READY_MS_MAX = 30_000;
const STOP_MS_MAX = 1_000;

/** The configuration of scripts/, but a certificate is trusted beside those of the public authorities. */
const TRUSTING = `using Workerd = import "/workerd/workerd.capnp";
using Usual = import "/workerd.capnp";
const hub :Workerd.Config = (
  services = [ Usual.main, Usual.state,
    ( name = "internet", network = ( allow = ["public", "private"],
      tlsOptions = ( trustBrowserCas = true, trustedCertificates = [embed "trusted.pem"] ) ) ) ],
  sockets = [ Usual.http ] );
`;

/**
 * Starts a hub for the time of a test. `vars` are settings, as texts or numbers; null leaves one unset. `place` is where
 * its state is kept and what it is run with, `trusted` a certificate that it trusts, of an https server of the test; by
 * default it makes a directory of its own and trusts none.
 */
export async function startHub(context, vars = {}, place = {}) {
  const hub = new Hub(vars, place);
  context.after(async () => {
    await hub.remove();
    hub.assertSound();
  });
  await hub.start();
  return hub;
}

export class Hub {
  /** `build`, `config` and `service` name another Worker than the test build. */
  constructor(vars, place = {}) {
    const { directory = null, wrapper = [], trusted = null } = place;
    const { build = TEST_BUILD, config = CONFIG, service = "hub" } = place;
    this.worker = { build, config, service };
    const all = { HUB_SECRET, OWNER_TOKEN, ALLOW_PRIVATE_WEBHOOKS: "true", ...vars };
    this.vars = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
    this.trusted = trusted;
    this.port = 0;
    this.directory = directory;
    this.wrapper = wrapper;
    this.process = null;
    this.log = "";
    this.ownerHeaders = { authorization: `Bearer ${OWNER_TOKEN}` };
    this.mcp = new McpCaller(this);
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts workerd on the state as it is, on the port it had before if there was one, and waits until it answers. */
  async start() {
    await this.serve();
    await until(
      async () => (await fetch(`${this.url}/healthz`, { signal: AbortSignal.timeout(5_000) })).ok,
      { what: "the hub to answer /healthz", ms: READY_MS_MAX, more: () => this.log },
    );
  }

  /** Starts workerd and returns once it listens. No request has reached the hub then. */
  async serve() {
    this.directory ??= await mkdtemp(path.join(tmpdir(), "taskhub-test-"));
    const vars = Object.fromEntries(Object.entries(this.vars).map(([name, value]) => [name, String(value)]));
    const { build, service } = this.worker;
    const args = ["serve", "-I", build, "-d", `state=${this.directory}`, "-s", `http=127.0.0.1:${this.port}`];
    const [command, ...before] = [...this.wrapper, workerd];
    const child = spawn(command, [...before, ...args, "--control-fd=3", ...(await this.config()), service], {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      env: { PATH: process.env.PATH, ...vars },
    });
    this.process = child;
    this.ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
    const collect = (data) => (this.log += data);
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    leash(child);
    this.port = await new Promise((resolve, reject) => {
      let control = "";
      child.stdio[3].on("data", (data) => {
        control += data;
        const port = /"port":\s*(\d+)/.exec(control);
        if (port) resolve(Number(port[1]));
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`workerd ended with ${code} before it listened:\n${this.log}`)));
      setTimeout(() => reject(new Error(`workerd did not listen in time:\n${this.log}`)), READY_MS_MAX).unref();
    });
  }

  /** The configuration, with what it needs to be found. */
  async config() {
    if (this.trusted === null) return [this.worker.config];
    const config = path.join(this.directory, "trusting.capnp");
    await writeFile(config, TRUSTING);
    await writeFile(path.join(this.directory, "trusted.pem"), this.trusted);
    return ["-I", SCRIPTS, config];
  }

  /** kill -9, and nothing else: what is on disk is what the next start finds. */
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  /** SIGTERM; SIGKILL if it lingers. Returns what it ended with. */
  async stop() {
    if (this.process === null) return null;
    this.process.kill("SIGTERM");
    const timer = setTimeout(() => this.process.kill("SIGKILL"), STOP_MS_MAX);
    const how = await this.ended;
    clearTimeout(timer);
    return how;
  }

  async remove() {
    await this.stop();
    if (this.directory !== null) await rm(this.directory, { recursive: true, force: true, maxRetries: 3 });
  }

  /** Nothing panicked but what a test made panic, and no secret is in the log. */
  assertSound() {
    const panics = this.log.match(/panicked at .*\n.*/g) ?? [];
    const wild = panics.filter((panic) => !panic.includes("injected by a test"));
    if (wild.length > 0) throw new Error(`the hub panicked: ${wild.join("\n")}`);
    const { HUB_SECRET, OWNER_TOKEN, OWNER_PASSPHRASE } = this.vars;
    const secrets = [HUB_SECRET, OWNER_TOKEN, OWNER_PASSPHRASE, ...CREDENTIALS].filter((text) => text !== undefined);
    if (secrets.some((text) => this.log.includes(text))) throw new Error(`a secret is in the hub's log: ${this.log}`);
  }

  /** Any request. An object as body is sent as JSON. Returns status, headers, and the body as text and parsed. */
  async request(method, pathname, { headers = {}, body, signal } = {}) {
    const isJson = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
    const response = await fetch(this.url + pathname, {
      method,
      headers: isJson ? { "content-type": "application/json", ...headers } : headers,
      body: isJson ? JSON.stringify(body) : body,
      redirect: "manual",
      signal: signal ?? AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: parsed(text) };
  }

  /** A call of the owner API, with whatever headers beside the token. */
  owner(method, pathname, body, headers = {}) {
    return this.request(method, pathname, { headers: { ...this.ownerHeaders, ...headers }, body });
  }

  /** A switch or reading of the test build. */
  async test(method, route, body) {
    const answer = await this.request(method, `/__test/${route}`, { body });
    if (answer.status !== 200) throw new Error(`/__test/${route} answered ${answer.status}: ${answer.text}`);
    return answer.body;
  }

  /** Creates an executor and returns a client with its key. */
  async executor(name, more = {}) {
    const created = await this.owner("POST", "/api/executors", { name, ...more });
    if (created.status !== 201) throw new Error(`the executor was not created: ${created.status} ${created.text}`);
    return new Executor(this, name, created.body.key);
  }

  /** Submits a task over MCP and returns its id. */
  async submit(task) {
    const { task_id: id } = await this.mcp.tool("submit_task", { title: "A task", instructions: "Do it.", ...task });
    return id;
  }

  /** A task with its events, as the owner sees it. */
  async task(id) {
    const found = await this.owner("GET", `/api/tasks/${id}`);
    if (found.status !== 200) throw new Error(`no task: ${found.status} ${found.text}`);
    return { ...found.body.task, events: found.body.events };
  }

  /** The task once it is in this state. */
  untilState(id, state, ms = 20_000) {
    let last;
    return until(
      async () => {
        last = await this.task(id);
        return last.state === state ? last : null;
      },
      { what: `the task to be ${state}`, ms, more: () => `${JSON.stringify(last)}\n${this.log}` },
    );
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** If the test process dies, its end of the pipe closes and the child goes too, with its process group if it leads one. */
export function leash(child, { isLeader = false } = {}) {
  const target = isLeader ? `-${child.pid}` : String(child.pid);
  const dog = spawn("/bin/sh", ["-c", 'read -r _; kill -s KILL -- "$0" 2>/dev/null', target], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  child.once("exit", () => dog.kill("SIGKILL"));
  dog.unref();
  dog.stdin.unref();
}
