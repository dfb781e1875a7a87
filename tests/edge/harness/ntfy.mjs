// A stand-in for an ntfy server, for its real one is a Go program that no package registry of this project has.
//
// It takes what ntfy takes and refuses what ntfy refuses, with ntfy's own codes. Its limits are those that ntfy publishes
// (docs.ntfy.sh/publish, "Publish as JSON" and "Limitations"; server/server.go, actions.go, config.go and errors.go of
// binwiederhier/ntfy):
//
//   JSON is published by POST or PUT to / only (to /topic, a body is the message itself)
//   the body                 at most 8,192 bytes: twice the message's limit                         413 41303
//   JSON                     an object; topic, title, message, click are strings, priority a number 400 40024
//   topic                    ^[-_A-Za-z0-9]{1,64}$, and none of the reserved names                  400 40009, 40010
//   message                  at most 4,096 bytes of UTF-8 (longer ones would become attachments)    400 40014
//   title                    at most 1,024 bytes                                                    400 40057
//   tags                     at most 512 bytes together                                             400 40058
//   priority                 1 to 5                                                                 400 40007
//   actions                  at most 3; view, broadcast or http, with a label, and url where it needs one 400 40018
//   sequence_id              like a topic
//   a topic that is closed   needs Authorization: Bearer tk_…                                       401 40101, 403 40301
//   requests                 60 at once from one visitor, then one in 5 seconds; here as a test wants 429 42901
//
// A phone is played too: `press` does what ntfy's app does when a button is pressed, and `shown` is what its list shows,
// where a message of the same sequence takes the place of the one before.

import { createServer } from "node:http";
import { once } from "node:events";

import { until } from "./until.mjs";

const MESSAGE_BYTES_MAX = 4_096;
const BODY_BYTES_MAX = 2 * MESSAGE_BYTES_MAX;
const TITLE_BYTES_MAX = 1_024;
const TAGS_BYTES_MAX = 512;
const ACTIONS_MAX = 3;
const TOPIC = /^[-_A-Za-z0-9]{1,64}$/;
const RESERVED = ["docs", "static", "file", "app", "metrics", "account", "settings", "signup", "login", "v1"];
const FIELDS = { topic: "string", title: "string", message: "string", click: "string", priority: "number" };

class Refused extends Error {
  constructor(http, code, error, headers = {}) {
    super(error);
    Object.assign(this, { http, code, error, headers });
  }
}

/** Starts a server for the time of a test. `token` closes it to all who do not send that token. */
export async function startNtfy(context, { token = null } = {}) {
  const ntfy = new Ntfy(token);
  ntfy.server.listen(0, "127.0.0.1");
  await once(ntfy.server, "listening");
  context.after(() => ntfy.close());
  return ntfy;
}

export class Ntfy {
  constructor(token) {
    this.token = token;
    /** Every request with what became of it: { at, method, path, headers, body, status }. */
    this.requests = [];
    /** Messages that were taken, in order. */
    this.messages = [];
    /** Answers that the next requests get instead: { status, headers } or "nothing"; the last one stays if `forever`. */
    this.script = [];
    this.server = createServer((request, response) => this.answer(request, response));
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  /** The variables that point a hub here. */
  vars(more = {}) {
    const token = this.token === null ? {} : { NTFY_TOKEN: this.token };
    return { NTFY_URL: this.url, NTFY_TOPIC: "topic-of-the-tests", ...token, ...more };
  }

  close() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  async answer(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method, url: path, headers } = request;
    const seen = { at: Date.now(), method, path, headers, body: body.toString("utf8"), status: null };
    this.requests.push(seen);
    const scripted = this.script.length > 1 || !this.script[0]?.forever ? this.script.shift() : this.script[0];
    if (scripted === "nothing") return;
    const reply = (status, value, more = {}) => {
      seen.status = status;
      response.writeHead(status, { "content-type": "application/json", ...more }).end(JSON.stringify(value));
    };
    if (scripted !== undefined) return reply(scripted.status, { error: "as the test wants" }, scripted.headers);
    try {
      const message = this.take(request, body);
      this.messages.push(message);
      reply(200, { id: `m${this.messages.length}`, event: "message", ...message });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      reply(error.http, { code: error.code, http: error.http, error: error.error }, error.headers);
    }
  }

  take(request, body) {
    if (request.url !== "/" || !["POST", "PUT"].includes(request.method)) throw new Refused(404, 40401, "page not found");
    if (body.length > BODY_BYTES_MAX) throw new Refused(413, 41303, "JSON body too large");
    const message = parsed(body);
    const { topic } = message;
    if (typeof topic !== "string" || !TOPIC.test(topic)) throw new Refused(400, 40009, "topic invalid");
    if (RESERVED.includes(topic)) throw new Refused(400, 40010, "topic name is disallowed");
    this.authorize(request.headers.authorization);
    checkTexts(message);
    checkActions(message.actions ?? []);
    return message;
  }

  authorize(header) {
    if (this.token === null) return;
    if (header === undefined) throw new Refused(403, 40301, "forbidden");
    if (header !== `Bearer ${this.token}`) throw new Refused(401, 40101, "unauthorized");
  }

  /** The messages that were taken, once there are this many. */
  untilMessages(count, ms = 20_000) {
    const more = () => JSON.stringify(this.requests);
    return until(() => this.messages.length >= count && this.messages, { what: `${count} notices`, ms, more });
  }

  /** The requests that came, once there are this many. */
  untilRequests(count, ms = 20_000) {
    return until(() => this.requests.length >= count && this.requests, { what: `${count} requests`, ms });
  }

  /** What the list on a phone shows. */
  shown() {
    const last = new Map(this.messages.map((message) => [message.sequence_id ?? message, message]));
    return [...last.values()];
  }
}

/** Presses a button of a message, as ntfy's app does, and returns status and text; the notice is cleared if it went well. */
export async function press(message, label) {
  const action = message.actions?.find((one) => one.label === label);
  if (action === undefined) throw new Error(`there is no button ${label}: ${JSON.stringify(message)}`);
  const { url, method = "POST", headers = {}, body } = action;
  const response = await fetch(url, { method, headers, body, redirect: "follow" });
  return { status: response.status, text: await response.text(), cleared: response.ok && action.clear === true };
}

function parsed(body) {
  let message;
  try {
    message = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new Refused(400, 40024, "request body must be valid JSON");
  }
  const fits = ([name, type]) => message[name] === undefined || typeof message[name] === type;
  if (message === null || typeof message !== "object" || !Object.entries(FIELDS).every(fits)) {
    throw new Refused(400, 40024, "request body must be valid JSON");
  }
  return message;
}

function checkTexts({ message = "triggered", title = "", tags = [], priority, sequence_id: sequence }) {
  if (Buffer.byteLength(message) > MESSAGE_BYTES_MAX) throw new Refused(400, 40014, "attachments not allowed");
  if (Buffer.byteLength(title) > TITLE_BYTES_MAX) throw new Refused(400, 40057, "title too long");
  const tagsBytes = tags.reduce((sum, tag) => sum + Buffer.byteLength(tag), 0);
  if (tagsBytes > TAGS_BYTES_MAX) throw new Refused(400, 40058, "tags too long");
  if (priority !== undefined && ![1, 2, 3, 4, 5].includes(priority)) throw new Refused(400, 40007, "invalid priority");
  if (sequence !== undefined && !TOPIC.test(sequence)) throw new Refused(400, 40049, "sequence ID invalid");
}

function checkActions(actions) {
  const invalid = (why) => new Refused(400, 40018, `actions invalid, ${why}`);
  if (!Array.isArray(actions)) throw invalid("no list");
  if (actions.length > ACTIONS_MAX) throw invalid(`only ${ACTIONS_MAX} actions allowed`);
  for (const { action, label, url, method, body } of actions) {
    if (!["view", "broadcast", "http"].includes(action)) throw invalid(`action '${action}' unknown`);
    if (!label) throw invalid("parameter 'label' is required");
    if (action !== "broadcast" && !url) throw invalid(`parameter 'url' is required for action '${action}'`);
    if (action === "http" && ["GET", "HEAD"].includes(method) && body) throw invalid("a body cannot be set");
  }
}
