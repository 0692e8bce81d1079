/** A bus under plain workerd for the measures of one object, and senders that may also look at a roster. */

import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Variables } from "../../scripts/local-bus.ts";
import { Agent } from "../../test/support/agent.ts";
import type { Prepared } from "../adapter.ts";
import { BusSender, startPlainBus, type InterlinkSystem } from "../adapters/interlink-bus.ts";
import { openSocket } from "../adapters/interlink-socket.ts";

/** Runs on a bus with a folder of its own, which is removed afterwards. */
export async function onBus<T>(
  stateDir: string,
  vars: Variables,
  run: (bus: InterlinkSystem, dir: string) => Promise<T>,
): Promise<T> {
  const dir = await mkdtemp(join(stateDir, "object-"));
  try {
    const bus = await startPlainBus({ dir, counted: false }, vars, { signed: true, openReceiver: openSocket });
    try {
      return await run(bus, dir);
    } finally {
      await bus.stop();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** What its requests may be answered with: each is taken as done by the status that it is made for. */
export class AnySender extends BusSender {
  protected override isAccepted(status: number, _body: string, count: number): boolean {
    return status === count;
  }
}

/** Senders with keys of their own. */
export async function anySenders(bus: InterlinkSystem, count: number): Promise<AnySender[]> {
  const agents = await Promise.all(Array.from({ length: count }, () => Agent.create({ url: bus.origin })));
  return Promise.all(agents.map(async (agent) => new AnySender(bus, agent, await bus.connect())));
}

/** Requests as bytes; `count` is the status that each is made for. */
export const requestsOf = (bus: InterlinkSystem, { agent }: AnySender) => ({
  send: (route: string, text: string): Prepared => {
    const message = agent.message(route, text, { ts: Date.now() });
    return { bytes: bus.encode(agent, "POST", "/send", JSON.stringify(message)), count: 202 };
  },
  /** Refused by the door after both of its signatures were looked at, so that no object is touched. */
  sendInVain: (route: string, text: string): Prepared => {
    const message = agent.message(route, text, { ts: Date.now() });
    const body = JSON.stringify({ ...message, payload: { ...message.payload, text: `${text}!` } });
    return { bytes: bus.encode(agent, "POST", "/send", body), count: 400 };
  },
  look: (key: string): Prepared => ({ bytes: bus.encode(agent, "GET", `/roster?identity=${key}`), count: 200 }),
  /** Of a key that was never admitted: its shard is asked, and no other object. */
  knockAtTheDoor: (): Prepared => ({ bytes: bus.encode(agent, "GET", `/roster?identity=${agent.key}`), count: 403 }),
});
