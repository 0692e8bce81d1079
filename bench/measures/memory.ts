/**
 * What a further idle session keeps in memory. The first sessions fill what every server has once: the heap of its
 * JavaScript, caches, the allocator's reserve. So as many again are connected, and they are what is measured.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { System } from "../adapter.ts";
import { Ledger } from "../ledger.ts";
import type { Measure } from "../measure.ts";
import { residentBytes } from "../server/process-stats.ts";

/** Objects go to rest ten seconds after their last request. */
const REST_MS = 13_000;
const MB = 1e6;

export const memory: Measure = {
  name: "memory",
  title: ({ memorySessions }) => `Memory of ${memorySessions} idle sessions beside ${memorySessions} that were there`,
  note:
    "RSS of all server processes, each read when the objects have gone to rest: with no session, with the first half, with " +
    "all. KB a session is what the second half added.",
  metrics: [
    { key: "memory.none", label: "MB, none" },
    { key: "memory.half", label: "MB, half" },
    { key: "memory.all", label: "MB, all" },
    { key: "memory.session", label: "KB a session", ratio: true },
  ],
  run: async (system, { memorySessions }) => {
    await delay(REST_MS);
    const none = residentBytes(system.pids());
    await connect(system, memorySessions);
    const half = residentBytes(system.pids());
    await connect(system, memorySessions);
    const all = residentBytes(system.pids());
    return {
      "memory.none": { value: none / MB },
      "memory.half": { value: half / MB },
      "memory.all": { value: all / MB },
      "memory.session": { value: (all - half) / 1_000 / memorySessions },
    };
  },
};

async function connect(system: System, count: number): Promise<void> {
  const recipients = await system.createRecipients(count, []);
  for (const recipient of recipients) await system.openReceiver(recipient, new Ledger());
  await delay(REST_MS);
}
