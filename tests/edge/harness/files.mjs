// Files in and out of a hub: what a client sends and gets, what the database keeps of it, and what that takes of memory.

import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { readFile, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";

export const MIB = 1_048_576;

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** A file of so many random bytes in the hub's directory, so that it goes with the test: `{path, bytes, sha256}`. */
export async function randomFile(hub, size) {
  const bytes = randomBytes(size);
  const place = path.join(hub.directory, `random-${sha256(bytes).slice(0, 16)}`);
  await writeFile(place, bytes);
  return { path: place, bytes, sha256: sha256(bytes) };
}

/** Where an attempt's file goes. */
export function attachmentUrl(claim, name) {
  return `${claim.executor.hub.url}/executor/attachment?${new URLSearchParams({ task_id: claim.id, name })}`;
}

export function attachmentHeaders(claim, more = {}) {
  return { authorization: `Bearer ${claim.executor.key}`, "x-claim-token": claim.token, ...more };
}

/** Attaches a file with fetch: the answer, whatever it is. */
export async function attach(claim, name, bytes, more = {}) {
  const url = new URL(attachmentUrl(claim, name));
  return claim.executor.hub.request("PUT", url.pathname + url.search, {
    headers: attachmentHeaders(claim, more),
    body: bytes,
  });
}

/** The task's files as the next attempt is given them; returns its claim and them. */
export async function handOver(claim) {
  const released = await claim.call("release");
  if (released.status !== 200) throw new Error(`release answered ${released.status}: ${released.text}`);
  const next = await claim.executor.claim();
  return { claim: next, files: next.answer.context.files, inputs: next.answer.context.input_files };
}

/** Runs curl: its exit code, the status, and the body as bytes. `write` is called with its standard input. */
export function curl(args, write = (stdin) => stdin.end()) {
  const child = spawn("curl", ["-sS", "-w", "%{stderr}\n%{http_code}", "--max-time", "120", ...args]);
  const out = [];
  let errors = "";
  child.stdout.on("data", (data) => out.push(data));
  child.stderr.on("data", (data) => (errors += data));
  // It stops to take what is refused.
  child.stdin.on("error", () => {});
  write(child.stdin);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      const bytes = Buffer.concat(out);
      const status = Number(/(\d+)\s*$/.exec(errors)?.[1]);
      resolve({ code, status, bytes, errors, body: parsed(bytes.toString()) });
    });
  });
}

export const curlHeaders = (headers) => Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What the object's database has of files: rows by state, and how many chunks. */
export async function stored(hub) {
  const places = await readdir(hub.directory, { recursive: true });
  const place = places.find((name) => name.endsWith(".sqlite") && !name.includes("metadata"));
  const database = new DatabaseSync(path.join(hub.directory, place), { readOnly: true });
  try {
    const count = (sql) => database.prepare(sql).get().n;
    return {
      stored: count("SELECT count(*) AS n FROM attachments WHERE state = 'stored'"),
      receiving: count("SELECT count(*) AS n FROM attachments WHERE state = 'receiving'"),
      chunks: count("SELECT count(*) AS n FROM attachment_chunks"),
    };
  } finally {
    database.close();
  }
}

/** What the hub's process occupies, and the most it ever did since `forgetPeak`; in bytes. */
export async function memory(hub) {
  const status = await readFile(`/proc/${hub.process.pid}/status`, "utf8");
  const field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)[1]) * 1024;
  return { now: field("VmRSS"), peak: field("VmHWM") };
}

/** Begins to measure the peak anew. */
export async function forgetPeak(hub) {
  await writeFile(`/proc/${hub.process.pid}/clear_refs`, "5");
}
