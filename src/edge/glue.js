// What every request needs of the runtime, each in one call: one crossing between Rust and JavaScript where the bindings
// would make dozens. It decides nothing, and holds no state but the bodies that pass through it.

/** Method, address, then name and value of every header: one a line. None of them can contain a line break. */
export function head(request) {
  let text = `${request.method}\n${request.url}`;
  request.headers.forEach((value, name) => {
    text += `\n${name}\n${value}`;
  });
  return text;
}

/** The one object, by a fresh stub: one that has seen the object fail stays broken. */
function object(env) {
  return env.HUB.getByName("hub");
}

/** Sends a request of the hub's own to the object. */
export function knock(env, url) {
  return object(env).fetch(url);
}

/** The same request once more, for the object. */
export function ask(env, request, body) {
  return object(env).fetch(request.url, {
    method: request.method,
    headers: request.headers,
    redirect: "manual",
    body: body.byteLength > 0 && request.method !== "GET" && request.method !== "HEAD" ? body : undefined,
  });
}

/**
 * Reads a request and asks the object once, for `limit` milliseconds at most: a client that sends slowly uses up none of them.
 * When that gives no response, `trouble` answers: it is told what kind of trouble it is, the runtime's words for it, the body
 * as far as that is known, and when the time is over. `look`, if it is given, sees the body before the object does, and may
 * answer in its place.
 */
export async function forward(env, request, hasLength, bytesMax, limit, trouble, look) {
  const inTrouble = (kind, words) => trouble(env, request, body, deadline, kind, words);
  let [body, deadline] = [null, 0];
  try {
    body = hasLength ? await request.arrayBuffer() : await inParts(request.body, bytesMax);
  } catch (error) {
    return inTrouble("broken", `${error}`);
  }
  if (body === null || body.byteLength > bytesMax) return inTrouble("too large", "");
  const answer = look?.(env, request, new Uint8Array(body));
  if (answer) return answer;
  deadline = Date.now() + limit;
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, limit);
  });
  try {
    const response = await Promise.race([ask(env, request, body), late]);
    return response ?? inTrouble("late", "");
  } catch (error) {
    return inTrouble("failed", `${error}`);
  } finally {
    clearTimeout(timer);
  }
}

/** Hands an upload on to the object, unread, for `limit` milliseconds at most. What goes wrong is for `trouble` to answer. */
export async function pass(env, request, limit, trouble) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, limit);
  });
  try {
    const response = await Promise.race([object(env).fetch(request), late]);
    return response ?? trouble(env, request, null, 0, "late", "");
  } catch (error) {
    return trouble(env, request, null, 0, "failed", `${error}`);
  } finally {
    clearTimeout(timer);
  }
}

/** A body without a length is read in parts, so that reading stops as soon as it is too large: null. */
async function inParts(stream, bytesMax) {
  const parts = [];
  let length = 0;
  for await (const part of stream ?? []) {
    length += part.byteLength;
    if (length > bytesMax) return null;
    parts.push(part);
  }
  return new Blob(parts).arrayBuffer();
}

/**
 * Lets `answer` answer a request that reached the object, given its head and its body, or null if that broke off. The body of a
 * PUT is left unread, which the last argument says.
 */
export async function serve(request, answer) {
  if (request.method === "PUT") return answer(request, head(request), undefined, true);
  let body;
  try {
    body = new Uint8Array(await request.arrayBuffer());
  } catch {
    body = undefined;
  }
  return answer(request, head(request), body, false);
}

function headersOf(lines) {
  const headers = [];
  const parts = lines.split("\n");
  for (let index = 0; index + 1 < parts.length; index += 2) headers.push([parts[index], parts[index + 1]]);
  return headers;
}

/** A response; `lines` has name and value of each header, one a line, and `body` lies in memory that Rust takes back. */
export function respond(status, lines, body) {
  return new Response(body.length > 0 ? body.slice() : null, { status, headers: headersOf(lines) });
}

/**
 * The same for a request whose body is not read to its end. Some clients look at nothing before they have sent all, and are cut
 * off in it where nobody reads that. So the response goes out at once and ends only when no more comes, or too much.
 */
export function respondUnread(status, lines, body, reader, bytesMax, ms) {
  const { readable, writable } = new FixedLengthStream(body.length);
  const writer = writable.getWriter();
  const bytes = body.slice();
  const send = async () => {
    await writer.write(bytes);
    await readOn(reader, bytesMax, Date.now() + ms);
    await writer.close();
  };
  send().catch(() => {});
  return new Response(readable, { status, headers: headersOf(lines) });
}

/** The same in the front, for a request of which nothing is read. */
export function refuseUnread(request, status, lines, body, bytesMax, ms) {
  if (request.body === null || request.method === "HEAD") return respond(status, lines, body);
  return respondUnread(status, lines, body, request.body.getReader({ mode: "byob" }), bytesMax, ms);
}

async function readOn(reader, bytesMax, deadline) {
  let [buffer, left] = [new ArrayBuffer(65_536), bytesMax];
  while (left > 0 && Date.now() < deadline) {
    const part = await inTime(reader.read(new Uint8Array(buffer)), deadline - Date.now());
    if (part === null || part.done) return;
    left -= part.value.byteLength;
    buffer = part.value.buffer;
  }
}

/** What a promise gives, or null if that takes longer. */
async function inTime(promise, ms) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms, null);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The body of an upload in pieces. They come one after the other in the same memory. */
export class Intake {
  constructor(request, pieceBytes, stallMs) {
    this.reader = request.body?.getReader({ mode: "byob" });
    this.buffer = new ArrayBuffer(pieceBytes);
    this.stallMs = stallMs;
    this.isOver = this.reader === undefined;
  }

  /** The next bytes, fewer than a piece has only at the end; "stalled" or "broken" if they do not come. */
  async next() {
    const pieceBytes = this.buffer.byteLength;
    let filled = 0;
    while (!this.isOver && filled < pieceBytes) {
      let part;
      try {
        part = await inTime(this.reader.read(new Uint8Array(this.buffer, filled)), this.stallMs);
      } catch {
        this.isOver = true;
        return "broken";
      }
      if (part === null) {
        this.isOver = true;
        return "stalled";
      }
      this.isOver = part.done;
      if (part.value !== undefined) {
        filled += part.value.byteLength;
        this.buffer = part.value.buffer;
      }
    }
    return new Uint8Array(this.buffer, 0, filled);
  }

  /** The response to it. */
  answer(status, lines, body, bytesMax, ms) {
    if (this.isOver) return respond(status, lines, body);
    return respondUnread(status, lines, body, this.reader, bytesMax, ms);
  }
}

/**
 * A response whose body is a part of a file. A piece is read when the client has taken the one before, and goes from the database
 * to the client without a copy. Its memory is given back at once: left to the garbage collector, it would be hundreds of megabytes.
 * A file that is deleted meanwhile ends in an error, never in less than was announced.
 */
export function sendOut(status, lines, sql, statement, contentId, from, bytes, pieceBytes) {
  const { readable, writable } = new FixedLengthStream(bytes);
  const writer = writable.getWriter();
  const send = async () => {
    let [at, end] = [from, from + bytes];
    while (at < end) {
      const number = Math.floor(at / pieceBytes);
      const [row] = [...sql.exec(statement, contentId, number).raw()];
      if (row === undefined) throw new Error("the file is gone");
      const start = at - number * pieceBytes;
      const piece = new Uint8Array(row[0]).subarray(start, start + end - at);
      at += piece.length;
      await writer.write(piece);
      row[0].transfer(0);
    }
    await writer.close();
  };
  send().catch((error) => writer.abort(error).catch(() => {}));
  return new Response(readable, { status, headers: headersOf(lines) });
}

/**
 * Runs a statement and returns `[rows read, rows written, rows]`. Parameters and answer are JSON, in which bytes that come back
 * are `{base64}`: they are few. Files go out by `sendOut`.
 */
export function execute(sql, statement, parameters) {
  return run(sql, statement, JSON.parse(parameters));
}

/** The same, where `[start, end]` among the parameters stands for a part of `bytes`. SQLite reads them where they lie. */
export function executeWithBytes(sql, statement, parameters, bytes) {
  const bound = JSON.parse(parameters);
  for (let index = 0; index < bound.length; index += 1) {
    if (Array.isArray(bound[index])) bound[index] = bytes.subarray(...bound[index]);
  }
  return run(sql, statement, bound);
}

function run(sql, statement, bound) {
  const cursor = sql.exec(statement, ...bound);
  const rows = [...cursor.raw()];
  for (const row of rows) {
    for (let index = 0; index < row.length; index += 1) {
      if (row[index] instanceof ArrayBuffer) row[index] = { base64: new Uint8Array(row[index]).toBase64() };
    }
  }
  return JSON.stringify([cursor.rowsRead, cursor.rowsWritten, rows]);
}
