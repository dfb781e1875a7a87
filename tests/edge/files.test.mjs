// Files in real workerd: up and down with three clients, cut off, refused in the middle, in parts, under hostile names, and what
// all of that takes of memory and rows.

import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";

import {
  attach, attachmentHeaders, attachmentUrl, curl, curlHeaders, forgetPeak, handOver, memory, MIB, randomFile, sha256, stored,
} from "./harness/files.mjs";
import { startHub } from "./harness/hub.mjs";
import { startPython } from "./harness/python.mjs";
import { pass, until } from "./harness/until.mjs";

const LARGE = 25 * MIB;
/** 25 pieces; a row and its two index entries; the same row when the file is there; totals, event, task. */
const LARGE_ROWS_MAX = 32;
const SMALL_ROWS_MAX = 6;
/** What memory may grow by while files pass through: the runtime's own buffers, and far less than a file. */
const GROWTH_MAX = 12 * MIB;
/** Clients that are slow at the same time. */
const SLOW = 100;

/** A hub with a task that an executor works on. */
async function atWork(t, vars = {}) {
  const hub = await startHub(t, vars);
  const executor = await hub.executor("bot");
  await hub.submit({ executor: "bot" });
  return { hub, executor, claim: await executor.claim() };
}

/** The python client: `put` and `get` answer, `send` and `hear` are for what happens in between. */
function pythonClient(t) {
  const { tell, heard } = startPython(t, "files.py");
  const run = (wish) => (tell(wish), heard());
  return { send: tell, hear: heard, put: (wish) => run({ do: "put", ...wish }), get: (wish) => run({ do: "get", ...wish }) };
}

const detail = (text) => JSON.parse(text);

test("25 MiB go up and down with fetch, curl and http.client, byte for byte", async (t) => {
  const { hub, claim } = await atWork(t);
  const { put, get } = pythonClient(t);
  const files = await Promise.all(["fetch", "curl", "python"].map(() => randomFile(hub, LARGE)));
  const [one, two, three] = files;
  const headers = attachmentHeaders(claim);

  const fetched = await attach(claim, "fetch.bin", one.bytes, { "x-sha256": one.sha256 });
  assert.equal(fetched.status, 201, fetched.text);
  assert.ok(Number(fetched.headers.get("x-rows-written")) <= LARGE_ROWS_MAX, fetched.headers.get("x-rows-written"));
  const curled = await curl(["-T", two.path, ...curlHeaders(headers), attachmentUrl(claim, "curl.bin")]);
  assert.deepEqual([curled.code, curled.status, curled.body.sha256], [0, 201, two.sha256], curled.errors);
  const sent = await put({ url: attachmentUrl(claim, "python.bin"), path: three.path, length: LARGE, headers });
  assert.deepEqual([sent.status, detail(sent.body).sha256], [201, three.sha256], JSON.stringify(sent));
  assert.deepEqual(await stored(hub), { stored: 3, receiving: 0, chunks: 75 });
  const small = await attach(claim, "small", Buffer.from("x"));
  assert.ok(Number(small.headers.get("x-rows-written")) <= SMALL_ROWS_MAX, small.headers.get("x-rows-written"));

  const over = await handOver(claim);
  const url = (name) => over.files.find((file) => file.name === name).url;
  const down = await fetch(url("python.bin"));
  assert.equal(down.headers.get("content-length"), String(LARGE));
  assert.ok(Buffer.from(await down.arrayBuffer()).equals(three.bytes));
  const byCurl = await curl([url("fetch.bin")]);
  assert.ok(byCurl.status === 200 && byCurl.bytes.equals(one.bytes));
  const byPython = await get({ url: url("curl.bin") });
  assert.deepEqual([byPython.status, byPython.size, byPython.sha256], [200, LARGE, two.sha256]);
});

test("memory is flat whatever passes through", async (t) => {
  const { hub, claim } = await atWork(t, { TASK_ATTACHMENTS_MAX_BYTES: 1_073_741_824 });
  const file = await randomFile(hub, LARGE);
  const upload = async (name) => {
    const answer = await curl(["-T", file.path, ...curlHeaders(attachmentHeaders(claim)), attachmentUrl(claim, name)]);
    assert.equal(answer.status, 201, answer.errors);
  };
  const peakOf = async (action) => {
    await forgetPeak(hub);
    await action();
    return (await memory(hub)).peak;
  };
  await upload("warm");
  const once = await peakOf(() => upload("0"));
  const fiveTimes = await peakOf(async () => {
    for (let n = 1; n <= 5; n += 1) await upload(`${n}`);
  });
  t.diagnostic(`peak of one upload ${(once / MIB).toFixed(1)} MiB, of five ${(fiveTimes / MIB).toFixed(1)} MiB`);
  assert.ok(fiveTimes - once < GROWTH_MAX, `five uploads took ${fiveTimes - once} bytes more than one`);

  const { files } = await handOver(claim);
  const read = async ({ url }) => assert.equal((await curl([url])).bytes.length, LARGE);
  await read(files[0]);
  const downOnce = await peakOf(() => read(files[1]));
  const downFive = await peakOf(async () => {
    for (const each of files.slice(0, 5)) await read(each);
  });
  const slow = await peakOf(async () => {
    await readSlowly(hub, files[2].url);
    for (let n = 0; n < 5; n += 1) await hangUp(hub, files[2].url);
  });
  t.diagnostic(`peak of one download ${(downOnce / MIB).toFixed(1)} MiB, of five ${(downFive / MIB).toFixed(1)} MiB, ` +
    `of a slow one ${(slow / MIB).toFixed(1)} MiB`);
  assert.ok(downFive - downOnce < GROWTH_MAX, `five downloads took ${downFive - downOnce} bytes more than one`);
  assert.ok(slow - downOnce < GROWTH_MAX, `a slow reader took ${slow - downOnce} bytes more`);
});

test("many slow clients take little memory, and keep nobody else waiting for ever", async (t) => {
  const { hub, claim } = await atWork(t);
  const file = await randomFile(hub, 4 * MIB);
  await attach(claim, "a.bin", file.bytes);
  const { claim: next, files } = await handOver(claim);
  const sockets = [];
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  const send = (lines, body = "") => {
    const socket = net.connect(hub.port, "127.0.0.1").on("error", () => {});
    socket.write(`${lines.join("\r\n")}\r\nhost: hub\r\n\r\n`);
    socket.write(body);
    sockets.push(socket.pause());
    return socket;
  };
  const before = (await memory(hub)).now;

  const { pathname, search } = new URL(files[0].url);
  for (let n = 0; n < SLOW; n += 1) send([`GET ${pathname}${search} HTTP/1.1`]);
  await pass(3_000);
  assert.equal(sha256((await curl([files[0].url])).bytes), sha256(file.bytes), "another download goes through");
  const readers = (await memory(hub)).now - before;

  // Each stops a little before its piece is whole, and is ended when it has stood still for long enough.
  const fields = Object.entries(attachmentHeaders(next, { "x-test-stall": 1_000 }));
  const headers = fields.map(([name, value]) => `${name}: ${value}`);
  const beginning = file.bytes.subarray(0, MIB - 1_000);
  for (let n = 0; n < SLOW; n += 1) {
    const address = new URL(attachmentUrl(next, `slow ${n}`));
    send([`PUT ${address.pathname}${address.search} HTTP/1.1`, ...headers, `content-length: ${2 * MIB}`], beginning);
  }
  await pass(1_000);
  const writers = (await memory(hub)).now - before - readers;
  assert.equal((await attach(next, "b.bin", file.bytes)).status, 201, "another upload has its turn");
  t.diagnostic(`${SLOW} slow readers take ${(readers / MIB).toFixed(1)} MiB, as many writers ${(writers / MIB).toFixed(1)} more`);
  assert.ok(readers < SLOW * MIB && writers < (SLOW / 2) * MIB, `${readers} and ${writers} bytes`);
});

/** Reads the beginning of a file, and is gone. */
async function hangUp(hub, url) {
  const gone = new AbortController();
  const response = await fetch(url, { signal: gone.signal });
  await response.body.getReader().read();
  gone.abort();
}

/** Reads the beginning of a file, then nothing for a while, then the rest. */
async function readSlowly(hub, url) {
  const socket = net.connect(hub.port, "127.0.0.1");
  const { pathname, search } = new URL(url);
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n`);
  const reading = socket[Symbol.asyncIterator]();
  let length = (await reading.next()).value.length;
  socket.pause();
  await pass(2_000);
  for (let part = await reading.next(); !part.done; part = await reading.next()) length += part.value.length;
  assert.ok(length > LARGE && length < LARGE + 2_000, `${length} bytes came`);
}

test("an upload that is cut half way and repeated ends in one file", async (t) => {
  const { hub, claim } = await atWork(t);
  const file = await randomFile(hub, 8 * MIB + 5);
  const { pathname, search } = new URL(attachmentUrl(claim, "cut.bin"));
  for (const chunked of [false, true]) {
    const socket = net.connect(hub.port, "127.0.0.1");
    socket.on("error", () => {});
    const headers = Object.entries({
      host: "hub",
      ...attachmentHeaders(claim),
      ...(chunked ? { "transfer-encoding": "chunked" } : { "content-length": file.bytes.length }),
    });
    socket.write(`PUT ${pathname}${search} HTTP/1.1\r\n${headers.map(([n, v]) => `${n}: ${v}\r\n`).join("")}\r\n`);
    if (chunked) socket.write(`${(file.bytes.length).toString(16)}\r\n`);
    socket.write(file.bytes.subarray(0, 4 * MIB + 99));
    await until(async () => (await stored(hub)).chunks >= 3, { what: "half of it to be there" });
    socket.destroy();
    await until(async () => (await stored(hub)).chunks === 0, { what: "the half to be gone" });
  }
  const first = await attach(claim, "cut.bin", file.bytes);
  assert.equal(first.status, 201, first.text);
  const again = await attach(claim, "cut.bin", file.bytes);
  assert.deepEqual([again.status, again.body.id, again.body.existed], [200, first.body.id, true]);
  const announced = await attach(claim, "cut.bin", file.bytes, { "x-sha256": file.sha256 });
  assert.deepEqual([announced.status, announced.body.id], [200, first.body.id]);
  assert.deepEqual(await stored(hub), { stored: 1, receiving: 0, chunks: 9 });
});

test("a hub that dies in the middle keeps no half of a file", async (t) => {
  const { hub, claim } = await atWork(t);
  const file = await randomFile(hub, 3 * MIB);
  const { send, hear } = pythonClient(t);
  const wish = { url: attachmentUrl(claim, "a.bin"), path: file.path, length: 3 * MIB, headers: attachmentHeaders(claim) };
  send({ do: "put", ...wish, pause_after: 2 * MIB + 9 });
  await hear();
  await until(async () => (await stored(hub)).chunks === 2, { what: "two pieces to be there" });
  await hub.kill();
  send({});
  assert.match((await hear()).error, /Error/);
  await hub.start();
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 1, chunks: 2 });
  assert.equal((await attach(claim, "a.bin", file.bytes)).status, 201);
  assert.deepEqual(await stored(hub), { stored: 1, receiving: 0, chunks: 3 }, "the next of its name clears it away");
});

test("what is not what X-Sha256 says is not kept", async (t) => {
  const { hub, claim } = await atWork(t);
  const file = await randomFile(hub, 2 * MIB + 1);
  for (const bytes of [file.bytes, Buffer.from("small")]) {
    const answer = await attach(claim, "a", bytes, { "x-sha256": "0".repeat(64) });
    assert.deepEqual([answer.status, answer.body.code], [422, "sha256_mismatch"]);
    assert.ok(answer.body.detail.includes(sha256(bytes)), "it says what came");
  }
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 0, chunks: 0 });
});

test("a claim that is lost in the middle is told to clients that still send", async (t) => {
  const { hub, executor, claim } = await atWork(t);
  const { put, send, hear } = pythonClient(t);
  const file = await randomFile(hub, 12 * MIB);
  const headers = attachmentHeaders(claim);
  const isHalf = () => until(async () => (await stored(hub)).chunks >= 2, { what: "the beginning to be there" });

  send({ do: "put", url: attachmentUrl(claim, "p"), path: file.path, length: file.bytes.length, headers, pause_after: 3 * MIB });
  await hear();
  await isHalf();
  await hub.mcp.tool("cancel_task", { task_id: claim.id });
  send({});
  const told = await hear();
  assert.deepEqual([told.status, detail(told.body).code], [409, "canceled"], JSON.stringify(told));
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 0, chunks: 0 });

  await hub.submit({ executor: "bot" });
  const second = await executor.claim();
  const curled = await curl(
    ["-T", "-", ...curlHeaders(attachmentHeaders(second)), attachmentUrl(second, "c")],
    async (stdin) => {
      stdin.write(file.bytes.subarray(0, 3 * MIB));
      await isHalf();
      await hub.mcp.tool("cancel_task", { task_id: second.id });
      stdin.end(file.bytes.subarray(3 * MIB));
    },
  );
  assert.deepEqual([curled.code, curled.status, curled.body.code], [0, 409, "canceled"], curled.errors);
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 0, chunks: 0 });

  // From the start: all of it is sent before the answer is looked at.
  const late = await put({ url: attachmentUrl(second, "p"), path: file.path, length: file.bytes.length, headers });
  assert.deepEqual([late.status, detail(late.body).code], [409, "canceled"], JSON.stringify(late));
});

test("a file that is too large is refused readably, whether it says so or not", async (t) => {
  const { hub, claim } = await atWork(t, { ATTACHMENT_MAX_BYTES: 3 * MIB });
  const { put } = pythonClient(t);
  const file = await randomFile(hub, 10 * MIB);
  const [url, headers] = [attachmentUrl(claim, "a"), attachmentHeaders(claim)];
  const before = (await hub.test("GET", "requests")).count;
  const announced = await put({ url, path: file.path, length: file.bytes.length, headers });
  const byCurl = await curl(["-T", file.path, ...curlHeaders(headers), url]);
  const byFetch = await attach(claim, "a", file.bytes);
  assert.equal((await hub.test("GET", "requests")).count, before, "none of these reached the object");
  const counted = await put({ url, path: file.path, chunked: true, headers });
  const piped = await curl(["-T", "-", ...curlHeaders(headers), url], (stdin) => stdin.end(file.bytes));
  for (const { status, body } of [announced, counted].map(({ status, body }) => ({ status, body: detail(body) }))) {
    assert.deepEqual([status, body.code], [413, "file_too_large"]);
    assert.match(body.detail, /3145728 bytes/);
  }
  for (const answer of [byCurl, piped, byFetch]) {
    assert.deepEqual([answer.status, answer.body.code], [413, "file_too_large"], answer.errors);
  }
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 0, chunks: 0 });
  assert.equal((await attach(claim, "most", file.bytes.subarray(0, 3 * MIB))).status, 201);
});

test("what the front refuses is readable by who sends all first, and reaches nobody", async (t) => {
  const { hub, claim } = await atWork(t);
  const { put } = pythonClient(t);
  const file = await randomFile(hub, 10 * MIB);
  const before = (await hub.test("GET", "requests")).count;
  const wrong = { authorization: "Bearer exk_bot.AAAA.AAAA", "x-claim-token": claim.token };
  const refused = await put({ url: attachmentUrl(claim, "a"), path: file.path, length: file.bytes.length, headers: wrong });
  assert.deepEqual([refused.status, detail(refused.body).code], [401, "unauthorized"], JSON.stringify(refused));
  const id = `f_${"0".repeat(9)}_${"0".repeat(16)}`;
  const forged = `${hub.url}/files/${id}?exp=9999999999&sig=${"A".repeat(22)}`;
  const put2 = await put({ url: forged, path: file.path, length: file.bytes.length });
  assert.deepEqual([put2.status, detail(put2.body).code], [403, "link_invalid"], JSON.stringify(put2));
  for (const method of ["GET", "HEAD", "PUT"]) {
    const answer = await hub.request(method, new URL(forged).pathname + new URL(forged).search);
    assert.equal(answer.status, 403, method);
  }
  assert.equal((await hub.test("GET", "requests")).count, before);
});

test("a body that stands still is ended", async (t) => {
  const { hub, claim } = await atWork(t);
  const file = await randomFile(hub, 3 * MIB);
  const { pathname, search } = new URL(attachmentUrl(claim, "a"));
  const socket = net.connect(hub.port, "127.0.0.1");
  const headers = { host: "hub", ...attachmentHeaders(claim), "content-length": file.bytes.length, "x-test-stall": 500 };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.write(`PUT ${pathname}${search} HTTP/1.1\r\n${lines}\r\n`);
  socket.write(file.bytes.subarray(0, 2 * MIB + 5));
  let text = "";
  for await (const part of socket) {
    text += part;
    if (text.includes("upload_stalled")) break;
  }
  assert.match(text, /^HTTP\/1.1 408 /);
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 0, chunks: 0 });
});

test("ranges and conditions, over the borders of pieces", async (t) => {
  const { hub, claim } = await atWork(t);
  const file = await randomFile(hub, 3 * MIB + 7);
  await attach(claim, "a.bin", file.bytes);
  const { url } = (await handOver(claim)).files[0];
  const get = async (headers, method = "GET") => {
    const response = await fetch(url, { method, headers });
    return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
  };
  const size = file.bytes.length;
  for (const [range, from, to] of [
    ["bytes=0-0", 0, 1],
    ["bytes=0-1048575", 0, MIB],
    ["bytes=1048570-1048589", MIB - 6, MIB + 14],
    ["bytes=1048576-", MIB, size],
    ["bytes=5-3145728", 5, 3 * MIB + 1],
    ["bytes=-5", size - 5, size],
    ["bytes=-2000000", size - 2_000_000, size],
    ["bytes=3145728-99999999", 3 * MIB, size],
  ]) {
    const { status, headers, bytes } = await get({ range });
    assert.equal(status, 206, range);
    assert.ok(bytes.equals(file.bytes.subarray(from, to)), range);
    assert.equal(headers.get("content-range"), `bytes ${from}-${to - 1}/${size}`);
    assert.equal(headers.get("content-length"), String(to - from));
  }
  for (const range of [`bytes=${size}-`, "bytes=-0"]) {
    const { status, headers } = await get({ range });
    assert.deepEqual([status, headers.get("content-range")], [416, `bytes */${size}`], range);
  }
  for (const range of ["bytes=0-1,5-9", "bytes=9-1", "pages=1-2", "bytes=x"]) {
    const { status, bytes } = await get({ range });
    assert.ok(status === 200 && bytes.equals(file.bytes), range);
  }
  const etag = `"${file.sha256}"`;
  const known = await get({ "if-none-match": etag });
  assert.deepEqual([known.status, known.bytes.length, known.headers.get("etag")], [304, 0, etag]);
  assert.equal((await get({ "if-none-match": '"x"' })).status, 200);
  assert.equal((await get({ "if-match": '"x"' })).status, 412);
  assert.equal((await get({ range: "bytes=0-1", "if-range": etag })).status, 206);
  assert.equal((await get({ range: "bytes=0-1", "if-range": '"x"' })).status, 200);
  const head = await get({}, "HEAD");
  assert.deepEqual([head.status, head.headers.get("content-length"), head.bytes.length], [200, String(size), 0]);
  const resumed = await curl(["-C", "2000000", url]);
  assert.ok(resumed.status === 206 && resumed.bytes.equals(file.bytes.subarray(2_000_000)), "curl goes on where it stopped");
});

const HOSTILE = [
  "../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", "C:\\Windows\\win.ini", "....//....//x", "a/../b", "%2e%2e%2f%2e%2e%2fx",
  "..%2f..%2fx", "%00.txt", "x%0d%0aSet-Cookie:%20a=b", "a\r\nSet-Cookie: a=b", "a\nX-Evil: 1", "a\rb", "a\0b.txt", "\u0001\u001f\u007f\u0085x",
  'a"b', 'a\\"b', '"; filename="evil.exe', "a'; filename*=UTF-8''evil.exe", "a;b=c", "a,b", "a%22b", "`id`", "$(id)", "a|b&c", "-rf", "~root",
  "\u202egnp.exe", "\u2066a\u2069b", "\u200b\u200c\u200d\ufeffx", "a\u00adb", "😀👩‍👩‍👧.png", "日本語.txt", "Ünïcödé ß.md", "e\u0301.txt", "\ufffd",
  "x".repeat(500), `${"ж".repeat(300)}.tar.gz`, `a.${"b".repeat(300)}`, "CON", "nul.txt", "COM1.log", "lpt¹", ".htaccess", "...x...", "  x  ",
  "a\u00a0b\u3000c", "<script>alert(1)</script>.html", "a?b#c&d=e+f", "a:b*c|d<e>f",
];

test("fifty hostile names are safe, and their bytes are what they were", async (t) => {
  const { hub, claim } = await atWork(t);
  assert.equal(HOSTILE.length, 50);
  const names = new Map();
  for (const [number, name] of HOSTILE.entries()) {
    const bytes = Buffer.from(`bytes of ${number}`);
    const answer = await attach(claim, name, bytes);
    assert.equal(answer.status, 201, `${JSON.stringify(name)}: ${answer.text}`);
    names.set(answer.body.id, { name: answer.body.name, bytes, given: name });
  }
  for (const nothing of ["", ".", "..", "/", "...", "\u202e", " ", "a/.."]) {
    const answer = await attach(claim, nothing, Buffer.from("x"));
    assert.deepEqual([answer.status, answer.body.code], [400, "bad_request"], JSON.stringify(nothing));
  }
  const { files } = await handOver(claim);
  assert.equal(files.length, 50);
  const usual = new Set(Object.keys(Object.fromEntries((await fetch(files[0].url)).headers)));
  for (const { id, url, name } of files) {
    const right = names.get(id);
    assert.equal(name, right.name);
    assert.doesNotMatch(name, /[\p{Cc}\p{Cf}\u2028\u2029<>:"|?*\\/]|^[. ]|[. ]$/u, JSON.stringify(name));
    assert.ok(Buffer.byteLength(name) <= 200 && !/^(con|nul|com1|lpt¹)(\.|$)/i.test(name), name);
    const response = await fetch(url);
    assert.ok(Buffer.from(await response.arrayBuffer()).equals(right.bytes), name);
    assert.deepEqual(new Set(Object.keys(Object.fromEntries(response.headers))), usual, "no header more, no header less");
    const disposition = response.headers.get("content-disposition");
    const parts = /^attachment; filename="([ !#-[\]-~]+)"(?:; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]+))?$/.exec(disposition);
    assert.ok(parts, disposition);
    assert.equal(parts[2] === undefined ? parts[1] : decodeURIComponent(parts[2]), name, disposition);
    assert.equal(decodeURIComponent(new URL(url).pathname.split("/")[3]), name);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    assert.match(response.headers.get("content-security-policy"), /^sandbox;/);
  }
});

test("a link is good for its file and its time, and others do not reach the object", async (t) => {
  const { hub, claim } = await atWork(t);
  await attach(claim, "a", Buffer.from("a"));
  await attach(claim, "b", Buffer.from("b"));
  const { files } = await handOver(claim);
  const [a, b] = files.map(({ url }) => new URL(url));
  const before = (await hub.test("GET", "requests")).count;
  const status = async (path, headers = {}) => (await hub.request("GET", path, { headers })).status;
  assert.equal(await status(a.pathname + b.search), 403, "the other file's link");
  assert.equal(await status(a.pathname), 403, "none");
  assert.equal(await status(a.pathname + a.search.replace(/exp=\d+/, "exp=9999999999")), 403, "made longer");
  assert.equal(await status(a.pathname + a.search, { "x-test-now": String(Date.now() + 901_000) }), 410, "over");
  const put = await hub.request("PUT", a.pathname.split("/").slice(0, 3).join("/") + a.search, { body: "x" });
  assert.equal(put.status, 403, "a link to read is none to write");
  assert.equal((await hub.test("GET", "requests")).count, before);
  assert.equal(await status(a.pathname + a.search), 200);
});

test("a file goes by a link to a task, to its executor, to a retry, and with them", async (t) => {
  const { hub, executor, claim } = await atWork(t);
  await claim.complete();
  const { put, get } = pythonClient(t);
  const file = await randomFile(hub, 2 * MIB + 3);
  const link = await hub.mcp.tool("create_upload_link", { name: "../in put.bin" });
  const byPython = await put({ url: link.upload_url, path: file.path, length: file.bytes.length });
  assert.deepEqual([byPython.status, detail(byPython.body).sha256], [201, file.sha256], JSON.stringify(byPython));
  const again = await curl(["-T", file.path, link.upload_url]);
  assert.deepEqual([again.status, again.body.existed], [200, true], again.errors);
  const other = await curl(["-T", "-", link.upload_url], (stdin) => stdin.end("other"));
  assert.deepEqual([other.status, other.body.code], [409, "link_used"], other.errors);

  const text = "Zeile 1\nZeile 2 – ä\n";
  const inputs = [{ file_id: link.file_id }, { name: "notes.txt", text }];
  const id = await hub.submit({ executor: "bot", input_files: inputs });
  const given = (await executor.claim()).answer.context.input_files;
  assert.deepEqual(given.map(({ name }) => name).toSorted(), ["in put.bin", "notes.txt"]);
  const found = await get({ url: given.find(({ name }) => name === "in put.bin").url });
  assert.deepEqual([found.status, found.sha256], [200, file.sha256]);
  const notes = given.find(({ name }) => name === "notes.txt");
  assert.equal((await hub.mcp.tool("get_attachment", { file_id: notes.id })).text, text, "bytes cross into the tools");

  await hub.mcp.tool("cancel_task", { task_id: id });
  await hub.mcp.tool("retry_task", { task_id: id });
  assert.deepEqual(await stored(hub), { stored: 4, receiving: 0, chunks: 4 }, "the retry shares what it is given");
  const retry = await executor.claim();
  const shared = retry.answer.context.input_files.find(({ name }) => name === "in put.bin");
  assert.ok(Buffer.from(await (await fetch(shared.url)).arrayBuffer()).equals(file.bytes));
  await retry.complete();
  await hub.test("POST", "tick", { now: Date.now() + 31 * 86_400_000 });
  assert.deepEqual(await stored(hub), { stored: 0, receiving: 0, chunks: 0 });
});
