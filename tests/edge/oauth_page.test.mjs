// The consent page in a real Chromium, in all its states: what the owner reads there, by keyboard alone, in a narrow
// window, and judged by axe. (The clients' sign-ins have scripts switched off.) TASKHUB_PICTURES names a directory for
// screenshots of every state at the widths of a phone and a desk.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { after, describe, test } from "node:test";

import {
  approve,
  assertFits,
  DESK,
  openPage,
  PHONE,
  press,
  startBrowser,
  switches,
  violations,
} from "./harness/browser.mjs";
import { startHub } from "./harness/hub.mjs";
import { certificate, OAuthClient, PASSPHRASE, startCallback, startSite } from "./harness/oauth.mjs";

const PICTURES = process.env.TASKHUB_PICTURES;
const WRONG = "nine green bottles on a shelf";
const browser = await startBrowser();
after(() => browser.close());

/** A hub with two executors, another without any or a passphrase, and clients of all kinds. */
async function setting(t) {
  const site = await certificate();
  const [hub, bare] = await Promise.all([
    startHub(t, { OWNER_PASSPHRASE: PASSPHRASE }, { trusted: site.cert }),
    startHub(t),
  ]);
  for (const name of ["laptop", "rented-mac"]) await hub.executor(name);
  const documents = await startSite(t, site, {
    name: "Claude Code",
    redirectUris: ["https://claude.example/callback"],
  });
  const document = documents.url("/client.json");
  const callback = await startCallback(t);
  return {
    hub,
    callback,
    website: await OAuthClient.register(hub, { name: "Claude" }),
    program: await OAuthClient.register(hub, { name: "Claude Code", redirectUri: callback.url("localhost") }),
    documented: new OAuthClient(hub, document, "https://claude.example/callback"),
    wordy: await OAuthClient.register(hub, {
      name: `${"Unbreakable".repeat(4)}‮gpj.exe‬ <script>alert(1)</script>`,
      redirectUri: `https://${"a-long-host-name.".repeat(6)}example/callback`,
    }),
    bareClient: await OAuthClient.register(bare),
    stranger: new OAuthClient(hub, "client-forgotten", "https://client.example/callback"),
  };
}

const all = (...scopes) => ({ scope: scopes.join(" ") });
const EXECUTE = all("tasks:read", "tasks:write", "tasks:execute");

async function mistype(page, times) {
  for (let time = 0; time < times; time += 1) await approve(page, WRONG);
}

// Name, what leads there, what must be read there, and the status.
const STATES = [
  [
    "a site",
    ({ website }, page) => page.goto(website.authorizeUrl()),
    [/^Claude wants to use/, /goes to client\.example/],
    200,
  ],
  [
    "a program",
    ({ program }, page) => page.goto(program.authorizeUrl()),
    [/localhost:\d+/, /Any program there can pretend/],
    200,
  ],
  ["a document", ({ documented }, page) => page.goto(documented.authorizeUrl()), [/described by localhost:\d+/], 200],
  [
    "the owner's powers",
    ({ website }, page) => page.goto(website.authorizeUrl(all("tasks:read", "hub:admin"))),
    [/Administer/],
    200,
  ],
  ["executors", ({ website }, page) => page.goto(website.authorizeUrl(EXECUTE)), [/Work on tasks/, /laptop/], 200],
  [
    "no executor there",
    ({ bareClient }, page) => page.goto(bareClient.authorizeUrl(EXECUTE)),
    [/There is no executor yet/],
    200,
  ],
  [
    "a long name",
    ({ wordy }, page) => page.goto(wordy.authorizeUrl()),
    [/^(Unbreakable){4}gpj\.exe <script>alert\(1\)<\/script> wants to use/],
    200,
  ],
  [
    "a wrong passphrase",
    async ({ website }, page) => {
      await page.goto(website.authorizeUrl());
      return mistype(page, 1);
    },
    [/passphrase is wrong\. 4 tries are left/],
    403,
  ],
  [
    "too many tries",
    async ({ website }, page) => {
      await page.goto(website.authorizeUrl());
      return mistype(page, 6);
    },
    [/too many wrong passphrases/],
    429,
  ],
  [
    "no executor chosen",
    async ({ website }, page) => {
      await page.goto(website.authorizeUrl(EXECUTE));
      await page.getByLabel("Work on tasks").check();
      return approve(page, PASSPHRASE);
    },
    [/choose it, or switch that off/],
    400,
  ],
  [
    "nothing switched on",
    async ({ website }, page) => {
      await page.goto(website.authorizeUrl());
      for (const label of ["See tasks", "Hand out tasks"]) await page.getByLabel(label).uncheck();
      return approve(page, PASSPHRASE);
    },
    [/Nothing is switched on/],
    400,
  ],
  [
    "no cookie",
    async ({ website }, page) => {
      await page.goto(website.authorizeUrl());
      await page.context().clearCookies();
      return approve(page, PASSPHRASE);
    },
    [/sent no cookie/],
    400,
  ],
  [
    "no passphrase set",
    async ({ bareClient }, page) => {
      await page.goto(bareClient.authorizeUrl());
      return approve(page, PASSPHRASE);
    },
    [/Set the secret OWNER_PASSPHRASE/],
    403,
  ],
  [
    "an unknown client",
    ({ stranger }, page) => page.goto(stranger.authorizeUrl()),
    [/not registered at this hub/],
    400,
  ],
  [
    "another redirect",
    ({ website }, page) => page.goto(website.authorizeUrl({ redirect_uri: "https://evil.example/" })),
    [/not an address that this client has registered/],
    400,
  ],
  [
    "a broken request",
    ({ website }, page) => page.goto(website.authorizeUrl({ code_challenge_method: "plain" })),
    [/must be S256/, /waits at client\.example/],
    400,
  ],
  ["no client", ({ hub }, page) => page.goto(`${hub.url}/authorize`), [/does not say which client/], 400],
  [
    "an address for no document",
    ({ hub }, page) => page.goto(new OAuthClient(hub, "https://a.example/../x", "https://a.example/").authorizeUrl()),
    [/not in its normal form/],
    400,
  ],
];

/** These have all the colours between them. */
const IN_THE_DARK = ["a program", "executors", "a wrong passphrase", "an unknown client"];

/** Takes a picture at each width, for whoever wants to look. */
async function picture(page, name, scheme) {
  if (!PICTURES) return;
  await mkdir(PICTURES, { recursive: true });
  for (const [width, size] of [
    ["desk", DESK],
    ["phone", PHONE],
  ]) {
    await page.setViewportSize(size);
    await page.screenshot({
      path: path.join(PICTURES, `${name.replace(/\W+/g, "-")}-${width}-${scheme}.png`),
      fullPage: true,
    });
  }
}

test("the page can be read and used in every state, by anybody", async (t) => {
  const place = await setting(t);
  let visitor = 0;
  for (const [name, lead, words, status] of STATES) {
    await t.test(name, async (t) => {
      visitor += 1;
      const page = await openPage(browser, t, {
        viewport: { width: 320, height: 640 },
        extraHTTPHeaders: { "cf-connecting-ip": `192.0.2.${visitor}` },
      });
      let last;
      page.on("response", (response) => (last = response));
      await lead(place, page);
      assert.equal(last.status(), status);
      const text = await page.locator("main").innerText();
      for (const word of words) assert.match(text, word);
      if (status >= 400) assert.equal(await page.getByRole("alert").count(), 1, "it is announced");
      await assertFits(page);
      assert.deepEqual(await violations(page), []);
      assert.deepEqual(page.complaints, []);
      await picture(page, name, "light");
      if (!PICTURES && !IN_THE_DARK.includes(name)) return;
      await page.emulateMedia({ colorScheme: "dark" });
      assert.deepEqual(await violations(page, ["color-contrast"]), [], "in the dark");
      await picture(page, name, "dark");
    });
  }
});

test("the page is used by keyboard alone", async (t) => {
  const hub = await startHub(t, { OWNER_PASSPHRASE: PASSPHRASE });
  const callback = await startCallback(t);
  await hub.executor("laptop");
  const client = await OAuthClient.register(hub, { redirectUri: callback.url() });
  const page = await openPage(browser, t, { javaScriptEnabled: false });
  const focused = () =>
    page.locator(":focus").evaluate((element) => element.name + (element.value ? `=${element.value}` : ""));
  await page.goto(client.authorizeUrl(EXECUTE));
  const order = [];
  for (let stop = 0; stop < 7; stop += 1) {
    await page.keyboard.press("Tab");
    order.push(await focused());
  }
  assert.deepEqual(order, [
    "scope=tasks:read",
    "scope=tasks:write",
    "scope=tasks:execute",
    "executor",
    "passphrase",
    "decision=approve",
    "decision=deny",
  ]);
  for (let stop = 0; stop < 2; stop += 1) await page.keyboard.press("Shift+Tab");
  await page.keyboard.type(WRONG);
  for (let stop = 0; stop < 3; stop += 1) await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Space");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);

  // Enter approves. The page comes back with what was chosen, and the cursor where it is needed.
  assert.match(await page.title(), /^Not approved yet/);
  assert.deepEqual(await switches(page), { "See tasks": true, "Hand out tasks": false, "Work on tasks": false });
  assert.equal(await focused(), "passphrase");
  assert.equal(await page.locator(":focus").getAttribute("aria-invalid"), "true");
  await page.keyboard.type(PASSPHRASE);
  await page.keyboard.press("Enter");
  const answer = await callback.untilVisited();
  const { body } = await client.exchange(answer.get("code"));
  assert.equal(body.scope, "tasks:read");
});

describe("what the owner decides", () => {
  test("to decline: the client is told, and no passphrase is needed", async (t) => {
    const hub = await startHub(t, { OWNER_PASSPHRASE: PASSPHRASE });
    const callback = await startCallback(t);
    const client = await OAuthClient.register(hub, { redirectUri: callback.url("localhost") });
    const page = await openPage(browser, t, { javaScriptEnabled: false });
    await page.goto(client.authorizeUrl());
    await press(page, "Decline");
    const answer = await callback.untilVisited();
    assert.equal(answer.get("error"), "access_denied");
    assert.equal(answer.get("state"), client.state);
    assert.equal(answer.get("iss"), hub.url);
    assert.equal(answer.get("code"), null);
    assert.deepEqual((await hub.owner("GET", "/api/grants")).body.grants, []);
  });

  test("to let it work as one executor, and to give it the owner's powers", async (t) => {
    const hub = await startHub(t, { OWNER_PASSPHRASE: PASSPHRASE });
    const callback = await startCallback(t);
    for (const name of ["laptop", "rented-mac"]) await hub.executor(name);
    const client = await OAuthClient.register(hub, { redirectUri: callback.url() });
    const page = await openPage(browser, t, { javaScriptEnabled: false });
    await page.goto(client.authorizeUrl(all("tasks:execute", "hub:admin")));
    assert.deepEqual(await switches(page), {
      "See tasks": false,
      "Hand out tasks": false,
      "Work on tasks": true,
      "Administer the hub": false,
    });
    await page.getByLabel("Administer the hub").check();
    await approve(page, PASSPHRASE, { executor: "rented-mac" });
    const answer = await callback.untilVisited();
    assert.equal((await client.exchange(answer.get("code"))).body.scope, "tasks:execute hub:admin");
    const [grant] = (await hub.owner("GET", "/api/grants")).body.grants;
    assert.deepEqual([grant.active, grant.executor], [true, "rented-mac"]);
  });
});
