// A wire between an executor and its hub that can be cut.

import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * A TCP proxy to the hub for the time of a test, with its `url`. `cut("refuse")` ends every connection, and each new one at
 * once; `cut("swallow")` lets nothing through and says nothing, as a firewall does; `mend()` makes it whole.
 */
export async function startWire(context, hub) {
  const ends = new Set();
  let how = null;
  const server = createServer((near) => {
    if (how === "refuse") return near.destroy();
    const far = connect(hub.port, "127.0.0.1");
    for (const [from, to] of [[near, far], [far, near]]) {
      ends.add(from);
      from.on("data", (data) => how === null && to.write(data));
      from.on("error", () => {});
      from.on("close", () => {
        ends.delete(from);
        if (how !== "swallow") to.destroy();
      });
    }
  });
  const drop = () => ends.forEach((end) => end.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    how = "refuse";
    drop();
    return new Promise((resolve) => server.close(resolve));
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut(way) {
      how = way;
      if (way === "refuse") drop();
    },
    mend() {
      drop();
      how = null;
    },
  };
}
