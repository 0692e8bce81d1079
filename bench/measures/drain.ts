/** A recipient comes back to a full queue: from its connecting until everything is received and acked. */

import type { System } from "../adapter.ts";
import { Ledger } from "../ledger.ts";
import { Lane, sendCount } from "../load.ts";
import type { Measure } from "../measure.ts";
import { ARRIVAL_MAX_MS, BATCH } from "../settings.ts";
import { median } from "../stats.ts";

const SENDERS = 16;
/** A drain of this many before, so that no system is measured cold. */
const WARM_COUNT = 200;

export const drain: Measure = {
  name: "drain",
  title: ({ drainCount, drainTimes }) =>
    `Drain of ${drainCount} queued messages (a run is the median of ${drainTimes})`,
  note: "Messages a second from connecting to the server's word that every ack is in. Queues were filled before.",
  metrics: [
    { key: "drain.rate", label: "messages/s", ratio: true },
    { key: "drain.ms", label: "ms in all" },
  ],
  run: async (system, { drainCount, drainTimes }) => {
    await drainOnce(system, WARM_COUNT);
    const times: number[] = [];
    for (let i = 0; i < drainTimes; i++) times.push(await drainOnce(system, drainCount));
    const ms = median(times);
    return { "drain.rate": { value: (drainCount * 1_000) / ms }, "drain.ms": { value: ms } };
  },
};

/** @returns milliseconds */
async function drainOnce(system: System, count: number): Promise<number> {
  const senders = await system.createSenders(SENDERS);
  const [recipient] = (await system.createRecipients(1, senders)) as [string];
  const ledger = new Ledger();
  const batch = Math.min(BATCH, system.batchMax);
  const lanes = senders.map((sender) => new Lane(sender, recipient, ledger, batch));
  await sendCount(lanes, count / batch);

  const start = performance.now();
  const receiver = await system.openReceiver(recipient, ledger);
  await ledger.settle(ARRIVAL_MAX_MS);
  await receiver.acked();
  const ms = performance.now() - start;
  receiver.close();
  return ms;
}
