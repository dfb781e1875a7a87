// A submitter's side of the hub, in plain JSON-RPC. What the official clients make of it has a test of its own.

const PROTOCOL = "2025-11-25";

export class McpCaller {
  constructor(hub) {
    this.hub = hub;
    this.lastId = 0;
  }

  /** One JSON-RPC request, with the HTTP answer whatever it is. */
  rpc(method, params, headers = {}) {
    this.lastId += 1;
    return this.hub.request("POST", "/mcp", {
      headers: {
        ...this.hub.ownerHeaders,
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": PROTOCOL,
        ...headers,
      },
      body: { jsonrpc: "2.0", id: this.lastId, method, params },
    });
  }

  /** The HTTP answer to a tool call. */
  call(name, args = {}, headers = {}) {
    return this.rpc("tools/call", { name, arguments: args }, headers);
  }

  /** The structured content of a tool call that must succeed. */
  async tool(name, args = {}, headers = {}) {
    const answer = await this.call(name, args, headers);
    const result = answer.body?.result;
    if (answer.status !== 200 || !result || result.isError) {
      throw new Error(`${name} answered ${answer.status}: ${answer.text}`);
    }
    return result.structuredContent;
  }
}
