/** How many sockets one object holds, what each costs it, and what a send costs beside them. */

import WebSocket from "ws";
import { Agent } from "../../test/support/agent.ts";
import { SUBPROTOCOL } from "../../src/protocol/frames.ts";
import { cpuSeconds, residentBytes } from "../server/process-stats.ts";
import { percentile } from "../stats.ts";
import type { InterlinkSystem } from "../adapters/interlink-bus.ts";
import { anySenders, onBus, requestsOf } from "./one-bus.ts";

const COUNTS = [1, 64, 250, 500, 1_000, 2_000];
const DIALS_AT_A_TIME = 16;
const SENDS = 200;

export interface Held {
  readonly sockets: number;
  /** Handshakes a second while these were opened. */
  readonly openedPerS: number;
  /** Of the server's CPU, a handshake; it holds where other work slows the rate down. */
  readonly handshakeCpuMs: number;
  readonly residentMiB: number;
  readonly sendP50Ms: number;
}

export async function sockets(stateDir: string): Promise<Held[]> {
  return onBus(stateDir, { SESSIONS_MAX: "32768" }, async (bus) => {
    const agent = await Agent.create({ url: bus.origin });
    const [sender] = await anySenders(bus, 1);
    await agent.announce("s0");
    await agent.contacts([sender!.agent.key]);
    const requests = requestsOf(bus, sender!);
    const held: Held[] = [];
    let opened = 0;
    for (const count of COUNTS) {
      const startMs = performance.now();
      const [first, cpuS] = [opened, cpuSeconds(bus.pids())];
      const dialler = async (): Promise<void> => {
        while (opened < count) await dial(bus, agent, `s${opened++}`);
      };
      await Promise.all(Array.from({ length: DIALS_AT_A_TIME }, dialler));
      const openedPerS = ((count - first) * 1_000) / (performance.now() - startMs);
      const handshakeCpuMs = ((cpuSeconds(bus.pids()) - cpuS) * 1_000) / (count - first);
      const times: number[] = [];
      for (let n = 0; n < SENDS; n++) {
        const job = requests.send(agent.route("s0"), "hello");
        const sentMs = performance.now();
        await sender!.send(job);
        times.push(performance.now() - sentMs);
      }
      const residentMiB = residentBytes(bus.pids()) / 2 ** 20;
      held.push({ sockets: count, openedPerS, handshakeCpuMs, residentMiB, sendP50Ms: percentile(times, 50) });
      process.stderr.write(`${count} sockets: ${Math.round(openedPerS)}/s, ${Math.round(residentMiB)} MiB\n`);
    }
    return held;
  });
}

/** Opens one session's socket; it acks what comes, so that the inbox stays small. */
async function dial(bus: InterlinkSystem, agent: Agent, session: string): Promise<void> {
  const target = `/socket?me=${encodeURIComponent(agent.route(session))}`;
  const token = agent.token({ method: "WS", target });
  const socket = new WebSocket(`ws://${bus.host}${target}`, [SUBPROTOCOL, token], { perMessageDeflate: false });
  bus.closeAtStop({ close: () => socket.terminate() });
  await new Promise<void>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("message", (data) => {
      const frame = JSON.parse((data as Buffer).toString("utf8")) as { t: string; items?: { seq: number }[] };
      if (frame.t === "welcome") resolve();
      const last = frame.items?.at(-1);
      if (last) socket.send(JSON.stringify({ t: "ack", through: last.seq }));
    });
  });
}
