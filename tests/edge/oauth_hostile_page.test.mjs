// What a hostile page does to the consent page through the owner's browser, and what the browser gives away.

import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { after, describe, test } from "node:test";

import { approve, openPage, press, startBrowser } from "./harness/browser.mjs";
import { startHub } from "./harness/hub.mjs";
import { certificate, OAuthClient, PASSPHRASE, startCallback, startSite } from "./harness/oauth.mjs";

const browser = await startBrowser();
after(() => browser.close());

/** Starts a site that serves one page. The hub is at 127.0.0.1; under `localhost` this is another site. */
async function startEvilSite(context, html) {
  const server = http.createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end(html));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://localhost:${server.address().port}/`;
}

async function setting(t) {
  const hub = await startHub(t, { OWNER_PASSPHRASE: PASSPHRASE });
  const callback = await startCallback(t);
  const client = await OAuthClient.register(hub, { redirectUri: callback.url() });
  const page = await openPage(browser, t);
  return { hub, callback, client, page, grants: async () => (await hub.owner("GET", "/api/grants")).body.grants };
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
}

/** A form that sends itself. */
function form(action, fields) {
  const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${escaped(value)}">`);
  const send = "<script>document.forms[0].submit()</script>";
  return `<form method="post" action="${escaped(action)}">${inputs.join("")}</form>${send}`;
}

describe("from elsewhere", () => {
  test("the page cannot be framed", async (t) => {
    const { hub, client, page } = await setting(t);
    for (const address of [client.authorizeUrl(), `${hub.url}/authorize`]) {
      await page.goto(
        await startEvilSite(t, `<iframe src="${escaped(address)}" onload="document.title='loaded'"></iframe>`),
      );
      await page.waitForFunction(() => document.title === "loaded");
      const [frame] = page.frames().slice(1);
      assert.match(frame.url(), /^chrome-error:/, "the browser shows nothing of it");
    }
    assert.match(page.complaints.join(), /frame-ancestors/);
  });

  test("a form with the right passphrase is refused, whatever cookie and token come along", async (t) => {
    const { hub, client, page, callback, grants } = await setting(t);
    const address = client.authorizeUrl();
    // Another visitor's token, and this browser's own cookie.
    const foreign = await hub.request("GET", address.slice(hub.url.length));
    const token = /name="form_token" value="([^"]+)"/.exec(foreign.text)[1];
    await page.goto(address);
    const own = await page.locator("[name=form_token]").getAttribute("value");
    const posts = [];
    page.on("request", (request) => request.method() === "POST" && posts.push(request));
    for (const form_token of [token, own, ""]) {
      const fields = { form_token, decision: "approve", scope: "tasks:read", passphrase: PASSPHRASE };
      const evil = await startEvilSite(t, form(address, fields));
      const [response] = await Promise.all([
        page.waitForResponse((response) => response.request().method() === "POST"),
        page.goto(evil).catch(() => {}),
      ]);
      assert.equal(response.status(), 400);
      assert.equal((await response.request().allHeaders()).cookie, undefined, "the cookie stays at home");
    }
    assert.equal(posts.length, 3);
    assert.deepEqual(await grants(), []);
    assert.deepEqual(callback.visits, []);

    // Nor did it count as a wrong passphrase, or spoil the page that the owner has open.
    await page.goto(address);
    await approve(page, PASSPHRASE);
    await callback.untilVisited();
  });

  test("a page of the same site but another origin is refused too", async (t) => {
    const { client, page, grants } = await setting(t);
    const address = client.authorizeUrl();
    await page.goto(address);
    const form_token = await page.locator("[name=form_token]").getAttribute("value");
    const fields = { form_token, decision: "approve", scope: "tasks:read", passphrase: PASSPHRASE };
    const evil = (await startEvilSite(t, form(address, fields))).replace("localhost", "127.0.0.1");
    const [response] = await Promise.all([
      page.waitForResponse((response) => response.request().method() === "POST"),
      page.goto(evil).catch(() => {}),
    ]);
    assert.ok((await response.request().allHeaders()).cookie, "the cookie came along");
    assert.equal(response.status(), 400);
    assert.deepEqual(await grants(), []);
  });
});

describe("afterwards", () => {
  test("going back and sending again needs the passphrase again, and is a consent of its own", async (t) => {
    const { client, page, callback, grants } = await setting(t);
    await page.goto(client.authorizeUrl());
    await approve(page, PASSPHRASE);
    const first = await callback.untilVisited();

    // Reloading the page that it ended on visits the client again, with the same code; the form is not sent again.
    await page.reload();
    assert.equal((await callback.untilVisited(2)).get("code"), first.get("code"));
    assert.equal((await grants()).length, 1);

    await page.goBack();
    assert.equal(await page.getByLabel("Your passphrase").inputValue(), "", "the passphrase is not kept");
    await page.getByRole("button", { name: "Approve" }).click();
    assert.equal(await page.getByLabel("Your passphrase").evaluate((field) => field.validity.valueMissing), true);
    assert.equal((await grants()).length, 1, "nothing was sent");

    // Whoever types it once more makes another code. It goes to the same client, and the owner can end each grant.
    await approve(page, PASSPHRASE);
    const second = await callback.untilVisited(3);
    assert.notEqual(second.get("code"), first.get("code"));
    assert.equal((await client.exchange(second.get("code"))).status, 200);
    assert.deepEqual((await grants()).map((grant) => grant.active).sort(), [false, true], "an unused code is no grant");
  });

  test("pressing Approve twice brings one grant", async (t) => {
    const { client, page, callback, grants } = await setting(t);
    await page.goto(client.authorizeUrl());
    await page.getByLabel("Your passphrase").fill(PASSPHRASE);
    await page.getByRole("button", { name: "Approve" }).dblclick();
    const answer = await callback.untilVisited();
    assert.equal((await client.exchange(answer.get("code"))).status, 200);
    assert.equal((await grants()).filter((grant) => grant.active).length, 1);
  });

  test("the code is in the client's address only: no referrer, no cache, no history of the form", async (t) => {
    const { hub, client, page, callback } = await setting(t);
    const answers = [];
    page.on("response", (response) => answers.push(response));
    const evil = await startEvilSite(t, `<a href="${escaped(client.authorizeUrl())}">Connect</a>`);
    await page.goto(evil);
    await Promise.all([page.waitForNavigation(), page.getByText("Connect").click()]);
    await approve(page, PASSPHRASE);
    await callback.untilVisited();
    const [visit] = callback.visits;
    assert.equal(visit.method, "GET", "303: the form is not sent on to the client");
    assert.equal(visit.headers.referer, undefined);
    assert.equal(visit.headers.cookie, undefined);
    const ofHub = answers.filter((answer) => answer.url().startsWith(hub.url));
    for (const answer of ofHub) assert.match(answer.headers()["cache-control"], /no-store/);
    assert.deepEqual(
      ofHub.map((answer) => answer.status()),
      [200, 303],
    );
    const [{ value, ...cookie }] = await page.context().cookies(`${hub.url}/authorize`);
    assert.equal(value.length, 22);
    assert.deepEqual(
      [cookie.name, cookie.path, cookie.httpOnly, cookie.sameSite],
      ["taskhub_consent", "/authorize", true, "Lax"],
    );
    assert.deepEqual(page.complaints, []);
  });

  test("a client's site may send the browser on: to another, to this machine, to an app of its own", async (t) => {
    const { hub, callback } = await setting(t);
    const keys = await certificate();
    const [site, other] = [await startSite(t, keys), await startSite(t, keys)];
    const client = await OAuthClient.register(hub, { redirectUri: site.url("/callback") });
    // Browsers hold a page's form-action against all of these.
    for (const end of [other.url("/signed-in"), callback.url("localhost"), "editor://signed-in"]) {
      const page = await openPage(browser, t);
      site.serve = (_, response) => response.writeHead(302, { location: end }).end();
      await page.goto(client.authorizeUrl());
      await page.getByLabel("Your passphrase for this hub").fill(PASSPHRASE);
      await Promise.all([
        page.waitForRequest((request) => request.url().startsWith(end)),
        page.getByRole("button", { name: "Approve" }).click(),
      ]);
      assert.deepEqual(page.complaints, [], end);
    }
    await callback.untilVisited();
    assert.ok(other.requests.some(({ path }) => path === "/signed-in"));
  });

  test("a second form in another tab works too", async (t) => {
    const { client, page, callback } = await setting(t);
    const other = await page.context().newPage();
    const [one, two] = [client.authorizeUrl(), client.authorizeUrl()];
    await page.goto(one);
    await other.goto(two);
    await press(page, "Decline");
    await approve(other, PASSPHRASE);
    assert.ok((await callback.untilVisited(2)).get("code"));
  });
});
