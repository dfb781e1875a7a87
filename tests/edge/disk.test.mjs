// A disk that is full, and a state directory that is read-only: the hub says so, keeps what it acknowledged, can be read,
// and goes on once that is mended.

import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";

import { copyCheckout, Program } from "./harness/checkout.mjs";
import { startHub } from "./harness/hub.mjs";
import { answerWith, startReceiver } from "./harness/receiver.mjs";
import { pass, until } from "./harness/until.mjs";
import { startCeiling, startPermissions, startVolume } from "./harness/volume.mjs";

/** Long enough to do everything before it ends, on a busy machine too. */
const LEASE_SECONDS = 8;
/** How long reading is watched after a lease has ended: beyond the second try of an alarm that failed. */
const WATCH_MS = 4_000;
const CLIENTS = 6;
const ROUNDS = 4;

const TASK = { title: "A task", instructions: "Do it." };

/** One task in every state that a call can change, with the claim of those that are held; and an executor to be woken. */
async function everyState(hub, url) {
  await hub.executor("woken", { wake: { adapter: "webhook", url, auth: { kind: "none" } } });
  const executor = await hub.executor("one", { queues: ["errands"] });
  const next = async (more = {}) => {
    const id = await hub.submit({ executor: "one", ...more });
    const claim = await executor.claim();
    assert.equal(claim.id, id);
    return claim;
  };
  const done = await next();
  await done.complete("Kept.");
  const asking = await next();
  await asking.heartbeat({ question: "Which table?" });
  const working = await next({ context: { page: 1 } });
  await working.heartbeat({ note: "half way", checkpoint: { page: 7 } });
  const waiting = await hub.submit({ executor: "one", delay_seconds: 3_600 });
  const ready = await hub.submit({ queue: "errands", idempotency_key: "ready" });
  return { executor, done: done.id, asking, working, waiting, ready };
}

/** Every call that writes, each a function. `n` makes the names of different rounds differ. */
function writes(hub, { executor, asking, working, waiting }, n) {
  const tool = (name, args) => () => hub.mcp.call(name, args);
  return {
    submit: tool("submit_task", { ...TASK, executor: "one" }),
    "submit under a key": tool("submit_task", { ...TASK, executor: "woken", idempotency_key: `key-${n}` }),
    answer: tool("answer_task", { task_id: asking.id, answer: "The round one." }),
    cancel: tool("cancel_task", { task_id: waiting }),
    claim: () => executor.call("claim", { request_id: `request-${n}` }),
    heartbeat: () => working.heartbeat({ note: "lost", checkpoint: { page: 9 } }),
    defer: () => working.call("defer", { seconds: 60 }),
    release: () => working.call("release", { note: "lost" }),
    result: () => working.complete("Done."),
    "create an executor": () => hub.owner("POST", "/api/executors", { name: `new-${n}` }),
    "rotate a key": () => hub.owner("POST", "/api/executors/one/keys", {}),
  };
}

/** That this answer says what is the matter, that it did not happen, and what to do: as a problem or as a tool's error. */
function assertRefused(answer, code, words, what) {
  if (answer.status === 200) {
    const { isError, content } = answer.body.result ?? {};
    assert.ok(isError, `${what} was not stored and is acknowledged: ${answer.text}`);
    assert.ok(content[0].text.startsWith(`${code}: `), `${what}: ${answer.text}`);
    for (const word of words) assert.match(content[0].text, word, what);
    return;
  }
  assert.deepEqual([answer.status, answer.body?.code, answer.body?.retryable], [503, code, true], `${what}: ${answer.text}`);
  assert.equal(answer.headers.get("content-type"), "application/problem+json", what);
  assert.ok(Number(answer.headers.get("retry-after")) >= 5, what);
  for (const word of words) assert.match(answer.body.detail, word, what);
}

const SAYS_FULL = [/is full/, /nothing was changed/, /make room/, /same/];

/** That this call was refused because of the full disk, on which there may not even be room to open the database. */
function assertFull(answer, what) {
  if (answer.body?.code === "unavailable") assertRefused(answer, "unavailable", [/unknown/, /same/, /room on its disk/], what);
  else assertRefused(answer, "storage_full", SAYS_FULL, what);
}

const SAYS_READ_ONLY = [/not written/, /nothing was changed/, /writable/, /same/];

/** Everything that can be read, as the owner sees it. */
async function snapshot(hub) {
  const { tasks } = await hub.mcp.tool("list_tasks", { page_size: 50 });
  const found = await Promise.all(tasks.map(({ task_id }) => hub.task(task_id)));
  const { body } = await hub.owner("GET", "/api/executors");
  return { tasks: found, executors: body.executors.map(({ name }) => name) };
}

/** Reads until a while after the lease has ended, checks what was refused, and returns how many reads that were. */
async function watch(hub, claim, checkRefusal) {
  const { id } = claim;
  const end = claim.answer.lease_expires_at + WATCH_MS;
  let refused = 0;
  while (Date.now() < end) {
    for (const route of ["/healthz", "/api/executors", `/api/tasks/${id}`]) {
      const answer = await hub.owner("GET", route);
      if (answer.status === 200) continue;
      checkRefusal(answer, route);
      refused += 1;
    }
    await pass(50);
  }
  return refused;
}

/** That the task goes on whose lease ended meanwhile, and that a whole task can be done. */
async function assertGoesOn(hub, { executor, working, done }) {
  const requeued = await hub.untilState(working.id, "submitted", 20_000);
  assert.deepEqual([requeued.failures, requeued.checkpoint], [1, { page: 7 }], "only what was acknowledged counts");
  const id = await hub.submit({ executor: "one", priority: 9 });
  const claim = await executor.claim({ request_id: `after-${id}` });
  assert.equal(claim.id, id);
  assert.equal((await claim.complete("Done.")).status, 200);
  assert.equal((await hub.task(done)).result, "Kept.");
}

/**
 * The kinds of a full disk that this machine has; the second one it always has. Without any room the database cannot always
 * be opened again after a write that failed, so reading is not steady then.
 */
const FULL = [
  ["a file system without room", async (t) => (await startVolume(t)) ?? startCeiling(t), false],
  ["a system that refuses the writes", startCeiling, true],
];

describe("a full disk", { concurrency: 2 }, () => {
  for (const [kind, startPlace, isSteady] of FULL) {
    test(`${kind}: writes are refused and say why, reading goes on, and so does everything once there is room`, async (t) => {
      const place = await startPlace(t);
      const hub = await startHub(t, { LEASE_SECONDS }, place);
      const receiver = await startReceiver(t, answerWith(204));
      const people = await everyState(hub, receiver.url);
      const before = await snapshot(hub);

      // What can be read, or what is known already.
      const read = (from) => (isSteady ? snapshot(from) : snapshot(from).catch(() => before));
      await place.fill(hub);
      for (const [what, call] of Object.entries(writes(hub, people, 1))) {
        assertFull(await call(), what);
      }
      assert.deepEqual(await read(hub), before, "nothing is half there");
      const refused = await watch(hub, people.working, assertFull);
      assert.ok(refused === 0 || !isSteady, `${refused} reads were refused while the alarm failed`);
      assertFull(await writes(hub, people, 1)["submit under a key"](), "again");
      assert.deepEqual(await read(hub), before, "the lease that ended waits for room");
      assert.equal(receiver.received.length, 0, "no wake for what was not stored");

      await place.makeRoom(hub);
      const submitted = await until(
        async () => hub.mcp.tool("submit_task", { ...TASK, executor: "woken", idempotency_key: "key-1" }),
        { what: "the repeated submission" },
      );
      assert.equal(submitted.existed, false, "it had not been stored");
      await receiver.untilReceived(1);
      await assertGoesOn(hub, people);
      const after = await snapshot(hub);
      assert.equal(after.tasks.length, before.tasks.length + 2);
      assert.deepEqual(after.executors, before.executors);

      await hub.kill();
      await hub.start();
      assert.deepEqual(await snapshot(hub), after);
    });

    test(`${kind}, again and again under load: what was acknowledged is there, and each key has one task`, async (t) => {
      const place = await startPlace(t);
      const hub = await startHub(t, {}, place);
      await hub.executor("one", { queues: ["errands"] });
      const submit = (key) => hub.mcp.call("submit_task", { ...TASK, queue: "errands", idempotency_key: key });
      const isDown = (error) => (assert.ok(error instanceof TypeError, error), null);
      const acknowledged = new Map();
      const open = new Set();
      let goesOn = true;
      const client = async (name) => {
        for (let n = 0; goesOn; n += 1) {
          const key = `${name}-${n}`;
          const answer = await submit(key).catch(isDown);
          if (answer?.status === 200 && !answer.body.result.isError) {
            acknowledged.set(key, answer.body.result.structuredContent.task_id);
          } else {
            if (answer !== null) assertFull(answer, key);
            open.add(key);
            await pass(20);
          }
        }
      };
      t.after(() => (goesOn = false));
      const clients = Promise.all(Array.from({ length: CLIENTS }, (_, name) => client(name)));
      clients.catch(() => (goesOn = false));
      for (let round = 0; round < ROUNDS && goesOn; round += 1) {
        await pass(300);
        await place.fill(hub, Math.floor(Math.random() * 60_000));
        await pass(400);
        if (round === 1) {
          await hub.kill();
          await hub.start();
        }
        await place.makeRoom(hub);
      }
      goesOn = false;
      await clients;
      t.diagnostic(`${acknowledged.size} acknowledged, ${open.size} refused`);
      assert.ok(acknowledged.size > 0 && open.size > 0);

      for (const key of open) {
        const again = async () => (await submit(key)).body.result.structuredContent.task_id;
        acknowledged.set(key, await until(again, { what: `${key} to be taken` }));
      }
      const ids = [];
      for (let cursor = null, more = true; more; more = cursor !== null) {
        const page = await hub.mcp.tool("list_tasks", { page_size: 50, ...(cursor && { cursor }) });
        ids.push(...page.tasks.map((task) => task.task_id));
        cursor = page.next_cursor ?? null;
      }
      assert.deepEqual(ids.toSorted(), [...acknowledged.values()].toSorted());
    });
  }
});

const READ_ONLY = [
  ["a file system mounted read-only", async (t) => (await startVolume(t)) ?? startPermissions(t)],
  ["permissions that are missing", startPermissions],
];

describe("a read-only state directory", { concurrency: 2 }, () => {
  for (const [kind, startPlace] of READ_ONLY) {
    test(`${kind}, between two starts: all of it can be read, writes are refused, and nothing is lost`, async (t) => {
      const place = await startPlace(t);
      const hub = await startHub(t, { LEASE_SECONDS }, place);
      const people = await everyState(hub, "http://127.0.0.1:9/");
      const before = await snapshot(hub);
      await hub.kill();

      await place.setReadOnly(true);
      await hub.start();
      assert.deepEqual(await snapshot(hub), before);
      for (const [what, call] of Object.entries(writes(hub, people, 1))) {
        const answer = await call();
        // The lease may be over by now, which is a reason of its own.
        if (answer.body?.code !== "lease_lost") assertRefused(answer, "storage_read_only", SAYS_READ_ONLY, what);
      }
      await watch(hub, people.working, (answer, route) => assert.fail(`${route} while the alarm fails: ${answer.text}`));
      assert.deepEqual(await snapshot(hub), before);
      await hub.kill();

      await place.setReadOnly(false);
      await hub.start();
      await assertGoesOn(hub, people);
    });
  }
});

describe("scripts/dev", { concurrency: 2 }, () => {
  /** A directory in which there is no room from the start. */
  async function startFull(t) {
    const volume = await startVolume(t);
    await volume?.fill();
    if (volume !== null) return volume;
    const { directory } = await startCeiling(t);
    return { directory, wrapper: ["/bin/sh", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "sh"] };
  }

  /** Runs it on this directory to its end, and returns what it says. */
  async function refusal(t, STATE_DIR, wrapper) {
    const checkout = await copyCheckout(t);
    const [command, ...args] = [...wrapper, path.join(checkout, "scripts/dev")];
    const program = new Program(t, checkout, command, args, { PORT: "0", STATE_DIR });
    assert.equal(await program.ended, 1, program.output);
    assert.doesNotMatch(program.output, /Uncaught|    at /, "a sentence, not a trace");
    return program.output;
  }

  test("ends with what to mend when its state directory, or a file in it, is read-only", async (t) => {
    const place = await startPermissions(t);
    const { directory, wrapper } = place;
    await place.setReadOnly(true);
    const fresh = await refusal(t, directory, wrapper);
    assert.match(fresh, new RegExp(`state directory ${directory} cannot be written \\(EACCES at ${directory}\\); .*STATE_DIR`));
    assert.match(await refusal(t, path.join(directory, "below"), wrapper), /cannot be made \(EACCES\); set STATE_DIR/);

    await place.setReadOnly(false);
    const file = path.join(directory, "taskhub", "metadata.sqlite");
    await mkdir(path.dirname(file));
    await writeFile(file, "");
    await chmod(file, 0o400);
    assert.match(await refusal(t, directory, wrapper), /cannot be written \(EACCES at .*metadata\.sqlite\); make it and all/);
  });

  test("ends with what to mend when there is no room for its data", async (t) => {
    const { directory, wrapper } = await startFull(t);
    const said = await refusal(t, directory, wrapper);
    assert.match(said, /no room in the state directory .* \(E\w+\); what is stored there is safe\. Make room/);
  });
});
