// A language model with nothing but curl and the skill of the kit: every wrong call that it is likely to make is answered by
// what to do next. Each row is one such call, as curl sends it, and what the answer must say; all of them must be answers
// that a caller can read (RFC 9457), and none may change a task or show a credential.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";

import { OWNER_TOKEN, startHub } from "./harness/hub.mjs";

const CALL_SECONDS_MAX = 30;
const LEASE_SECONDS = 2;

/** One call of curl, with what it reads from its standard input. Returns status, content type, and the body as text. */
function curl(args, input = "") {
  return new Promise((resolve, reject) => {
    const all = ["-sS", "-m", String(CALL_SECONDS_MAX), "-w", "\n%{http_code} %{content_type}", ...args];
    const child = execFile("curl", all, (error, stdout) => {
      if (error) return reject(error);
      const end = stdout.lastIndexOf("\n");
      const [status, type] = stdout.slice(end + 1).split(" ");
      resolve({ status: Number(status), type, text: stdout.slice(0, end) });
    });
    child.stdin.on("error", () => {}); // It may answer before it has read all.
    child.stdin.end(Buffer.from(input, "latin1"));
  });
}

/** The hub with two executors, and tasks in every state that a late or confused caller may meet. */
async function scene(t) {
  const hub = await startHub(t, { LEASE_SECONDS: 300 });
  const bot = await hub.executor("bot", { queues: ["ops"], max_concurrent: 50 });
  const other = await hub.executor("other");
  const claimed = async (executor) => {
    await hub.submit({ executor: executor.name });
    return executor.claim();
  };
  const held = await claimed(bot);
  const theirs = await claimed(other);
  const canceled = await claimed(bot);
  await hub.mcp.tool("cancel_task", { task_id: canceled.id });
  const finished = await claimed(bot);
  await finished.complete();
  const blocked = await claimed(bot);
  await blocked.heartbeat({ state: "input-required", question: "Which one?" });
  const released = await claimed(bot);
  await released.call("release");
  const again = await bot.claim();
  assert.equal(again.id, released.id);
  const waiting = await hub.submit({ executor: "other" });
  await hub.executor("off");
  const off = await hub.executor("gone");
  await hub.owner("PATCH", "/api/executors/gone", { disabled: true });
  return { hub, bot, held, theirs, canceled, finished, blocked, released, waiting, off };
}

/** The rows: what is wrong, the arguments of curl after the address, status, code, and the words that must be there. */
function rows({ bot, held, theirs, canceled, finished, blocked, released, waiting, off }) {
  const auth = ["-H", `Authorization: Bearer ${bot.key}`];
  const post = (path, body, ...more) => [path, ...auth, ...more, "-d", typeof body === "string" ? body : JSON.stringify(body)];
  const of = (claim, more) => ({ task_id: claim.id, claim_token: claim.token, ...more });
  const beat = (claim, more) => post("/executor/heartbeat", of(claim, more));
  const result = (claim, more) => post("/executor/result", of(claim, more));
  const done = { status: "completed", result: "Done." };

  const credentials = [
    ["no token", ["/executor/claim", "-d", "{}"], 401, "unauthorized", /Authorization: Bearer exk_…/],
    ["an empty variable as token", ["/executor/claim", "-H", "Authorization: Bearer ", "-d", "{}"], 401, "unauthorized",
      /variable.*not set.*executor key/s],
    ["the key without Bearer", ["/executor/claim", "-H", `Authorization: ${bot.key}`, "-d", "{}"], 401, "unauthorized",
      /lacks the word Bearer.*Authorization: Bearer exk_…/s],
    ["the key in a header of its own", ["/executor/claim", "-H", `X-Api-Key: ${bot.key}`, "-d", "{}"], 401, "unauthorized",
      /in another header.*Authorization: Bearer exk_…/s],
    ["the key in the address", [`/executor/claim?key=${bot.key}`, "-d", "{}"], 401, "unauthorized",
      /tell the owner to end it.*Authorization: Bearer exk_…/s],
    ["the owner's token", ["/executor/claim", "-H", `Authorization: Bearer ${OWNER_TOKEN}`, "-d", "{}"], 401, "unauthorized",
      /begins with exk_/],
    ["the claim token as bearer", ["/executor/heartbeat", "-H", `Authorization: Bearer ${held.token}`, "-d", "{}"], 401,
      "unauthorized", /claim tokens are not for this place/],
    ["a key with a letter too few", ["/executor/claim", "-H", `Authorization: Bearer ${bot.key.slice(0, -1)}`, "-d", "{}"], 401,
      "unauthorized", /mistyped.*Ask the hub's owner for a new one/s],
    ["the key for the owner's API", ["/api/executors", ...auth], 401, "unauthorized", /executor's key.*\/executor\/claim/s],
    ["the key for MCP", ["/mcp", ...auth, "-d", "{}"], 401, "unauthorized", /executor's key.*\/executor\/claim/s],
    ["the key of a disabled executor", ["/executor/claim", "-H", `Authorization: Bearer ${off.key}`, "-d", "{}"], 403,
      "executor_disabled", /do not call again before the owner has enabled it/],
  ];
  const addresses = [
    ["GET", ["/executor/claim", ...auth], 405, "method_not_allowed", /POST/],
    ["PUT", ["/executor/result", ...auth, "-X", "PUT", "-d", "{}"], 405, "method_not_allowed", /POST/],
    ["a path that does not exist", post("/executor/complete", of(held, done)), 404, "not_found", /\/executor\/claim.*result/s],
    ["the plural", post("/executors/claim", {}), 404, "not_found", /\/executor\/claim/],
    ["a path without its beginning", post("/claim", {}), 404, "not_found", /\/executor\/claim/],
    ["the task in the path", post(`/executor/tasks/${held.id}/result`, done), 404, "not_found", /\/executor\/claim/],
    ["a root that is no page", ["/api"], 404, "not_found", /\/mcp/],
  ];
  const json = [
    ["a trailing comma", post("/executor/heartbeat", `{"task_id": "${held.id}", "claim_token": "${held.token}",}`), 400,
      "bad_request", /not valid JSON: trailing comma at line 1.*Mend it/s],
    ["single quotes", post("/executor/heartbeat", `{'task_id': '${held.id}'}`), 400, "bad_request", /double quotes.*Mend it/s],
    ["a form", post("/executor/heartbeat", `task_id=${held.id}&claim_token=${held.token}`), 400, "bad_request",
      /looks like a form: send one object/],
    ["a line break in a text", post("/executor/result", `{"task_id":"${held.id}","result":"one\ntwo"}`), 400, "bad_request",
      /control character.*a line break is written \\n/s],
    ["JSON that is cut off", post("/executor/result", `{"task_id":"${held.id}","resu`), 400, "bad_request", /EOF.*Mend it/s],
    ["a list", post("/executor/claim", "[]"), 400, "bad_request", /one JSON object/],
    ["a text in quotes", post("/executor/claim", '"claim"'), 400, "bad_request", /one JSON object/],
    ["two objects", post("/executor/claim", "{} {}"), 400, "bad_request", /trailing characters/],
    ["no UTF-8", [...post("/executor/heartbeat", ""), "--data-binary", "@-"], 400, "bad_request", /UTF-8/, "\xff"],
    ["U+0000", beat(held, { note: "a\u0000b" }), 400, "bad_request", /U\+0000; leave it out/],
  ];
  const fields = [
    ["no task_id", post("/executor/heartbeat", { claim_token: held.token }), 400, "bad_request", /missing field `task_id`/],
    ["no claim token", post("/executor/heartbeat", { task_id: held.id }), 400, "bad_request",
      /claim_token is missing: send the one that the claim returned/],
    ["another name for the token", post("/executor/heartbeat", { task_id: held.id, token: held.token }), 400, "bad_request",
      /unknown field `token`, expected one of .*`claim_token`/],
    ["another way to write a field", post("/executor/heartbeat", { taskId: held.id, claim_token: held.token }), 400,
      "bad_request", /unknown field `taskId`, expected one of `task_id`/],
    ["another word for the result", result(held, { status: "completed", output: "Done." }), 400, "bad_request",
      /unknown field `output`, expected one of .*`result`/],
    ["no status", result(held, { result: "Done." }), 400, "bad_request", /missing field `status`/],
    ...["done", "success", "complete", "COMPLETED", "error"].map((word) => [
      `the status ${word}`, result(held, { status: word, result: "Done." }), 400, "bad_request",
      /status: .*expected one of `completed`, `failed`, `blocked`/]),
    ["a state with an underscore", beat(held, { state: "input_required", question: "Which?" }), 400, "bad_request",
      /state: .*`working` or `input-required`/],
    ["an object as result", result(held, { status: "completed", result: { rows: 3 } }), 400, "bad_request",
      /result: invalid type: object, expected a string/],
    ["a number as task", beat(held, { task_id: 7 }), 400, "bad_request", /task_id: invalid type: integer `7`, expected a string/],
    ["a text as progress", beat(held, { progress: "40%" }), 400, "bad_request", /progress: .*expected a number/],
    ["progress in percent", beat(held, { progress: 40 }), 400, "bad_request", /progress: .*from 0 to 1/],
    ["a text as queues", post("/executor/claim", { queues: "ops" }), 400, "bad_request", /queues: .*expected an array/],
    ["a queue of others", post("/executor/claim", { queues: ["dev"] }), 400, "bad_request", /It serves: ops.*Leave queues out/s],
    ["a wait that is too long", post("/executor/claim", { wait_seconds: 60 }), 400, "bad_request", /wait_seconds: .*0 to 25/],
    ["a wait with a unit", post("/executor/claim", { wait_seconds: "20s" }), 400, "bad_request", /wait_seconds: .*whole number/],
    ["a deferral with a unit", post("/executor/defer", of(held, { seconds: "10m" })), 400, "bad_request",
      /seconds: .*whole number/],
    ["a deferral of nothing", post("/executor/defer", of(held, { seconds: 0 })), 400, "bad_request", /seconds: .*from 1 to/],
    ["a deferral without its time", post("/executor/defer", of(held)), 400, "bad_request", /missing field `seconds`/],
    ["an error of what is done", result(held, { ...done, error: "None" }), 400, "bad_request", /error and retryable belong to/],
    ["a question of what is done", result(held, { ...done, question: "Ok?" }), 400, "bad_request",
      /question belongs to status "blocked"/],
    ["a failure without a reason is taken, a result that is too long is not",
      post("/executor/result", `@-`), 400, "bad_request", /result: .*262144 bytes/,
      JSON.stringify(of(held, { status: "completed", result: "x".repeat(262_145) }))],
    ["an empty question", beat(held, { state: "input-required", question: " " }), 400, "bad_request", /question: It is empty/],
    ["more than the hub reads", post("/executor/result", "@-"), 413, "too_large", /1048576|1 MiB/, "x".repeat(1_100_000)],
  ];
  const tasks = [
    ["a variable that the shell left alone", post("/executor/heartbeat", { task_id: "$TASK_ID", claim_token: held.token }), 404,
      "task_not_found", /begins with t_/],
    ["an id that is cut off", beat({ id: held.id.slice(0, -3), token: held.token }), 404, "task_not_found", /mistyped/],
    ["the title in place of the id", beat({ id: "A task", token: held.token }), 404, "task_not_found", /begins with t_/],
    ["the token of another task", beat({ id: held.id, token: blocked.token }), 409, "lease_lost",
      /not the claim token that its claim returned.*request_id/s],
    ["a token that is cut off", beat({ id: held.id, token: held.token.slice(0, -1) }), 409, "lease_lost", /Send that token exactly/],
    ["the key in place of the claim token", beat({ id: held.id, token: bot.key }), 409, "lease_lost", /Send that token exactly/],
    ["the task of another executor", beat(theirs), 409, "lease_lost", /held by another executor.*Claim again/s],
    ["a task that nobody has claimed", beat({ id: waiting, token: held.token }), 409, "lease_lost", /claim it first/],
    ["an attempt that was given back", beat(released), 409, "lease_lost", /earlier attempt.*Stop working/s],
    ["a task that was canceled", beat(canceled), 409, "canceled", /Stop working on it.*claim the next one/s],
    ["a result of one that was canceled", result(canceled, done), 409, "canceled", /Stop working/],
    ["a heartbeat after the result", beat(finished), 409, "already_finished", /outcome stays as it is/],
    ["another result after the result", result(finished, { status: "failed", error: "No." }), 409, "already_finished",
      /claim the next one/],
    ["a deferral while a person is asked", post("/executor/defer", of(blocked, { seconds: 60 })), 409, "not_working",
      /send a heartbeat.*send a result/s],
    ["a release while a person is asked", post("/executor/release", of(blocked)), 409, "not_working", /Nothing more is needed/],
  ];
  const act = (claim, more) => {
    const action = { step_id: "pay", tool: "stripe", params: { amount: 3 }, status: "begin" };
    return post("/executor/action", of(claim, { ...action, ...more }));
  };
  const actions = [
    ["an action without its step", act(held, { step_id: undefined }), 400, "bad_request", /missing field `step_id`/],
    ["an action with an empty step", act(held, { step_id: "" }), 400, "bad_request", /step_id: /],
    ["another word for begin", act(held, { status: "start" }), 400, "bad_request",
      /status: .*expected one of `begin`, `done`, `failed`/],
    ["done without begin", act(held, { status: "done" }), 409, "action_not_begun", /send status "begin"/],
    ["a result of the action in another field", act(held, { status: "done", result: "ok" }), 400, "bad_request",
      /unknown field `result`, expected one of .*`outcome`/],
    ["a number that no other program reads alike", act(held, { params: { id: 2 ** 60 } }), 400, "bad_request",
      /params: .*as a text, in quotes/s],
    ["an action of a task that was canceled", act(canceled), 409, "canceled", /Stop working/],
    ["an action of an attempt that was given back", act(released), 409, "lease_lost", /earlier attempt/],
    ["an action while a person is asked", act(blocked), 409, "not_working", /send a heartbeat/],
  ];
  const put = (query, claim, ...more) => [
    `/executor/attachment?${query}`, ...auth, "-H", `X-Claim-Token: ${claim.token}`, ...more];
  const file = `task_id=${held.id}&name=a.txt`;
  const bytes = ["-X", "PUT", "--data-binary", "abc"];
  const files = [
    ["a file by POST", put(file, held, "--data-binary", "abc"), 405, "method_not_allowed", /PUT/],
    ["a file as a form", put(file, held, "-X", "PUT", "-F", "file=@-"), 400, "bad_request", /--data-binary|-T/, "abc"],
    ["a file without a task", put("name=a.txt", held, ...bytes), 400, "bad_request", /task_id/],
    ["a file without a name", put(`task_id=${held.id}`, held, ...bytes), 400, "bad_request", /name/],
    ["a file without the claim token", [`/executor/attachment?${file}`, ...auth, ...bytes], 400, "bad_request",
      /X-Claim-Token/],
    ["the claim token in the address", [`/executor/attachment?${file}&claim_token=${held.token}`, ...auth, ...bytes], 400,
      "bad_request", /X-Claim-Token/],
    ["a file of a name that is none", put(`task_id=${held.id}&name=..`, held, ...bytes), 400, "bad_request", /name/],
    ["a hash that is none", put(file, held, ...bytes, "-H", "X-Sha256: abc"), 400, "bad_request", /64/],
    ["the hash of another file", put(file, held, ...bytes, "-H", `X-Sha256: ${"0".repeat(64)}`), 422, "sha256_mismatch",
      /again/],
    ["a file of a task that was canceled", put(`task_id=${canceled.id}&name=a`, canceled, ...bytes), 409, "canceled",
      /Stop working/],
    ["a file of an attempt that was given back", put(`task_id=${released.id}&name=a`, released, ...bytes), 409, "lease_lost",
      /earlier attempt/],
    ["a file after the result", put(`task_id=${finished.id}&name=a`, finished, ...bytes), 409, "already_finished",
      /Stop working/],
    ["a file while a person is asked", put(`task_id=${blocked.id}&name=a`, blocked, ...bytes), 409, "not_working",
      /send a heartbeat/],
    ["a link that was not copied whole", ["/files/f_0mb2x4k9q_7h3k5m9p2r4t6w8x/a.txt"], 403, "link_invalid", /whole/],
  ];
  const enrolment = [
    ["no code", ["/executor/enroll", "-d", "{}"], 400, "bad_request", /code/],
    ["a code of another hub", ["/executor/enroll", "-d", '{"code":"enr_bot.abc","nonce":"1234567890123456"}'], 403,
      "code_invalid", /owner/],
  ];
  return [...actions, ...files, ...enrolment, ...credentials, ...addresses, ...json, ...fields, ...tasks];
}

test("every wrong call of a model with curl is told what to do next, and changes nothing", async (t) => {
  const all = await scene(t);
  const { hub, bot, held } = all;
  const before = JSON.stringify(await Promise.all(Object.values(all).filter((claim) => claim.token).map(({ id }) => life(hub, id))));
  const secrets = [bot.key, OWNER_TOKEN, held.token].map((secret) => secret.slice(8));
  for (const [name, [path, ...args], status, code, next, input] of rows(all)) {
    await t.test(name, async () => {
      const answer = await curl([hub.url + path, ...args], input);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.type, /^application\/problem\+json/);
      const problem = JSON.parse(answer.text);
      assert.equal(problem.code, code, answer.text);
      assert.equal(problem.status, status);
      assert.equal(problem.retryable, false);
      assert.match(problem.detail, next);
      for (const secret of secrets) assert.ok(!answer.text.includes(secret), "it repeats a credential");
    });
  }
  const after = JSON.stringify(await Promise.all(Object.values(all).filter((claim) => claim.token).map(({ id }) => life(hub, id))));
  assert.equal(after, before);
});

/** What no refused call may change. */
async function life(hub, id) {
  const { state, attempt, failures, note, progress, result, checkpoint } = await hub.task(id);
  return { id, state, attempt, failures, note, progress, result, checkpoint };
}

test("a call after the lease is told to stop, and what it brought is kept", async (t) => {
  const hub = await startHub(t, { LEASE_SECONDS });
  const bot = await hub.executor("bot");
  const id = await hub.submit({ executor: "bot" });
  const claim = await bot.claim();
  await hub.untilState(id, "submitted");
  const body = JSON.stringify({ task_id: id, claim_token: claim.token, status: "completed", result: "Too late." });
  const answer = await curl([`${hub.url}/executor/result`, "-H", `Authorization: Bearer ${bot.key}`, "-d", body]);
  assert.equal(answer.status, 409);
  const problem = JSON.parse(answer.text);
  assert.equal(problem.code, "lease_lost");
  assert.match(problem.detail, /Stop working on this task.*Claim again/s);
  const { events } = await hub.task(id);
  assert.match(events.find((event) => event.kind === "late").data.brought, /Too late\./);
});
