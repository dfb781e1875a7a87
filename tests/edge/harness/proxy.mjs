// A proxy on loopback that adds the owner's token to every request, for a client that cannot send one itself.

import { once } from "node:events";
import http from "node:http";

export async function startProxy(context, hub) {
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, ...hub.ownerHeaders };
    const options = { host: "127.0.0.1", port: hub.port, method: request.method, path: request.url, headers };
    const upstream = http.request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    upstream.on("error", () => response.destroy());
    request.pipe(upstream);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${server.address().port}`;
}
