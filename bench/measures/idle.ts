/** Sessions that are connected and do nothing: what they cost the server in CPU, disk, handler runs and memory. */

import { setTimeout as delay } from "node:timers/promises";
import type { Receiver } from "../adapter.ts";
import { Ledger } from "../ledger.ts";
import { Lane } from "../load.ts";
import type { Measure, Reading } from "../measure.ts";
import { cpuSeconds, residentBytes, writtenBytes } from "../server/process-stats.ts";
import { watchLoad } from "../server/load-watch.ts";
import { ARRIVAL_MAX_MS } from "../settings.ts";

/** Before and after: lets a server finish what connecting began. */
const SETTLE_MS = 1_000;
const MB = 1e6;

export const idle: Measure = {
  name: "idle",
  counted: true,
  title: ({ idleSessions, idleMs }) =>
    `${idleSessions} connected idle sessions for ${idleMs / 1_000} s, and their memory`,
  note:
    "RSS of all server processes: with no session, with all just connected, and after the idle time; KB a session is " +
    "from the first to the last. Heartbeats or polls as the system's client makes them. KB to disk holds " +
    "also what SQLite folds back into its file when an object goes to rest after ten seconds. Afterwards each session got " +
    "one message, to show that it lived.",
  metrics: [
    { key: "idle.cpu", label: "server CPU s" },
    { key: "idle.requests", label: "requests" },
    { key: "idle.runs", label: "object runs" },
    { key: "idle.rows", label: "rows written" },
    { key: "idle.written", label: "KB to disk" },
    { key: "memory.none", label: "MB, none" },
    { key: "memory.connected", label: "MB, connected" },
    { key: "memory.idle", label: "MB, after" },
    { key: "memory.session", label: "KB a session", ratio: true },
  ],
  run: async (system, { idleSessions, idleMs }) => {
    const senders = await system.createSenders(1);
    // One message through, so that what the first use of a server costs is not counted as a session's.
    const warm = new Ledger();
    const [warmRecipient] = (await system.createRecipients(1, senders)) as [string];
    await new Lane(senders[0]!, warmRecipient, warm).sendOne();
    const receiver = await system.openReceiver(warmRecipient, warm);
    await warm.settle(ARRIVAL_MAX_MS);
    receiver.close();
    await delay(SETTLE_MS);
    const none = residentBytes(system.pids());

    const ledger = new Ledger();
    const recipients = await system.createRecipients(idleSessions, senders);
    const receivers: Receiver[] = [];
    for (const recipient of recipients) receivers.push(await system.openReceiver(recipient, ledger));
    await delay(SETTLE_MS);
    const pids = system.pids();
    const connected = residentBytes(pids);
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
    const after = residentBytes(system.pids());

    for (const recipient of recipients) await new Lane(senders[0]!, recipient, ledger).sendOne();
    await ledger.settle(ARRIVAL_MAX_MS);

    const readings: Record<string, Reading> = {
      "idle.cpu": { value: cpu, load },
      "idle.requests": { value: requestCount },
      "idle.written": { value: written / 1_000 },
      "memory.none": { value: none / MB },
      "memory.connected": { value: connected / MB },
      "memory.idle": { value: after / MB },
      "memory.session": { value: (after - none) / 1_000 / idleSessions },
    };
    if (countersBefore && countersAfter) {
      readings["idle.runs"] = { value: countersAfter.runs - countersBefore.runs };
      readings["idle.rows"] = { value: countersAfter.rowsWritten - countersBefore.rowsWritten };
    }
    return readings;
  },
};
