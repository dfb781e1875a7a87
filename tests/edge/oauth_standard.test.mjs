// The authorization server before judges that know nothing of taskhub: oauth4webapi, which refuses whatever the RFCs do
// not permit, and the authorization scenarios of the conformance suite.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, test } from "node:test";
import * as oauth from "oauth4webapi";

import { leash, root, startHub } from "./harness/hub.mjs";
import { consentAt, OAuthClient } from "./harness/oauth.mjs";

const REDIRECT = "https://client.example/callback?tenant=7";
const INSECURE = { [oauth.allowInsecureRequests]: true };
const METHODS = [
  ["none", () => oauth.None()],
  ["client_secret_post", oauth.ClientSecretPost],
  ["client_secret_basic", oauth.ClientSecretBasic],
];

describe("oauth4webapi", { concurrency: 2 }, () => {
  for (const [method, authentication] of METHODS) {
    test(`metadata, registration, code, refresh and revocation with ${method}`, async (t) => {
      const hub = await startHub(t);
      const resource = new URL(`${hub.url}/mcp`);
      const found = await oauth.processResourceDiscoveryResponse(
        resource,
        await oauth.resourceDiscoveryRequest(resource, INSECURE),
      );
      const issuer = new URL(found.authorization_servers[0]);
      const server = await oauth.processDiscoveryResponse(
        issuer,
        await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...INSECURE }),
      );
      const client = await oauth.processDynamicClientRegistrationResponse(
        await oauth.dynamicClientRegistrationRequest(
          server,
          { client_name: "oauth4webapi", redirect_uris: [REDIRECT], token_endpoint_auth_method: method },
          INSECURE,
        ),
      );
      assert.equal(client.token_endpoint_auth_method, method);
      const authenticate = authentication(client.client_secret);

      const verifier = oauth.generateRandomCodeVerifier();
      const state = oauth.generateRandomState();
      const address = new URL(server.authorization_endpoint);
      address.search = new URLSearchParams({
        client_id: client.client_id,
        redirect_uri: REDIRECT,
        response_type: "code",
        scope: "tasks:read tasks:write offline_access",
        state,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
        resource: resource.href,
      });
      const back = await consentAt(hub, address.href);
      assert.equal(back.searchParams.get("tenant"), "7", "the client's own parameters stay");
      const answer = oauth.validateAuthResponse(server, client, back, state);
      const tokens = await oauth.processAuthorizationCodeResponse(
        server,
        client,
        await oauth.authorizationCodeGrantRequest(server, client, authenticate, answer, REDIRECT, verifier, {
          additionalParameters: { resource: resource.href },
          ...INSECURE,
        }),
      );
      assert.deepEqual([tokens.token_type, tokens.scope], ["bearer", "tasks:read tasks:write"]);

      const call = (token) => {
        const headers = new Headers({
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        });
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
        return oauth.protectedResourceRequest(token, "POST", resource, headers, body, INSECURE);
      };
      assert.equal((await call(tokens.access_token)).status, 200);

      const refreshed = await oauth.processRefreshTokenResponse(
        server,
        client,
        await oauth.refreshTokenGrantRequest(server, client, authenticate, tokens.refresh_token, INSECURE),
      );
      assert.notEqual(refreshed.refresh_token, tokens.refresh_token);
      assert.equal((await call(refreshed.access_token)).status, 200);

      await oauth.processRevocationResponse(
        await oauth.revocationRequest(server, client, authenticate, refreshed.refresh_token, INSECURE),
      );
      await assert.rejects(call(refreshed.access_token), oauth.WWWAuthenticateChallengeError);
      const over = await oauth.refreshTokenGrantRequest(
        server,
        client,
        authenticate,
        refreshed.refresh_token,
        INSECURE,
      );
      await assert.rejects(oauth.processRefreshTokenResponse(server, client, over), { error: "invalid_grant" });
    });
  }
});

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("the conformance suite's authorization scenarios pass, its user being this test", async (t) => {
  const hub = await startHub(t);
  const port = await freePort();
  const { id } = await OAuthClient.register(hub, { redirectUri: "http://127.0.0.1/callback" });
  const results = await mkdtemp(path.join(tmpdir(), "taskhub-conformance-"));
  t.after(() => rm(results, { recursive: true, force: true }));
  const main = path.join(root, "node_modules", "conformance-0.2", "dist", "index.js");
  const args = ["authorization", "--url", hub.url, "--client-id", id, "--resource", `${hub.url}/mcp`];
  const suite = spawn(process.execPath, [main, ...args, "--port", String(port), "-o", results]);
  leash(suite);
  t.after(() => suite.kill("SIGKILL"));
  let output = "";
  let asked = false;
  const collect = (data) => {
    output += data;
    const [address] = new RegExp(`${hub.url}/authorize\\S+(?=\\s)`).exec(output) ?? [];
    if (asked || !address) return;
    asked = true;
    consentAt(hub, address)
      .then(fetch)
      .catch((error) => (output += error.stack));
  };
  suite.stdout.on("data", collect);
  suite.stderr.on("data", collect);
  const [code] = await once(suite, "exit");
  assert.equal(code, 0, output);
  for (const scenario of ["authorization-server-metadata-endpoint", "authorization-code-grant"]) {
    assert.match(output, new RegExp(`${scenario}: [1-9]\\d* passed, 0 failed`), output);
  }
});
