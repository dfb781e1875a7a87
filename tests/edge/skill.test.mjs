// The skill of the kit is what a language model goes by: each of its commands for curl is run here as it stands there, in a
// shell, with nothing filled in but the task, the token and the key; and each is taken by the hub.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { startHub } from "./harness/hub.mjs";

const run = promisify(execFile);
const SHELL_MS_MAX = 60_000;

/** The commands of the block of shell that defines `hub`, one text each, and that definition. */
function commands(skill) {
  const blocks = [...skill.matchAll(/```sh\n(.*?)```/gs)].map((match) => match[1]);
  const block = blocks.find((text) => text.startsWith("hub()"));
  assert.ok(block, "the skill shows how to call the hub with curl");
  // A command ends with its line, unless a quote is open or a backslash says that it goes on.
  const all = [];
  let command = "";
  for (const line of block.split("\n")) {
    command += command === "" ? line : `\n${line}`;
    const isOpen = (command.split("'").length - 1) % 2 === 1 || command.endsWith("\\");
    if (!isOpen && command.trim() !== "") all.push(command);
    if (!isOpen) command = "";
  }
  const [definition, ...calls] = all;
  return { definition, calls };
}

test("every command for curl in the skill works as it stands", async (t) => {
  const hub = await startHub(t);
  const bot = await hub.executor("bot");
  const served = await hub.request("GET", "/kit/SKILL.md");
  assert.equal(served.status, 200);
  assert.ok(!served.text.includes("@HUB_URL@"), "the hub's address is filled in");
  const { definition, calls } = commands(served.text);
  assert.ok(calls.length >= 9, `${calls.length} commands`);
  const directory = await mkdtemp(path.join(tmpdir(), "taskhub-skill-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  await writeFile(path.join(directory, "report.pdf"), "%PDF-1.7 a report");

  const sh = async (command) => {
    const env = { PATH: process.env.PATH, HOME: directory, TASKHUB_KEY: bot.key };
    const { stdout } = await run("sh", ["-c", `${definition}\n${command}`], { cwd: directory, env, timeout: SHELL_MS_MAX });
    return stdout;
  };
  const verb = (command) => /^hub (\w+)/.exec(command)?.[1] ?? "curl";
  const seen = new Set();
  for (const command of calls) {
    await hub.submit({ executor: "bot" });
    const claimed = JSON.parse(await sh(calls.find((one) => verb(one) === "claim")));
    const filled = command
      .replaceAll("t_...", claimed.task.id)
      .replaceAll('"claim_token": "..."', `"claim_token": "${claimed.claim_token}"`)
      .replaceAll("X-Claim-Token: ...", `X-Claim-Token: ${claimed.claim_token}`);
    assert.ok(!filled.replace(/#.*/, "").includes("..."), `something was not filled in: ${filled}`);
    if (verb(command) === "claim") continue;
    // What is done was begun before.
    if (filled.includes('"done"')) await sh(filled.replace('"done"', '"begin"').replace(/, "outcome": \{[^}]*\}/, ""));
    const answer = JSON.parse(await sh(filled));
    assert.equal(answer.code, undefined, `${filled}\n${JSON.stringify(answer)}`);
    seen.add(verb(command));
    if (!["result", "defer", "release"].includes(verb(command))) await sh(
      `hub result '{"task_id": "${claimed.task.id}", "claim_token": "${claimed.claim_token}", "status": "completed"}'`);
  }
  for (const name of ["heartbeat", "action", "result", "defer", "release", "curl"]) assert.ok(seen.has(name), name);
});

test("the skill is short, and names no command that the relay lacks", async (t) => {
  const hub = await startHub(t);
  const { text } = await hub.request("GET", "/kit/SKILL.md");
  assert.match(text, /^---\nname: [a-z-]{1,64}\ndescription: .{1,1024}\n---\n/);
  assert.ok(text.split("\n").length <= 120 && text.length < 8_000, "short enough to be read every time");
  const verbs = new Set([...text.matchAll(/^taskhub-relay (\w+)/gm)].map((match) => match[1]));
  assert.ok(verbs.size >= 8, [...verbs].join(" "));
  const { stdout } = await run("python3", ["kit/relay.py", "--help"], { cwd: path.resolve(import.meta.dirname, "../..") });
  for (const name of verbs) assert.match(stdout, new RegExp(`\\b${name}\\b`), name);
  // Front matter aside, what is untrusted and what is asked first are the rules that count.
  for (const rule of [/owner's words/, /data/, /action begin/, /heartbeat/i, /ask/]) assert.match(text, rule);
  assert.ok(!(await readFile(path.resolve(import.meta.dirname, "../../kit/SKILL.md"), "utf8")).includes(hub.url));
});
