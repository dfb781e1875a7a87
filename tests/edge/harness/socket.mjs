// A WebSocket client with the credential in its header, as programs send it.

import { request } from "node:http";
import { connect } from "node:net";

import { until } from "./until.mjs";

export class Socket {
  /** Opens a socket for the time of a test. */
  static async open(context, hub, target, token) {
    const socket = new Socket(hub, target, token);
    context.after(() => socket.close());
    await socket.opened;
    return socket;
  }

  constructor(hub, target, token) {
    this.heard = [];
    this.arrived = [];
    this.ended = null;
    this.ws = new WebSocket(hub.url.replace("http", "ws") + target, { headers: { authorization: `Bearer ${token}` } });
    this.ws.onmessage = ({ data }) => {
      this.heard.push(parsed(data));
      this.arrived.push(performance.now());
    };
    this.opened = new Promise((resolve, reject) => {
      this.ws.onopen = resolve;
      this.ws.onerror = () => reject(new Error("the socket was not opened"));
    });
    this.closed = new Promise((resolve) => {
      this.ws.onclose = ({ code, reason }) => {
        this.ended = { code, reason };
        resolve(this.ended);
      };
    });
    this.opened.catch(() => {});
  }

  send(text) {
    this.ws.send(text);
  }

  close() {
    this.ws.close();
    return this.closed;
  }

  /** The messages once there are so many. */
  async untilHeard(count, ms = 20_000) {
    const more = () => JSON.stringify([this.ended, this.heard.slice(-5)]);
    await until(() => this.heard.length >= count, { what: `${count} messages`, ms, more });
    return this.heard;
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}

/** Asks for a socket by hand and returns how that is answered: `{status, body}`, with status 101 if it is opened. */
export function handshake(hub, target, token, headers = { connection: "Upgrade", upgrade: "websocket" }) {
  return new Promise((resolve, reject) => {
    const asked = request(hub.url + target, {
      headers: {
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
    });
    asked.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve({ status: response.statusCode, body: null });
    });
    asked.on("response", async (response) => {
      let text = "";
      for await (const part of response) text += part;
      resolve({ status: response.statusCode, headers: response.headers, body: parsed(text) });
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** A client that opens a socket and then reads nothing. */
export async function deaf(context, hub, target, token) {
  const socket = connect({ port: hub.port, host: "127.0.0.1", highWaterMark: 1 });
  context.after(() => socket.destroy());
  const lines = [
    `GET ${target} HTTP/1.1`,
    "Host: hub",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    `Authorization: Bearer ${token}`,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  await new Promise((resolve, reject) => {
    socket.once("data", resolve);
    socket.once("error", reject);
  });
  socket.pause();
  return socket;
}
