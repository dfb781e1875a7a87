// An OAuth client in plain HTTP, and what a client needs around it: an address to come back to, an https site for its
// document. What the official clients make of the hub has tests of its own.

import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import { promisify } from "node:util";

import { until } from "./until.mjs";
import { interpreter } from "./python.mjs";

export const PASSPHRASE = "nine green bottles on a wall";

const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** What the official clients say of themselves when they register. */
export function metadata(name, redirectUri) {
  return {
    client_name: name,
    redirect_uris: [redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
}

/** A public client of the hub, registered or known by a document, with the state of one sign-in. */
export class OAuthClient {
  constructor(hub, id, redirectUri) {
    this.hub = hub;
    this.id = id;
    this.redirectUri = redirectUri;
  }

  /** Registers a client. */
  static async register(hub, { name = "Edge tests", redirectUri = "https://client.example/callback" } = {}) {
    const answer = await hub.request("POST", "/register", { body: metadata(name, redirectUri) });
    if (answer.status !== 201) throw new Error(`not registered: ${answer.status} ${answer.text}`);
    return new OAuthClient(hub, answer.body.client_id, redirectUri);
  }

  /** The address at which the owner is asked, with a new verifier and state. */
  authorizeUrl(more = {}) {
    this.verifier = randomBytes(32).toString("base64url");
    this.state = randomBytes(9).toString("base64url");
    const parameters = {
      response_type: "code",
      client_id: this.id,
      redirect_uri: this.redirectUri,
      state: this.state,
      code_challenge: createHash("sha256").update(this.verifier).digest("base64url"),
      code_challenge_method: "S256",
      resource: `${this.hub.url}/mcp`,
      ...more,
    };
    return `${this.hub.url}/authorize?${new URLSearchParams(parameters)}`;
  }

  /** The owner consents. Returns where the browser is sent. */
  consent(more = {}, options = {}) {
    return consentAt(this.hub, this.authorizeUrl(more), options);
  }

  /** One request to the token endpoint, with its answer whatever it is. */
  token(parameters, headers = {}) {
    const form = new URLSearchParams({ client_id: this.id, ...parameters });
    return this.hub.request("POST", "/token", { headers: { ...FORM, ...headers }, body: `${form}` });
  }

  exchange(code, headers) {
    const parameters = { code, redirect_uri: this.redirectUri, code_verifier: this.verifier };
    return this.token({ grant_type: "authorization_code", ...parameters }, headers);
  }

  refresh(refreshToken, headers) {
    return this.token({ grant_type: "refresh_token", refresh_token: refreshToken }, headers);
  }

  /** The whole way from consent to tokens. */
  async signIn(more, options) {
    const answer = await this.consent(more, options);
    const tokens = await this.exchange(answer.searchParams.get("code"));
    if (tokens.status !== 200) throw new Error(`no tokens: ${tokens.status} ${tokens.text}`);
    return tokens.body;
  }

  /** A call with an access token; its status says whether the token is good. */
  call(accessToken, headers = {}) {
    return this.hub.mcp.call("hub_status", {}, { authorization: `Bearer ${accessToken}`, ...headers });
  }
}

/** What the owner's browser does at a client's request, without one: it opens the page and sends its form. */
export async function consentAt(hub, address, options = {}) {
  const { passphrase = hub.vars.OWNER_TOKEN, scopes = ["tasks:read", "tasks:write"], headers = {} } = options;
  const url = address.slice(hub.url.length);
  const page = await hub.request("GET", url, { headers });
  const token = /name="form_token" value="([^"]+)"/.exec(page.text)?.[1];
  if (!token) throw new Error(`no consent page: ${page.status} ${page.text}`);
  const form = new URLSearchParams({ form_token: token, decision: "approve", passphrase });
  for (const scope of scopes) form.append("scope", scope);
  const cookie = page.headers.get("set-cookie").split(";")[0];
  const sent = await hub.request("POST", url, { headers: { ...FORM, cookie, ...headers }, body: `${form}` });
  if (sent.status !== 303) throw new Error(`not approved: ${sent.status} ${sent.text}`);
  return new URL(sent.headers.get("location"));
}

/** Starts the address on loopback at which a client waits for its code. */
export async function startCallback(context) {
  const visits = [];
  const server = http.createServer((request, response) => {
    const url = new URL(request.url, "http://127.0.0.1");
    // A browser also looks for an icon.
    if (url.pathname !== "/callback") return response.writeHead(404).end();
    visits.push({ method: request.method, url, headers: request.headers });
    response.writeHead(200, { "content-type": "text/html" }).end("<title>Signed in</title>You may close this page.");
  });
  const port = await listen(context, server);
  return {
    port,
    visits,
    /** The address, under either name of this machine. */
    url: (host = "127.0.0.1") => `http://${host}:${port}/callback`,
    /** The parameters of the newest visit, once there are this many. */
    async untilVisited(count = 1) {
      await until(() => visits.length >= count, { what: "the browser to come back to the client" });
      return visits[count - 1].url.searchParams;
    },
  };
}

/** A certificate for this machine's loopback names and its key, as PEM. */
export async function certificate() {
  const script = `
import datetime, ipaddress
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as s
from cryptography.hazmat.primitives.asymmetric import ec
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
now = datetime.datetime.now(datetime.timezone.utc)
names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
built = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    .not_valid_after(now + datetime.timedelta(days=1))
    .add_extension(x509.SubjectAlternativeName(names), False)
    .add_extension(x509.BasicConstraints(ca=True, path_length=0), True).sign(key, hashes.SHA256()))
print(built.public_bytes(s.Encoding.PEM).decode())
print(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()).decode())
`;
  const { stdout } = await promisify(execFile)(interpreter(), ["-c", script]);
  const [cert, key] = stdout.split(/(?=-----BEGIN PRIVATE KEY-----)/);
  return { cert, key };
}

/**
 * Starts an https site on loopback. `serve(request, response)` answers; by default the site describes a client at every
 * path, by a document whose id is its own address and whose redirect addresses are `redirectUris`.
 */
export async function startSite(context, { cert, key }, { name = "Edge documents", redirectUris } = {}) {
  const requests = [];
  const server = https.createServer({ cert, key }, (request, response) => {
    requests.push({ path: request.url, headers: request.headers });
    site.serve(request, response);
  });
  const port = await listen(context, server);
  const site = {
    requests,
    url: (pathname) => `https://localhost:${port}${pathname}`,
    document: (pathname) => ({ ...metadata(name), redirect_uris: redirectUris, client_id: site.url(pathname) }),
    serve: (request, response) => sendJson(response, site.document(request.url)),
  };
  return site;
}

/** Answers with JSON. */
export function sendJson(response, value, headers = {}) {
  response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
}

async function listen(context, server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return server.address().port;
}
