// How long a sweep holds the object. Clocks inside may stand still while code runs, so it is watched from outside: a client
// that pings without a pause waits for no longer than the longest batch takes, with its commit. What it waits for because
// other programs had the processors is told apart.

import { setTimeout as pause } from "node:timers/promises";

import { Hub } from "./hub.mjs";
import { probe } from "./load.mjs";
import { addTasks } from "./measure.mjs";
import { until } from "./until.mjs";

const QUIET_MS = 1_500;
const SWEEP_MS_MAX = 100_000;

/** Lets the alarm find this many leases run out. */
export async function measureSweep(leases) {
  const hub = new Hub({});
  try {
    await hub.start();
    await hub.executor("history");
    const prober = await hub.executor("probe");
    await hub.submit({ executor: "probe" });
    await prober.claim();
    await addTasks(hub, leases, "expired");
    const quiet = await probe(hub, prober, () => pause(QUIET_MS));
    let batch;
    const swept = await probe(hub, prober, async () => {
      await pause(QUIET_MS / 5);
      const started = performance.now();
      // Whatever writes looks when the next timer is due, and that sets the alarm.
      await hub.submit({ executor: "probe" });
      await until(
        async () => {
          const left = await hub.test("GET", "due");
          batch = left.batch;
          return !left.due;
        },
        { what: "the sweep to end", ms: SWEEP_MS_MAX, more: () => hub.log },
      );
      return performance.now() - started;
    });
    const batches = Math.ceil(leases / batch);
    return { leases, batches, total_ms: Math.round(swept.value), quiet: quiet.answers, during: swept.answers };
  } finally {
    await hub.remove();
  }
}
