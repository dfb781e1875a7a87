// What every request needs of the runtime, each in one call: one crossing between Rust and JavaScript where the bindings
// would make dozens. It decides nothing, and holds no state but the bodies that pass through it and how
// many pieces of them are in memory.

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

/** Memory for so many pieces, whoever they belong to: who comes when all of it is used waits in a queue, and holds nothing. */
class Room {
  constructor() {
    this.used = 0;
    this.queue = [];
  }

  async enter(piecesMax) {
    if (this.used >= piecesMax) await new Promise((resolve) => this.queue.push(resolve));
    else this.used += 1;
  }

  leave() {
    const next = this.queue.shift();
    if (next === undefined) this.used -= 1;
    else next();
  }
}

const [roomIn, roomOut] = [new Room(), new Room()];

/** Gives memory back, unless the runtime has it. */
function free(buffer) {
  if (!buffer.detached) buffer.transfer(0);
}

/** The body of an upload in pieces. The memory of one is given back when the next is asked for. */
export class Intake {
  constructor(request, pieceBytes, piecesMax, stallMs, pieceMs) {
    this.reader = request.body?.getReader({ mode: "byob" });
    this.buffer = new ArrayBuffer(0);
    Object.assign(this, { pieceBytes, piecesMax, stallMs, pieceMs });
    this.isOver = this.reader === undefined;
  }

  /** The next bytes, fewer than a piece has only at the end; "stalled" or "broken" if they do not come, or too slowly. */
  async next() {
    free(this.buffer);
    await roomIn.enter(this.piecesMax);
    try {
      this.buffer = new ArrayBuffer(this.pieceBytes);
      return await this.fill(Date.now() + this.pieceMs);
    } finally {
      roomIn.leave();
    }
  }

  async fill(deadline) {
    let filled = 0;
    while (!this.isOver && filled < this.pieceBytes) {
      let part;
      try {
        const ms = Math.min(this.stallMs, deadline - Date.now());
        part = await inTime(this.reader.read(new Uint8Array(this.buffer, filled)), ms);
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
    free(this.buffer);
    if (this.isOver) return respond(status, lines, body);
    return respondUnread(status, lines, body, this.reader, bytesMax, ms);
  }
}

/**
 * A response whose body is a part of a file. A piece is read when there is room for it, and given out part by part as the client
 * takes them; one that takes none for `slowMs` holds no more than a part, and its piece is read again when it goes on. Memory is
 * given back at once: left to the garbage collector, it would be hundreds of megabytes. A file that is deleted meanwhile ends in
 * an error, never in less than was announced.
 */
export function sendOut(status, lines, sql, statement, contentId, from, bytes, pieceBytes, partBytes, piecesMax, slowMs) {
  const { readable, writable } = new FixedLengthStream(bytes);
  const writer = writable.getWriter();
  const end = from + bytes;
  /** Sends from there to the end of a piece: how far it came, and what has to be taken before it goes on. */
  const sendPiece = async (begin) => {
    const number = Math.floor(begin / pieceBytes);
    const [row] = [...sql.exec(statement, contentId, number).raw()];
    if (row === undefined) throw new Error("the file is gone");
    const [offset, until] = [number * pieceBytes, Math.min(end, (number + 1) * pieceBytes)];
    const piece = row[0];
    try {
      let at = begin;
      while (at < until) {
        const part = new Uint8Array(piece.slice(at - offset, Math.min(at + partBytes, until) - offset));
        at += part.byteLength;
        const taken = writer.write(part).then(() => free(part.buffer) ?? true);
        if ((await inTime(taken, slowMs)) === null) return [at, taken];
      }
      return [at, null];
    } finally {
      free(piece);
    }
  };
  const send = async () => {
    let [at, taken] = [from, null];
    while (at < end) {
      await taken;
      await roomOut.enter(piecesMax);
      try {
        [at, taken] = await sendPiece(at);
      } finally {
        roomOut.leave();
      }
    }
    await taken;
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
