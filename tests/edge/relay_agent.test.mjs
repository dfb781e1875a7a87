// kit/relay.py for agents, against the real hub: the verbs of one in a shell, those inside a command that the relay runs, and
// a model's command line behind a preset.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { Relay, verb } from "./harness/relay.mjs";

/** The relay's verbs, in a command. */
const ME = 'python3 "$TASKHUB_RELAY"';

async function directory(t) {
  const made = await mkdtemp(path.join(tmpdir(), "taskhub-agent-"));
  t.after(() => rm(made, { recursive: true, force: true, maxRetries: 3 }));
  return made;
}

/** An agent in a shell: each call is a process of its own, and its state is in a folder of the test's. */
async function shell(t, executor) {
  const XDG_STATE_HOME = await directory(t);
  const call = async (code, ...args) => {
    const done = await verb(executor, args, { XDG_STATE_HOME });
    assert.equal(done.code, code, `${args}: ${done.said}`);
    assert.ok(!/clm_|exk_/.test(done.said), "no token and no key is printed");
    return done.said;
  };
  return { call, state: path.join(XDG_STATE_HOME, "taskhub") };
}

describe("agents of the relay", { concurrency: 3 }, () => {
  test("one in a shell takes a task, asks, and ends it with the answer", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 3 });
    const executor = await hub.executor("bot");
    const { call, state } = await shell(t, executor);
    assert.match(await call(3, "claim"), /nothing to do now/);
    const id = await hub.submit({ executor: "bot", title: "Book a table", instructions: "For two. ☃" });
    assert.match(await call(0, "claim"), new RegExp(`# Task ${id}: Book a table[^]*For two. ☃[^]*# Next`));
    assert.match(await call(0, "claim"), /You hold this task already/);
    assert.match(await call(0, "heartbeat", "looking", "--progress", "0.5", "--checkpoint", '{"page": 3}'), /is working/);
    assert.equal((await hub.task(id)).note, "looking");
    await call(0, "ask", "Friday or Saturday?");
    await hub.untilState(id, "input-required");
    await hub.mcp.tool("answer_task", { task_id: id, answer: "Saturday." });
    await hub.untilState(id, "submitted");
    assert.match(await call(0, "claim"), /Friday or Saturday\?[^]*Saturday\.[^]*\{"page": 3\}/);
    await call(0, "result", "Booked for Saturday.");
    assert.equal((await hub.untilState(id, "completed")).result, "Booked for Saturday.");
    assert.deepEqual(await readdir(path.join(state, "claims")), []);
  });

  test("one in a shell whose task is gone is told so, and goes on with the next", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("bot");
    const { call } = await shell(t, executor);
    const id = await hub.submit({ executor: "bot" });
    await call(0, "claim");
    await hub.mcp.tool("cancel_task", { task_id: id });
    assert.match(await call(4, "result", "too late"), /^canceled: The task was canceled/);
    const next = await hub.submit({ executor: "bot" });
    assert.match(await call(0, "claim"), new RegExp(next));
    await call(2, "defer", "99999999");
    await call(0, "defer", "60", "not yet");
    const waiting = await hub.task(next);
    assert.deepEqual([waiting.state, waiting.waiting_on], ["waiting", "external"]);
  });

  test("a command asks by the relay's socket and goes on with the answer, in one attempt", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 4 });
    const executor = await hub.executor("box");
    const script = `answer=$(${ME} ask "Which colour?" --wait 30) || exit 9; sleep 2; echo "$answer"; env | grep -c 'exk_\\|clm_'; true`;
    const relay = Relay.start(t, executor, script);
    const id = await hub.submit({ executor: "box" });
    await hub.untilState(id, "input-required");
    await hub.mcp.tool("answer_task", { task_id: id, answer: "Blue." });
    const task = await hub.untilState(id, "completed", 30_000);
    assert.equal(task.attempt, 1);
    assert.match(task.result, /Blue\.[^]*\n0$/);
    assert.ok(!/exk_|clm_/.test(relay.log));
  });

  test("what a command says of its end is what the hub hears", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    Relay.start(t, executor, `${ME} defer 60 "not yet" --checkpoint '[1]'; echo chatter`);
    const id = await hub.submit({ executor: "box" });
    const task = await hub.untilState(id, "waiting");
    assert.deepEqual([task.waiting_on, task.note, task.failures], ["external", "not yet", 0]);
  });

  test("an action of an attempt that died is not begun as if it were the first time", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 60 });
    const executor = await hub.executor("bot");
    const { call, state } = await shell(t, executor);
    const id = await hub.submit({ executor: "bot" });
    await call(0, "claim");
    await call(1, "action", "done", "book", "opentable", '{"people": 2}');
    assert.match(await call(0, "action", "begin", "book", "opentable", '{"people": 2}'), /^first time; idempotency key \w{64}/);
    assert.match(await call(5, "action", "begin", "book", "opentable", '{"people": 2.0}'), /^begun;/);
    // The agent is gone, and its claim with it; another one comes.
    await call(0, "release");
    assert.match(await call(0, "claim"), /unknown: step book, opentable \{"people": 2\}/);
    assert.match(await call(5, "action", "begin", "book", "opentable", '{"people": 2}'), /^unknown;[^]*Do not do it yet/);
    await call(0, "action", "done", "book", "opentable", '{"people": 2}', "--outcome", '{"reference": "A7"}');
    assert.match(await call(5, "action", "begin", "book", "opentable", '{"people": 2}'), /^done, outcome \{"reference": "A7"\}/);
    await call(0, "result", "Booked, A7.");
    assert.equal((await hub.untilState(id, "completed")).attempt, 2);
    assert.deepEqual(await readdir(path.join(state, "claims")), []);
  });

  test("a command records an action by the relay's socket, once", async (t) => {
    const hub = await startHub(t);
    const executor = await hub.executor("box");
    const begin = `${ME} action begin pay bank '{"eur": 1}'`;
    Relay.start(t, executor, `${begin} && echo paid; ${begin} || echo "not twice: $?"; ${ME} action done pay bank '{"eur": 1}'`);
    const task = await hub.untilState(await hub.submit({ executor: "box" }), "completed");
    assert.match(task.result, /first time[^]*\npaid\n[^]*not twice: 5/);
  });

  test("files that a command leaves are attached before its result, large ones and odd names too", async (t) => {
    const hub = await startHub(t, { ATTACHMENT_MAX_BYTES: 8_000_000 });
    const executor = await hub.executor("box");
    const script = `cd "$TASKHUB_OUT" || exit 9
      if [ "$TASKHUB_ATTEMPT" = 1 ]; then
        head -c 7000000 /dev/urandom > large.bin; sha256sum large.bin >&2; head -c 9000000 /dev/zero > "too large"; mkdir a
        printf ☃ > "a/ß *.txt"; ln -s /etc/passwd link; exit 75
      fi
      cat`;
    const relay = Relay.start(t, executor, script);
    const id = await hub.submit({ executor: "box" });
    const failed = await hub.untilState(id, "waiting");
    const sum = /[0-9a-f]{64}/.exec(failed.error)[0];
    assert.match(failed.error, /not attached by the relay: link: only regular files/);
    assert.match(failed.error, /not attached by the relay: too large: .*bytes/);
    const task = await hub.untilState(id, "completed", 90_000);
    const { files } = JSON.parse(task.result).context;
    const seen = files.map(({ name, size, attempt }) => [name, size, attempt]).toSorted();
    assert.deepEqual(seen, [["a_ß _.txt", 3, 1], ["large.bin", 7_000_000, 1]], relay.log);
    const large = files.find(({ name }) => name === "large.bin");
    assert.equal(large.sha256, sum);
    const got = await fetch(hub.url + new URL(large.url).pathname + new URL(large.url).search);
    assert.equal(createHash("sha256").update(new Uint8Array(await got.arrayBuffer())).digest("hex"), sum);
  });

  test("a model asks by its answer, and its session goes on with what the owner said", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 3 });
    const executor = await hub.executor("box");
    const home = await directory(t);
    const program = path.join(home, "bin", "claude");
    await mkdir(path.dirname(program));
    await writeFile(program, `#!/bin/sh
cat > "${home}/prompt"
case "$*" in
*--resume*) printf '{"result": "For %s.", "session_id": "s-1"}' "$(grep -o 'Saturday' "${home}/prompt" | head -1)" ;;
*) echo '{"result": "ASK: Which day?", "session_id": "s-1"}' ;;
esac
`);
    await chmod(program, 0o755);
    const env = { PATH: `${path.dirname(program)}:${process.env.PATH}`, XDG_STATE_HOME: path.join(home, "state") };
    const relay = Relay.start(t, executor, null, { env, args: ["--runner", "claude"] });
    const id = await hub.submit({ executor: "box", instructions: "Book it." });
    await hub.untilState(id, "input-required");
    assert.match(await readFile(path.join(home, "prompt"), "utf8"), /Book it\.[^]*the owner's words/);
    await hub.mcp.tool("answer_task", { task_id: id, answer: "Saturday" });
    const task = await hub.untilState(id, "completed", 30_000);
    assert.equal(task.result, "For Saturday.", relay.log);
  });
});
