/** This bus under plain workerd: signed sends by POST, mail by the session's WebSocket. */

import { SUBPROTOCOL } from "../../src/protocol/frames.ts";
import type { Adapter, Receiver, Sink } from "../adapter.ts";
import { outputOf } from "../server/server-process.ts";
import { FrameReceiver, type FrameItem } from "../wire/frame-receiver.ts";
import { workerdPath } from "./floor.ts";
import { BUS_SURVIVES, startPlainBus, type InterlinkSystem, type Recipient } from "./interlink-bus.ts";

export const interlinkSocket: Adapter = {
  name: "interlink-socket",
  survives: BUS_SURVIVES,
  probe: async () => ({ version: await outputOf(workerdPath(), ["--version"]) }),
  start: (options) => startPlainBus(options, {}, { signed: true, openReceiver: openSocket }),
};

interface BusItem extends FrameItem {
  readonly envelope: { readonly payload: { readonly text: string } };
}

/** Connects a session's socket and waits for its welcome. */
export async function openSocket(bus: InterlinkSystem, recipient: Recipient, sink: Sink): Promise<Receiver> {
  const { agent, route } = recipient;
  const target = `/socket?me=${encodeURIComponent(route)}`;
  const dial = () => ({
    url: `ws://${bus.host}${target}`,
    protocols: [SUBPROTOCOL, agent.token({ method: "WS", target })],
  });
  const receiver = bus.closeAtStop(new FrameReceiver<BusItem>(dial, (item) => item.envelope.payload.text, sink));
  await receiver.open();
  return receiver;
}
