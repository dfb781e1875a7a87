// Notices as a phone gets them: published to a stand-in ntfy with ntfy's limits, and what its buttons do.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { assertFits, DESK, openPage, PHONE, press as pressOnPage, startBrowser, violations } from "./harness/browser.mjs";
import { startHub } from "./harness/hub.mjs";
import { press, startNtfy } from "./harness/ntfy.mjs";
import { pass } from "./harness/until.mjs";

/** A hub that tells a stand-in, with an executor. */
async function start(t, vars = {}, options = {}) {
  const ntfy = await startNtfy(t, options);
  const hub = await startHub(t, ntfy.vars(vars));
  const executor = await hub.executor("bot", { queues: ["errands"] });
  return { hub, ntfy, executor };
}

/** Submits a task and lets the executor fail it. */
async function fail({ hub, executor }, title, more = {}) {
  const id = await hub.submit({ executor: "bot", title, ...more });
  const task = await executor.claim();
  assert.equal(task.id, id);
  assert.equal((await task.fail("It is closed.")).status, 200);
  return id;
}

describe("notices", { concurrency: 4 }, () => {
  test("a failure is told with its title, its reason and a button, under the token", async (t) => {
    const all = await start(t, {}, { token: "tk_of_the_tests" });
    const id = await fail(all, "Büche einen Tisch 🍽");
    const [message] = await all.ntfy.untilMessages(1);
    assert.equal(message.title, "Failed: Büche einen Tisch 🍽");
    assert.match(message.message, /bot wrote: “It is closed\.”/);
    assert.deepEqual([message.topic, message.priority, message.tags], ["topic-of-the-tests", 4, ["x"]]);
    assert.ok(message.click.startsWith(`${all.hub.url}/act/look.${id}.`), message.click);
    const page = await (await fetch(message.click)).text();
    assert.ok(page.includes("Büche einen Tisch 🍽") && page.includes("failed"), page);
    assert.ok(!all.hub.log.includes("tk_of_the_tests") && !all.hub.log.includes("/act/"), all.hub.log);
    const [{ headers }] = all.ntfy.requests;
    assert.equal(headers["webhook-id"], message.sequence_id);
  });

  test("a question, a wake that is given up, and success that was asked for are told", async (t) => {
    const all = await start(t, { WAKE_MAX_ATTEMPTS: 1 });
    const { hub, ntfy, executor } = all;
    await hub.submit({ executor: "bot", title: "Ask" });
    const asking = await executor.claim();
    await asking.heartbeat({ question: "Which one?", state: "input-required" });
    const nobody = "http://127.0.0.1:9/";
    await hub.executor("ant", { wake: { adapter: "webhook", url: nobody, auth: { kind: "none" } } });
    await hub.submit({ executor: "ant", title: "Wake" });
    await hub.submit({ executor: "bot", title: "Do", notify: ["completed"] });
    const task = await executor.claim();
    await task.complete("Done at eight.");
    const messages = await ntfy.untilMessages(3);
    const titles = messages.map((message) => message.title).sort();
    assert.deepEqual(titles, ["Cannot wake ant: Wake", "Done: Do", "Question: Ask"]);
  });

  test("a storm of 200 failures is two notices that tell how many there were", async (t) => {
    const all = await start(t);
    for (let number = 1; number <= 200; number += 1) await fail(all, `Task ${number}`);
    await all.ntfy.untilMessages(1);
    await pass(300);
    assert.equal(all.ntfy.messages.length, 1, "the others are collected");
    await all.hub.test("POST", "tick", { now: Date.now() + 301_000 });
    const [, second] = await all.ntfy.untilMessages(2);
    assert.equal(second.title, "199 tasks for bot failed");
    assert.match(second.message, /– Task 2\n[\s\S]*and 194 more/);
    await pass(300);
    assert.equal(all.ntfy.messages.length, 2);
  });

  test("what is longer than ntfy takes is cut between characters", async (t) => {
    const all = await start(t);
    const { hub, ntfy, executor } = all;
    for (const text of ["ä".repeat(8_000), "🦀".repeat(4_000), '"\\'.repeat(4_000), "\u202e\u0007evil.example ".repeat(500)]) {
      await hub.submit({ queue: "errands", title: text.slice(0, 200), notify: ["failed"] });
      const task = await executor.claim();
      const told = ntfy.messages.length;
      assert.equal((await task.fail(text.slice(0, 8_000))).status, 200);
      if (told === 0) await ntfy.untilMessages(1);
    }
    await hub.test("POST", "tick", { now: Date.now() + 301_000 });
    await ntfy.untilMessages(2);
    assert.ok(ntfy.requests.every(({ status }) => status === 200), JSON.stringify(ntfy.requests.map((one) => one.status)));
  });

  test("429 with Retry-After is waited for, and the same message sent again", async (t) => {
    const ntfy = await startNtfy(t);
    ntfy.script = [{ status: 429, headers: { "retry-after": "120" } }];
    const hub = await startHub(t, ntfy.vars());
    const executor = await hub.executor("bot");
    await fail({ hub, executor }, "Once");
    await ntfy.untilRequests(1);
    await pass(500);
    await hub.test("POST", "tick", { now: Date.now() + 100_000 });
    await pass(500);
    assert.equal(ntfy.requests.length, 1, "it is left alone for as long as it asked");
    await hub.test("POST", "tick", { now: Date.now() + 121_000 });
    await ntfy.untilMessages(1);
    const [first, second] = ntfy.requests;
    assert.equal(first.body, second.body);
    assert.equal(first.headers["webhook-id"], second.headers["webhook-id"]);
  });

  test("a server that stays broken gets eight tries, and the owner sees what was not told", async (t) => {
    const ntfy = await startNtfy(t);
    ntfy.script = [{ status: 500, forever: true }];
    const hub = await startHub(t, ntfy.vars());
    const executor = await hub.executor("bot");
    await fail({ hub, executor }, "Never told");
    let now = Date.now();
    for (let tries = 1; tries <= 8; tries += 1) {
      await ntfy.untilRequests(tries);
      await pass(300);
      now += 3 * 3_600_000;
      await hub.test("POST", "tick", { now });
    }
    await pass(500);
    assert.equal(ntfy.requests.length, 8);
    assert.equal(new Set(ntfy.requests.map(({ body }) => body)).size, 1);
    const outbox = await hub.owner("GET", "/api/outbox");
    assert.equal(outbox.status, 200, outbox.text);
    assert.ok(outbox.text.includes("answered 500"), outbox.text);
    const { attention } = await hub.mcp.tool("hub_status", {});
    assert.ok(attention.length > 0, "hub_status says so");
  });

  test("a server that never answers holds nothing up", async (t) => {
    const ntfy = await startNtfy(t);
    ntfy.script = ["nothing"];
    const hub = await startHub(t, ntfy.vars());
    const executor = await hub.executor("bot");
    const began = Date.now();
    await fail({ hub, executor }, "Slow");
    assert.ok(Date.now() - began < 5_000, "the answer does not wait for the notice");
    await ntfy.untilRequests(1);
    assert.equal((await hub.request("GET", "/healthz")).status, 200);
  });

  test("a wrong configuration is shown and disturbs no task", async (t) => {
    const hub = await startHub(t, { NTFY_URL: "http://127.0.0.1:9", NTFY_TOPIC: "not a topic" });
    const executor = await hub.executor("bot");
    await fail({ hub, executor }, "Told nobody");
    const health = await hub.request("GET", "/healthz");
    assert.equal(health.status, 200);
    assert.match(health.body.notifications, /^NTFY_TOPIC must/);
    const { attention } = await hub.mcp.tool("hub_status", {});
    assert.ok(attention.some((line) => line.includes("NTFY_TOPIC must")), JSON.stringify(attention));
    const tested = await hub.owner("POST", "/api/notify/test");
    assert.deepEqual([tested.status, tested.body.code], [409, "notifications_misconfigured"]);
  });
});

describe("the test of notices", { concurrency: 4 }, () => {
  test("one notice is sent, and what became of it is said", async (t) => {
    const { hub, ntfy } = await start(t, {}, { token: "tk_of_the_tests" });
    const good = await hub.owner("POST", "/api/notify/test");
    assert.deepEqual([good.status, good.body.delivered, good.body.status], [200, true, 200], good.text);
    assert.ok(good.body.took_ms >= 0 && good.body.took_ms < 5_000);
    const [message] = ntfy.messages;
    assert.equal(message.title, "A test of your task hub");
    for (const [scripted, status, hint] of [
      [{ status: 403 }, 403, /NTFY_TOKEN/],
      [{ status: 429 }, 429, /too many/],
      [{ status: 500 }, 500, /tried again/],
      [{ status: 302, headers: { location: "https://elsewhere.example/" } }, 302, /NTFY_URL/],
    ]) {
      ntfy.script = [scripted];
      const told = await hub.owner("POST", "/api/notify/test");
      assert.deepEqual([told.status, told.body.delivered, told.body.status], [200, false, status], told.text);
      assert.match(told.body.detail, hint);
    }
  });

  test("a wrong token and a server that is not there are told apart", async (t) => {
    const ntfy = await startNtfy(t, { token: "tk_right" });
    const wrong = await startHub(t, ntfy.vars({ NTFY_TOKEN: "tk_wrong" }));
    assert.equal((await wrong.owner("POST", "/api/notify/test")).body.status, 401);
    const nowhere = await startHub(t, { NTFY_URL: "http://127.0.0.1:9", NTFY_TOPIC: "topic" });
    const told = await nowhere.owner("POST", "/api/notify/test");
    assert.deepEqual([told.status, told.body.delivered, told.body.status], [200, false, null], told.text);
    assert.match(told.body.detail, /cannot be reached/);
  });

  test("a server that never answers is given up in time", async (t) => {
    const ntfy = await startNtfy(t);
    ntfy.script = ["nothing"];
    const hub = await startHub(t, ntfy.vars());
    const began = Date.now();
    const told = await hub.owner("POST", "/api/notify/test");
    assert.deepEqual([told.status, told.body.delivered, told.body.status], [200, false, null], told.text);
    assert.match(told.body.detail, /may have arrived/);
    assert.ok(Date.now() - began < 10_000);
  });
});

describe("the buttons of notices", { concurrency: 4 }, () => {
  test("retry makes one new task, however often it is pressed", async (t) => {
    const all = await start(t);
    const { hub, ntfy } = all;
    const id = await fail(all, "Again");
    const [message] = await ntfy.untilMessages(1);
    const presses = await Promise.all([1, 2, 3].map(() => press(message, "Retry")));
    assert.ok(presses.every(({ status, cleared }) => status === 200 && cleared), JSON.stringify(presses));
    const { tasks } = await hub.mcp.tool("list_tasks", {});
    assert.equal(tasks.length, 2);
    const fresh = tasks.find((task) => task.task_id !== id);
    assert.equal((await hub.task(fresh.task_id)).retry_of, id);
    assert.ok(presses.every(({ text }) => text.includes(fresh.task_id)), "each press names the same task");
  });

  test("cancel ends the task that asks, and a look at the page does not", async (t) => {
    const { hub, ntfy, executor } = await start(t);
    const id = await hub.submit({ executor: "bot", title: "Ask" });
    const task = await executor.claim();
    await task.heartbeat({ question: "Which?", state: "input-required" });
    const [message] = await ntfy.untilMessages(1);
    const { url } = message.actions[0];
    for (let look = 0; look < 3; look += 1) assert.equal((await fetch(url)).status, 200);
    assert.equal((await hub.task(id)).state, "input-required");
    const pressed = await press(message, "Cancel task");
    assert.deepEqual([pressed.status, (await hub.task(id)).state], [200, "canceled"]);
    assert.match((await press(message, "Cancel task")).text, /Done already/);
  });

  test("a link that was tampered with never reaches the object", async (t) => {
    const all = await start(t);
    await fail(all, "Hostile");
    const [message] = await all.ntfy.untilMessages(1);
    const { url } = message.actions[0];
    const before = (await all.hub.test("GET", "requests")).count;
    for (const wrong of [`${url}x`, url.slice(0, -1), url.replace("retry", "cancel"), url.replace(/\.\d{10}\./, ".9999999999.")]) {
      for (const method of ["GET", "POST"]) assert.equal((await fetch(wrong, { method })).status, 404, wrong);
    }
    const form = await fetch(url, { method: "POST", headers: { origin: "https://evil.example" } });
    assert.equal(form.status, 403);
    assert.equal((await all.hub.test("GET", "requests")).count, before);
    assert.equal((await all.hub.mcp.tool("list_tasks", {})).tasks.length, 1);
  });
});

describe("the page of a link", () => {
  test("a person confirms on a phone, without scripts, and nothing that an executor wrote is markup", async (t) => {
    const ntfy = await startNtfy(t);
    const hub = await startHub(t, ntfy.vars());
    const executor = await hub.executor("bot");
    const id = await hub.submit({ executor: "bot", title: "<img src=x onerror=alert(1)> & a title without any spaces ".padEnd(200, "x") });
    const task = await executor.claim();
    await task.heartbeat({ question: "</p><script>alert(1)</script> Which?", state: "input-required" });
    const [message] = await ntfy.untilMessages(1);
    const { url } = message.actions[0];
    const browser = await startBrowser(t);
    for (const viewport of [PHONE, DESK]) {
      const page = await openPage(browser, t, { viewport });
      await page.goto(url);
      await assertFits(page);
      assert.deepEqual(await violations(page), []);
      assert.deepEqual(page.complaints, []);
      assert.ok((await page.textContent("main")).includes("<script>alert(1)</script> Which?"));
    }
    const page = await openPage(browser, t, { viewport: PHONE, javaScriptEnabled: false });
    await page.goto(url);
    await pressOnPage(page, "Cancel the task");
    assert.match(await page.textContent("main"), /Done/);
    assert.equal((await hub.task(id)).state, "canceled");
    await page.goto(url);
    assert.match(await page.textContent("main"), /nothing to do: the task is canceled/);
    await page.goto(`${url}x`);
    assert.match(await page.textContent("main"), /cannot be used/);
  });
});

describe("silence", { concurrency: 2 }, () => {
  test("an executor that does not come for its task is told of once", async (t) => {
    const ntfy = await startNtfy(t);
    const hub = await startHub(t, ntfy.vars({ SILENT_AFTER_SECONDS: 60 }));
    await hub.executor("bot");
    const later = Date.now() + 61_000;
    await hub.submit({ executor: "bot", title: "Waits" });
    await hub.test("POST", "tick", { now: later + 61_000 });
    const [message] = await ntfy.untilMessages(1);
    assert.equal(message.title, "bot is silent");
    assert.match(message.message, /1 task waits for bot/);
    await hub.test("POST", "tick", { now: later + 3_600_000 });
    await pass(300);
    assert.equal(ntfy.messages.length, 1);
  });
});
