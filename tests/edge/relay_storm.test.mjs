// kit/relay.py against the real hub under a storm: leases lost, tasks canceled, networks gone, hubs killed, clocks wrong, wakes
// forged. What must hold: what an attempt started is dead before another may run, and no task is done twice.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, test } from "node:test";
import { Webhook } from "standardwebhooks";

import { startHub } from "./harness/hub.mjs";
import { Relay, verb } from "./harness/relay.mjs";
import { pass, timed, until } from "./harness/until.mjs";
import { startWire } from "./harness/wire.mjs";

const SECRET = `whsec_${Buffer.alloc(32, "storm").toString("base64")}`;
const WAKE = '{"event":"wake"}';
/** SIGTERM, a second to end, SIGKILL; and what a busy machine adds to that. */
const DEATH_MS_MAX = 4_000;
const HOUR_SECONDS = 3_600;

/** A command with a child and a grandchild, all deaf to SIGTERM, and a child in a session of its own. */
const TREE = `
trap "" TERM HUP
sh -c 'trap "" TERM; sh -c "trap \\"\\" TERM; echo \\$\\$ >> $DIR/pids; sleep 60" & echo $$ >> "$DIR/pids"; wait; sleep 60' &
setsid sh -c 'trap "" TERM; echo $$ >> "$DIR/pids"; sleep 60' &
echo $$ >> "$DIR/pids"; sleep 60`;
const TREE_PROCESSES = 4;

/** Says that it is alive, ten times a second. The time is that of the system's own clock. */
const BEATING = 'while :; do echo "$TASKHUB_ATTEMPT $(date +%s%3N)" >> "$DIR/beats"; sleep 0.1; done';

async function directory(t) {
  const made = await mkdtemp(path.join(tmpdir(), "taskhub-storm-"));
  t.after(() => rm(made, { recursive: true, force: true, maxRetries: 3 }));
  return made;
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const lines = async (...where) => (await readFile(path.join(...where), "utf8")).trim().split("\n");

/** A hub with one executor and a relay whose command has grown to its whole tree. */
async function tree(t, vars) {
  const hub = await startHub(t, vars);
  const executor = await hub.executor("box");
  const DIR = await directory(t);
  const id = await hub.submit({ executor: "box" });
  const relay = Relay.start(t, executor, TREE, { env: { DIR } });
  const all = async () => {
    const pids = (await lines(DIR, "pids")).map(Number);
    return pids.length === TREE_PROCESSES && pids;
  };
  const pids = await until(all, { what: "the whole tree", more: () => relay.log });
  t.after(() => pids.filter(isAlive).forEach((pid) => process.kill(pid, "SIGKILL")));
  return { hub, executor, id, relay, pids };
}

/** How long it took until nothing of the tree was left. */
async function deathOf(pids, relay) {
  const more = () => `${pids.map((pid) => `${pid} ${isAlive(pid)}`)}\n${relay.log}`;
  const { ms } = await timed(() => until(() => !pids.some(isAlive), { what: "the end of the tree", more }));
  return ms;
}

/** A Python whose wall clock is wrong by so many seconds. */
async function wrongClock(t, seconds) {
  const PYTHONPATH = await directory(t);
  const module = [
    "import time", `seconds, right, text = ${seconds}, time.time, time.strftime`,
    "time.time = lambda: right() + seconds",
    "time.strftime = lambda form, at=None: text(form, at or time.localtime(time.time()))",
  ];
  await writeFile(path.join(PYTHONPATH, "sitecustomize.py"), `${module.join("\n")}\n`);
  return { PYTHONPATH, PYTHONDONTWRITEBYTECODE: "1" };
}

/** A relay that serves, and an executor that the hub wakes there. */
async function served(t, hub, script, env = {}) {
  const executor = await hub.executor("bot");
  const options = { verb: "serve", args: ["--bind", "127.0.0.1:0"], env: { TASKHUB_WAKE_SECRET: SECRET, ...env } };
  const relay = Relay.start(t, executor, script, options);
  await relay.untilLogged(/woken at http/);
  const url = /woken at (http:\S+)/.exec(relay.log)[1];
  const wake = { adapter: "webhook", url, auth: { kind: "hmac", secret: SECRET } };
  const changed = await hub.owner("PATCH", "/api/executors/bot", { wake });
  assert.equal(changed.status, 200, changed.text);
  return { executor, relay, url };
}

/** The headers with which the standardwebhooks library signs a wake. */
function signed(id, at, body = WAKE, secret = SECRET) {
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at / 1000)),
    "webhook-signature": new Webhook(secret).sign(id, new Date(at), body),
  };
}

function knock(url, body, headers) {
  return fetch(url, { method: "POST", body, headers }).then(({ status }) => status);
}

describe("the relay in a storm", { concurrency: 4 }, () => {
  test("a lease lost in the middle ends the whole tree at once, deaf and runaway children too", async (t) => {
    const { hub, executor, id, relay, pids } = await tree(t, { LEASE_SECONDS: 4 });
    relay.signal("SIGSTOP");
    await hub.untilState(id, "submitted");
    const other = await executor.claim();
    assert.equal(other.answer.attempt, 2);
    relay.signal("SIGCONT");
    assert.ok((await deathOf(pids, relay)) < DEATH_MS_MAX);
    assert.equal((await other.complete("by the other")).status, 200);
    assert.equal((await hub.task(id)).result, "by the other");
  });

  test("a canceled task ends the whole tree within a heartbeat, and the relay goes on", async (t) => {
    const { hub, id, relay, pids } = await tree(t, { LEASE_SECONDS: 5 });
    await hub.mcp.tool("cancel_task", { task_id: id });
    assert.ok((await deathOf(pids, relay)) < 5_000 / 3 + DEATH_MS_MAX);
    assert.equal((await hub.task(id)).state, "canceled");
    await hub.untilState(await hub.submit({ executor: "box" }), "working");
  });

  test("SIGTERM to the relay ends the whole tree, and the task is free again", async (t) => {
    const { hub, id, relay, pids } = await tree(t, {});
    const stopped = relay.stop();
    assert.ok((await deathOf(pids, relay)) < DEATH_MS_MAX);
    assert.equal(await stopped, 0);
    assert.equal((await hub.task(id)).state, "submitted");
  });

  test("two relays with one key and two with two keys on one queue do each of 40 tasks once", async (t) => {
    const hub = await startHub(t);
    const DIR = await directory(t);
    const queues = ["race"];
    const [one, two] = [await hub.executor("one", { queues, max_concurrent: 4 }), await hub.executor("two", { queues })];
    // The directory is made once; whoever comes second fails.
    const script = 'mkdir "$DIR/$TASKHUB_TASK_ID" && echo "$NAME" >> "$DIR/names" && sleep 0.1 && echo once';
    const args = ["--concurrency", "2"];
    for (const [NAME, executor, listens] of [["a", one, true], ["b", one, false], ["c", two, true]]) {
      Relay.start(t, executor, script, { env: { DIR, NAME }, args, listens });
    }
    const ids = await Promise.all(Array.from({ length: 40 }, () => hub.submit({ queue: "race" })));
    for (const id of ids) {
      const task = await hub.untilState(id, "completed", 40_000);
      assert.deepEqual([task.attempt, task.result.trim()], [1, "once"]);
    }
    const names = await lines(DIR, "names");
    assert.equal(names.length, 40);
    assert.deepEqual([...new Set(names)].toSorted(), ["a", "b", "c"], "all of them worked");
  });

  // Ten minutes are two leases of five; here, three leases of three seconds.
  for (const way of ["refuse", "swallow"]) {
    test(`with the network gone (${way}) the command is dead before its task is given on; then the relay comes back`, async (t) => {
      const hub = await startHub(t, { LEASE_SECONDS: 3 });
      const wire = await startWire(t, hub);
      const DIR = await directory(t);
      const queues = ["infra"];
      const [cut, near] = [await hub.executor("cut", { queues }), await hub.executor("near", { queues })];
      const relay = Relay.start(t, cut, BEATING, { env: { DIR }, url: wire.url });
      const id = await hub.submit({ queue: "infra" });
      await until(() => lines(DIR, "beats"), { what: "the command to begin", more: () => relay.log });
      wire.cut(way);
      const taken = await until(() => near.claim({ wait_seconds: 5 }), { what: "the task to be given on" });
      const takenAt = Date.now();
      assert.deepEqual([taken.id, taken.answer.attempt], [id, 2]);
      await taken.complete("by the one that is near");
      await pass(6_000);
      const beats = (await lines(DIR, "beats")).map((line) => line.split(" ").map(Number));
      assert.ok(beats.every(([attempt, at]) => attempt === 1 && at < takenAt), "nothing ran once it was given on");
      assert.match(relay.log, /no heartbeat has reached the hub for a lease/);
      wire.mend();
      const next = await hub.submit({ executor: "cut" });
      await hub.untilState(next, "working", 40_000);
      assert.equal((await hub.task(id)).result, "by the one that is near");
      assert.equal(await relay.stop(), 0);
    });
  }

  test("a hub that is killed and restarted again and again loses nothing and has nothing done twice", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 60 });
    const executor = await hub.executor("box", { max_concurrent: 3 });
    const DIR = await directory(t);
    const script = 'echo "$TASKHUB_TASK_ID" >> "$DIR/runs"; sleep 0.3; echo done';
    const relay = Relay.start(t, executor, script, { env: { DIR }, args: ["--concurrency", "3"] });
    const ids = [];
    for (let round = 0; round < 4; round += 1) {
      for (let n = 0; n < 4; n += 1) ids.push(await hub.submit({ executor: "box" }));
      await pass(400 * (round + 1));
      await hub.kill();
      await pass(200);
      await hub.start();
    }
    for (const id of ids) assert.equal((await hub.untilState(id, "completed", 40_000)).attempt, 1);
    assert.deepEqual((await lines(DIR, "runs")).toSorted(), ids.toSorted());
    assert.equal(await relay.stop(), 0);
  });

  for (const [side, seconds] of [["ahead", HOUR_SECONDS], ["behind", -HOUR_SECONDS]]) {
    test(`a clock an hour ${side} changes nothing: leases, deadlines and wakes go by the hub's`, async (t) => {
      const hub = await startHub(t, { LEASE_SECONDS: 4 });
      const env = await wrongClock(t, seconds);
      const { executor, relay, url } = await served(t, hub, "sleep 5; echo done", env);
      const deadline = new Date(Date.now() + 60_000).toISOString();
      const id = await hub.submit({ executor: "bot", deadline });
      const task = await hub.untilState(id, "completed");
      assert.deepEqual([task.result.trim(), task.attempt], ["done", 1]);
      assert.ok(!relay.log.includes("a wake was refused"), relay.log);
      assert.equal(await knock(url, WAKE, signed("msg_1", Date.now())), 200);
      assert.equal(await knock(url, WAKE, signed("msg_2", Date.now() + seconds * 1_000)), 401, "its own time is not the hub's");
      const late = await hub.submit({ executor: "bot", deadline: new Date(Date.now() + 3_000).toISOString() });
      await hub.untilState(late, "failed");
      await relay.untilLogged(/stopped: (the task's deadline|the hub says|the hub has taken)/);
      const { code, said } = await verb(executor, ["doctor"], env);
      assert.match(said, new RegExp(`note +clock +this machine is 3(599|600)\\.\\d s ${side}`));
      assert.equal(code, 0, "a note, and nothing wrong");
    });
  }

  test("serve takes the hub's own wakes and those that the real library signs, and no others", async (t) => {
    const hub = await startHub(t);
    const { relay, url } = await served(t, hub, "echo done");
    for (let n = 0; n < 3; n += 1) {
      const id = await hub.submit({ executor: "bot" });
      assert.equal((await hub.untilState(id, "completed")).result.trim(), "done");
    }
    assert.equal(await knock(url, WAKE, signed("msg_1", Date.now())), 200);
    assert.equal(await knock(url, WAKE, signed("msg_1", Date.now())), 200, "a wake that is repeated");
    const other = `whsec_${Buffer.alloc(32, "other").toString("base64")}`;
    const forged = [signed("msg_2", Date.now(), WAKE, other), signed("msg_3", Date.now(), `${WAKE} `)];
    const stale = [signed("msg_4", Date.now() - 400_000), signed("msg_5", Date.now() + 400_000)];
    for (const headers of [{}, { authorization: `Bearer ${SECRET}` }, ...forged, ...stale]) {
      assert.equal(await knock(url, WAKE, headers), 401);
    }
    assert.ok(!relay.log.includes(SECRET));
    assert.equal(await relay.stop(), 0);
  });
});
