/** Sessions that are connected and do nothing: what they cost the server in CPU, disk and handler runs. */

import { setTimeout as delay } from "node:timers/promises";
import type { Receiver } from "../adapter.ts";
import { Ledger } from "../ledger.ts";
import { Lane } from "../load.ts";
import type { Measure, Reading } from "../measure.ts";
import { cpuSeconds, writtenBytes } from "../server/process-stats.ts";
import { watchLoad } from "../server/load-watch.ts";
import { ARRIVAL_MAX_MS } from "../settings.ts";

/** Before and after: lets a server finish what connecting began. */
const SETTLE_MS = 1_000;

export const idle: Measure = {
  name: "idle",
  counted: true,
  title: ({ idleSessions, idleMs }) => `${idleSessions} connected idle sessions for ${idleMs / 1_000} s`,
  note:
    "Heartbeats or polls as the system's client makes them. KB to disk holds also what SQLite folds back into its file when an object goes to rest after ten seconds. Afterwards each session got " +
    "one message, to show that it lived.",
  metrics: [
    { key: "idle.cpu", label: "server CPU s" },
    { key: "idle.requests", label: "requests" },
    { key: "idle.runs", label: "object runs" },
    { key: "idle.rows", label: "rows written" },
    { key: "idle.written", label: "KB to disk" },
  ],
  run: async (system, { idleSessions, idleMs }) => {
    const senders = await system.createSenders(1);
    const ledger = new Ledger();
    const recipients = await system.createRecipients(idleSessions, senders);
    const receivers: Receiver[] = [];
    for (const recipient of recipients) receivers.push(await system.openReceiver(recipient, ledger));
    await delay(SETTLE_MS);
    const pids = system.pids();
    const requests = (): number => receivers.reduce((sum, receiver) => sum + receiver.requests, 0);

    const countersBefore = await system.counters?.();
    const requestsBefore = requests();
    const writtenBefore = writtenBytes(pids);
    const cpuBefore = cpuSeconds(pids);
    const stopWatch = watchLoad(pids);
    await delay(idleMs);
    const load = stopWatch();
    const cpu = cpuSeconds(pids) - cpuBefore;
    const written = writtenBytes(pids) - writtenBefore;
    const requestCount = requests() - requestsBefore;
    const countersAfter = await system.counters?.();

    for (const recipient of recipients) await new Lane(senders[0]!, recipient, ledger).sendOne();
    await ledger.settle(ARRIVAL_MAX_MS);

    const readings: Record<string, Reading> = {
      "idle.cpu": { value: cpu, load },
      "idle.requests": { value: requestCount },
      "idle.written": { value: written / 1_000 },
    };
    if (countersBefore && countersAfter) {
      readings["idle.runs"] = { value: countersAfter.runs - countersBefore.runs };
      readings["idle.rows"] = { value: countersAfter.rowsWritten - countersBefore.rowsWritten };
    }
    return readings;
  },
};
