/** From send to received, at a pace that leaves every process asleep in between. */

import { setTimeout as delay } from "node:timers/promises";
import { Ledger } from "../ledger.ts";
import { Lane } from "../load.ts";
import type { Measure } from "../measure.ts";
import { watchLoad } from "../server/load-watch.ts";
import { ARRIVAL_MAX_MS } from "../settings.ts";
import { percentile } from "../stats.ts";

const PER_SECOND = 50;
/** So that a late answer does not hold up the next send. */
const SENDERS = 8;

export const latency: Measure = {
  name: "latency",
  title: ({ latencyMs }) => `From send to received, ${PER_SECOND} messages a second for ${latencyMs / 1_000} s`,
  note: "Milliseconds from the call of send to the recipient's callback, in one process and by one clock.",
  metrics: [
    { key: "latency.p50", label: "p50 ms", ratio: true },
    { key: "latency.p99", label: "p99 ms", ratio: true },
  ],
  run: async (system, { warmMs, latencyMs }) => {
    const senders = await system.createSenders(SENDERS);
    const [recipient] = (await system.createRecipients(1, senders)) as [string];
    const ledger = new Ledger();
    await system.openReceiver(recipient, ledger);
    const lanes = senders.map((sender) => new Lane(sender, recipient, ledger));
    await sendPaced(lanes, warmMs);

    const stopWatch = watchLoad(system.pids());
    const sent = await sendPaced(lanes, latencyMs);
    const load = stopWatch();
    await ledger.settle(ARRIVAL_MAX_MS);
    const times = Array.from(sent, ([n, at]) => ledger.arrivalOf(n)! - at);
    return {
      "latency.p50": { value: percentile(times, 50), load },
      "latency.p99": { value: percentile(times, 99), load },
    };
  },
};

/** Sends at the pace, whatever the answers do. @returns when each message was sent */
async function sendPaced(lanes: readonly Lane[], ms: number): Promise<Map<number, number>> {
  const count = Math.ceil((ms * PER_SECOND) / 1_000);
  for (const lane of lanes) lane.prepare(Math.ceil(count / lanes.length));
  const sentAt = new Map<number, number>();
  const chains = lanes.map(() => Promise.resolve());
  const start = performance.now();
  for (let i = 0; i < count; i++) {
    await delay(Math.max(0, start + (i * 1_000) / PER_SECOND - performance.now()));
    const at = performance.now();
    const turn = i % lanes.length;
    chains[turn] = chains[turn]!.then(async () => {
      for (const n of await lanes[turn]!.sendOne()) sentAt.set(n, at);
    });
    chains[turn]!.catch(() => {}); // thrown below
  }
  await Promise.all(chains);
  return sentAt;
}
