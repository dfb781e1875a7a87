// What every request needs of the runtime, each in one call: one crossing between Rust and JavaScript where the bindings
// would make dozens. It holds no state and decides nothing.

/** Method, address, then name and value of every header: one a line. None of them can contain a line break. */
export function head(request) {
  let text = `${request.method}\n${request.url}`;
  for (const [name, value] of request.headers) text += `\n${name}\n${value}`;
  return text;
}

/** The same request once more, for the one object; a copy of `body`, which lies in memory that Rust takes back. */
export function ask(env, binding, instance, request, body) {
  return env[binding].getByName(instance).fetch(request.url, {
    method: request.method,
    headers: request.headers,
    redirect: "manual",
    body: body.length > 0 ? body.slice() : undefined,
  });
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
