// What every request needs of the runtime, each in one call: one crossing between Rust and JavaScript where the bindings
// would make dozens. It holds no state and decides nothing.

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
 * as far as that is known, and when the time is over.
 */
export async function forward(env, request, hasLength, bytesMax, limit, trouble) {
  const inTrouble = (kind, words) => trouble(env, request, body, deadline, kind, words);
  let [body, deadline] = [null, 0];
  try {
    body = hasLength ? await request.arrayBuffer() : await inParts(request.body, bytesMax);
  } catch (error) {
    return inTrouble("broken", `${error}`);
  }
  if (body === null || body.byteLength > bytesMax) return inTrouble("too large", "");
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

/** Lets `answer` answer a request that reached the object, given its head and its body, or null if that broke off. */
export async function serve(request, answer) {
  let body;
  try {
    body = new Uint8Array(await request.arrayBuffer());
  } catch {
    body = undefined;
  }
  return answer(request, head(request), body);
}

/** A response; `lines` has name and value of each header, one a line, and `body` lies in memory that Rust takes back. */
export function respond(status, lines, body) {
  const headers = [];
  const parts = lines.split("\n");
  for (let index = 0; index + 1 < parts.length; index += 2) headers.push([parts[index], parts[index + 1]]);
  return new Response(body.length > 0 ? body.slice() : null, { status, headers });
}

/**
 * Runs a statement and returns `[rows read, rows written, rows]`. Parameters and answer are JSON, in which bytes are arrays
 * of numbers.
 */
export function execute(sql, statement, parameters) {
  const bound = JSON.parse(parameters);
  for (let index = 0; index < bound.length; index += 1) {
    if (Array.isArray(bound[index])) bound[index] = Uint8Array.from(bound[index]);
  }
  const cursor = sql.exec(statement, ...bound);
  const rows = [...cursor.raw()];
  for (const row of rows) {
    for (let index = 0; index < row.length; index += 1) {
      if (row[index] instanceof ArrayBuffer) row[index] = [...new Uint8Array(row[index])];
    }
  }
  return JSON.stringify([cursor.rowsRead, cursor.rowsWritten, rows]);
}
