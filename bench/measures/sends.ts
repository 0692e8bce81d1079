/** Durable sends a second to one recipient that is not connected, one request in flight a connection. */

import type { System } from "../adapter.ts";
import { Ledger } from "../ledger.ts";
import { Lane, prepareFor, sendUntil, warmUp } from "../load.ts";
import type { Measure, Reading, Readings } from "../measure.ts";
import { watchLoad } from "../server/load-watch.ts";
import { BATCH, type Settings } from "../settings.ts";

const CONCURRENCIES = [1, 16, 64];
const BATCHED_CONCURRENCIES = [1, 16];

export const sends: Measure = {
  name: "sends",
  title: ({ sendMs }) => `Durable sends a second (${sendMs / 1_000} s, 300 bytes, recipient offline)`,
  note: `Messages accepted; c = connections, each with one request in flight; ×${BATCH} = ${BATCH} messages a request.`,
  metrics: [
    ...CONCURRENCIES.map((c) => ({ key: `sends.c${c}`, label: `c=${c}`, ratio: true, cores: c > 1 })),
    ...BATCHED_CONCURRENCIES.map((c) => ({ key: `sends.c${c}x${BATCH}`, label: `c=${c} ×${BATCH}` })),
  ],
  run: async (system, settings) => {
    const readings: Record<string, Reading> = {};
    for (const c of CONCURRENCIES) readings[`sends.c${c}`] = await measureSends(system, settings, c, 1);
    if (system.batchMax < BATCH) return readings as Readings;
    for (const c of BATCHED_CONCURRENCIES) {
      readings[`sends.c${c}x${BATCH}`] = await measureSends(system, settings, c, BATCH);
    }
    return readings;
  },
};

async function measureSends(system: System, settings: Settings, c: number, batch: number): Promise<Reading> {
  const { warmMs, sendMs } = settings;
  const senders = await system.createSenders(c);
  const [warmRecipient, recipient] = (await system.createRecipients(2, senders)) as [string, string];
  const ledger = new Ledger();
  const warmLanes = senders.map((sender) => new Lane(sender, warmRecipient, ledger, batch));
  const rate = await warmUp(warmLanes, warmMs);
  const lanes = senders.map((sender) => new Lane(sender, recipient, ledger, batch));
  prepareFor(lanes, rate, sendMs);

  const stopWatch = watchLoad(system.pids());
  const accepted = await sendUntil(lanes, performance.now() + sendMs);
  return { value: (accepted * 1_000) / sendMs, load: stopWatch() };
}
