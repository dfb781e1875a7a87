// A receiver of wakes on loopback, which remembers what came and answers as it is told.

import { once } from "node:events";
import { createServer } from "node:http";

import { until } from "./until.mjs";

/** Starts a receiver for the time of a test. `behave(response, request)` answers each request; the default is 204. */
export async function startReceiver(context, behave = (response) => response.writeHead(204).end()) {
  const received = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    received.push({ at: Date.now(), method: request.method, path: request.url, headers: request.headers, body });
    receiver.behave(response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const receiver = {
    received,
    behave,
    url: `http://127.0.0.1:${server.address().port}/wake`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
    /** What came, once there are this many. */
    untilReceived(count, ms = 20_000) {
      return until(() => received.length >= count && received, { what: `${count} wakes`, ms });
    },
  };
  context.after(() => receiver.close());
  return receiver;
}

/** Leaves every request without an answer. */
export function neverAnswer() {}

/** Answers with this status and these headers. */
export function answerWith(status, headers = {}) {
  return (response) => response.writeHead(status, headers).end();
}
