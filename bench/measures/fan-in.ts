/** Many senders at once, to one recipient that all share, and to as many recipients; recipients are connected. */

import type { System } from "../adapter.ts";
import { Ledger } from "../ledger.ts";
import { Lane, prepareFor, sendUntil, warmUp } from "../load.ts";
import type { Measure, Reading } from "../measure.ts";
import { watchLoad } from "../server/load-watch.ts";
import { ARRIVAL_MAX_MS, type Settings } from "../settings.ts";

export const fanIn: Measure = {
  name: "fan-in",
  title: ({ fanInSenders: n, fanInMs }) => `${n} senders to 1 and to ${n} recipients, sending for ${fanInMs / 1_000} s`,
  note: "Messages a second that were accepted, received and acked, until the last ack is in; nothing may be missing.",
  metrics: [
    { key: "fan-in.one", label: "to one", ratio: true, cores: true },
    { key: "fan-in.many", label: "to many", ratio: true, cores: true },
  ],
  run: async (system, settings) => ({
    "fan-in.one": await measureFanIn(system, settings, 1),
    "fan-in.many": await measureFanIn(system, settings, settings.fanInSenders),
  }),
};

async function measureFanIn(system: System, settings: Settings, recipientCount: number): Promise<Reading> {
  const { warmMs, fanInMs, fanInSenders } = settings;
  const senders = await system.createSenders(fanInSenders);
  const recipients = await system.createRecipients(recipientCount, senders);
  const ledger = new Ledger();
  const receivers = await Promise.all(recipients.map((recipient) => system.openReceiver(recipient, ledger)));
  const lanes = senders.map((sender, i) => new Lane(sender, recipients[i % recipientCount]!, ledger));
  const rate = await warmUp(lanes, warmMs);
  await ledger.settle(ARRIVAL_MAX_MS);
  prepareFor(lanes, rate, fanInMs);

  const before = ledger.accepted;
  const stopWatch = watchLoad(system.pids());
  const start = performance.now();
  await sendUntil(lanes, start + fanInMs);
  await ledger.settle(ARRIVAL_MAX_MS);
  await Promise.all(receivers.map((receiver) => receiver.acked()));
  const seconds = (performance.now() - start) / 1_000;
  return { value: (ledger.accepted - before) / seconds, load: stopWatch() };
}
