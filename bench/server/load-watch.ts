/** Who used the CPU while a reading was taken: the server, this client, or others. */

import { cpuSeconds, machineSeconds } from "./process-stats.ts";

/** Cores, averaged over a reading: 1 is one core all the time. */
export interface Load {
  readonly seconds: number;
  readonly server: number;
  /** This process with all its threads. JavaScript has one, so near 1 it is the limit. */
  readonly client: number;
  /** Other processes, and what the host took. */
  readonly others: number;
}

/** From here on the reading says more about the client than about the server. */
const CLIENT_BOUND_CORES = 0.9;
/** From here on a reading says something about the machine's other work. */
const DISTURBED_CORES = 0.3;

/** True if a faster client would have got more out of the server. */
export function isClientBound(load: Load): boolean {
  return load.client >= CLIENT_BOUND_CORES;
}

/** True if the reading had to share the machine. */
export function isDisturbed(load: Load): boolean {
  return load.others > DISTURBED_CORES;
}

/** /proc counts in hundredths of a second: below this a load would be made of rounding. */
const SECONDS_MIN = 0.2;

/** Starts watching; the returned function ends it, and knows nothing of what was too short to tell. */
export function watchLoad(pids: readonly number[]): () => Load | undefined {
  const before = snapshot(pids);
  return () => {
    const after = snapshot(pids);
    const seconds = (after.at - before.at) / 1_000;
    if (seconds < SECONDS_MIN) return undefined;
    const server = after.server - before.server;
    const client = after.client - before.client;
    const all = after.machine.busy + after.machine.stolen - before.machine.busy - before.machine.stolen;
    return {
      seconds,
      server: server / seconds,
      client: client / seconds,
      others: Math.max(0, all - server - client) / seconds,
    };
  };
}

function snapshot(pids: readonly number[]) {
  const own = process.cpuUsage();
  return {
    at: performance.now(),
    server: cpuSeconds(pids),
    client: (own.user + own.system) / 1e6,
    machine: machineSeconds(),
  };
}
