// A real Chromium on the hub's consent page: what the owner sees there and does.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const { source: AXE } = createRequire(import.meta.url)("axe-core");
// Chromium asks nothing of the internet by itself. Its sandbox does not start for root, as which a CI runs.
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
const STEP_MS_MAX = 10_000;

/** The phone and the desk. */
export const PHONE = { width: 390, height: 844 };
export const DESK = { width: 1280, height: 800 };

function executable() {
  const places = (process.env.PATH ?? "").split(path.delimiter);
  const found = NAMES.flatMap((name) => places.map((place) => path.join(place, name))).find(existsSync);
  if (process.env.CHROMIUM || found) return process.env.CHROMIUM || found;
  throw new Error("there is no Chromium; scripts/test installs it, or set CHROMIUM to the path of one");
}

/** Starts a browser for the time of a test or of a file's tests, with a profile of its own. */
export async function startBrowser(context) {
  const browser = await chromium.launch({ executablePath: executable(), headless: true, args: ARGS });
  if (context) context.after(() => browser.close());
  return browser;
}

/**
 * Opens an empty page in a browser session of its own. What the browser complains of goes to `page.complaints`: violations
 * of a page's policy, scripts that fail.
 */
export async function openPage(browser, context, options = {}) {
  const session = await browser.newContext({ viewport: DESK, ignoreHTTPSErrors: true, ...options });
  session.setDefaultTimeout(STEP_MS_MAX);
  context.after(() => session.close());
  const page = await session.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  const protocol = await session.newCDPSession(page);
  protocol.on("Audits.issueAdded", ({ issue }) => {
    if (issue.code === "ContentSecurityPolicyIssue") page.complaints.push(JSON.stringify(issue.details));
  });
  await protocol.send("Audits.enable");
  return page;
}

/**
 * The violations that axe finds, as texts; its rules, all or these, are those of WCAG 2.2 AA and its own best practices.
 * It needs a page in which scripts can run.
 */
export async function violations(page, rules) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const options = rules ? { runOnly: rules } : {};
  const { violations: found, incomplete } = await page.evaluate((chosen) => globalThis.axe.run(chosen), options);
  return [...found, ...incomplete].map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

/** What stands on the consent page and how it is switched: `{label: checked}`. */
export function switches(page) {
  return page
    .getByRole("checkbox")
    .evaluateAll((boxes) => Object.fromEntries(boxes.map((box) => [box.labels[0].textContent, box.checked])));
}

/** Types the passphrase and approves, as the owner does. Returns once the browser has left for the next page. */
export async function approve(page, passphrase, { executor } = {}) {
  if (executor) await page.getByLabel("Executor to work as").selectOption(executor);
  await page.getByLabel("Your passphrase for this hub").fill(passphrase);
  await press(page, "Approve");
}

/** Presses a button of the form and waits for the answer's page. */
export async function press(page, name) {
  await Promise.all([page.waitForNavigation(), page.getByRole("button", { name }).click()]);
}

/** Nothing is wider than the window. */
export async function assertFits(page) {
  const { content, window: width } = await page.evaluate(() => ({
    content: document.documentElement.scrollWidth,
    window: document.documentElement.clientWidth,
  }));
  assert.ok(content <= width, `the page is ${content} pixels wide in a window of ${width}`);
}
