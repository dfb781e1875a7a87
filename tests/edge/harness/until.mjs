// Waiting for what must come, and no longer than that may take.

const POLL_MS = 20;

/** Resolves after this many milliseconds: for the time that a test itself is about, never to let something settle. */
export function pass(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Tries `condition` until it gives something true, and returns that. An error of it counts as "not yet". */
export async function until(condition, { what, ms = 20_000, more = () => "" }) {
  const deadline = Date.now() + ms;
  let failure = "";
  for (;;) {
    try {
      const value = await condition();
      if (value) return value;
    } catch (error) {
      failure = `\n${error.stack}`;
    }
    if (Date.now() > deadline) throw new Error(`waited ${ms} ms in vain for ${what}${failure}\n${more()}`);
    await pass(POLL_MS);
  }
}

/** Runs `action` and returns what it gave with the milliseconds it took. */
export async function timed(action) {
  const start = performance.now();
  const value = await action();
  return { value, ms: performance.now() - start };
}
