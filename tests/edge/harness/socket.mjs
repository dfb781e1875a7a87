// A WebSocket client that is told everything as it comes: the refusal of its request, and a close frame before the connection
// ends, which workerd leaves open for a while. It can also keep from reading.

import { randomBytes } from "node:crypto";
import { request } from "node:http";

import { until } from "./until.mjs";

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;

/** Asks for a socket: `{status, headers, body}` of a refusal, or `{status: 101, connection}`. */
export function ask(hub, target, token, headers = {}) {
  return new Promise((resolve, reject) => {
    const asked = request(hub.url + target, {
      headers: {
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": randomBytes(16).toString("base64"),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
    });
    asked.on("upgrade", ({ statusCode: status }, connection, head) => resolve({ status, connection, head }));
    asked.on("response", async (response) => {
      let text = "";
      for await (const part of response) text += part;
      resolve({ status: response.statusCode, headers: response.headers, body: parsed(text) });
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** How a request for a socket is answered: its status, and the body of a refusal. */
export async function handshake(hub, target, token) {
  const { status, body, connection } = await ask(hub, target, token);
  connection?.destroy();
  return { status, body };
}

export class Socket {
  /** Opens a socket for the time of a test. */
  static async open(context, hub, target, token) {
    const { status, body, connection, head } = await ask(hub, target, token);
    if (status !== 101) throw new Error(`the socket was not opened: ${status} ${JSON.stringify(body)}`);
    const socket = new Socket(connection, head);
    context.after(() => socket.drop());
    return socket;
  }

  constructor(connection, head) {
    this.connection = connection;
    /** What came, JSON as values, and when. */
    this.heard = [];
    this.arrived = [];
    /** The code and reason of the close frame; 1006 if the connection ended without one. */
    this.ended = null;
    this.bytes = head;
    this.waiting = [];
    this.closed = new Promise((resolve) => (this.resolveClosed = resolve));
    connection.on("data", (data) => {
      this.bytes = Buffer.concat([this.bytes, data]);
      this.read();
    });
    connection.on("error", () => {});
    connection.on("close", () => this.end({ code: 1006, reason: "" }));
    this.read();
  }

  /** The frames that have come whole. A server masks none, and workerd sends each message in one. */
  read() {
    while (this.bytes.length >= 2) {
      let [length, start] = [this.bytes[1] & 127, 2];
      if (length === 126 && this.bytes.length >= 4) [length, start] = [this.bytes.readUInt16BE(2), 4];
      else if (length === 127 && this.bytes.length >= 10) [length, start] = [Number(this.bytes.readBigUInt64BE(2)), 10];
      else if (length > 125) return;
      if (this.bytes.length < start + length) return;
      const [kind, payload] = [this.bytes[0] & 15, this.bytes.subarray(start, start + length)];
      this.bytes = this.bytes.subarray(start + length);
      if (kind === TEXT) {
        this.heard.push(parsed(payload.toString()));
        this.arrived.push(performance.now());
        for (const resolve of this.waiting.splice(0)) resolve(this.heard.at(-1));
      } else if (kind === CLOSE) {
        const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
        this.end({ code, reason: payload.subarray(2).toString() });
        this.frame(CLOSE, payload.subarray(0, 2));
        this.connection.end();
      }
    }
  }

  end(how) {
    this.ended ??= how;
    this.resolveClosed(this.ended);
  }

  /** The next message from here on, without a look every few milliseconds. */
  next() {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  frame(kind, payload) {
    const mask = randomBytes(4);
    const masked = payload.map((byte, index) => byte ^ mask[index % 4]);
    if (payload.length > 125) throw new Error("a longer frame than this client sends");
    this.connection.write(Buffer.concat([Buffer.from([0x80 | kind, 0x80 | payload.length]), mask, masked]));
  }

  /** Sends a text, or bytes. */
  send(data) {
    this.frame(typeof data === "string" ? TEXT : BINARY, Buffer.from(data));
  }

  /** Reads no more, for good. */
  deafen() {
    this.connection.pause();
  }

  /** Says goodbye; returns the answer to that. */
  close() {
    this.frame(CLOSE, Buffer.from([0x03, 0xe8]));
    return this.closed;
  }

  /** Goes without a word. */
  drop() {
    this.connection.destroy();
  }

  /** The messages once there are so many. */
  async untilHeard(count, ms = 20_000) {
    const more = () => JSON.stringify([this.ended, this.heard.slice(-5)]);
    await until(() => this.heard.length >= count, { what: `${count} messages`, ms, more });
    return this.heard;
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
