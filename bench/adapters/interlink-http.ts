/**
 * This bus by the original's HTTP shapes under ACCESS=open: POST /send, GET /recv one message at a time, POST /ack.
 * And the same bus by a client that polls once a second, the other way that agents read their mail today.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Adapter, Receiver, Sink, StartOptions, System } from "../adapter.ts";
import { outputOf } from "../server/server-process.ts";
import type { HttpConnection } from "../wire/http-connection.ts";
import { workerdPath } from "./floor.ts";
import { BUS_SURVIVES, expectStatus, startPlainBus } from "./interlink-bus.ts";
import type { InterlinkSystem, OpenReceiver, Recipient } from "./interlink-bus.ts";

/** The original's poll and heartbeat. */
const POLL_MS = 25_000;
const ANNOUNCE_MS = 30_000;
/** How often a polling client looks. */
const INTERVAL_MS = 1_000;
const INTERVAL_MAX = 64;

export const interlinkHttp: Adapter = {
  name: "interlink-http",
  survives: BUS_SURVIVES,
  probe,
  start: (options) => start(options, openLongPoll),
};

export const interlinkPoll: Adapter = {
  name: "interlink-poll",
  survives: BUS_SURVIVES,
  measures: ["latency"],
  probe,
  start: (options) => start(options, openIntervalPoll),
};

async function probe(): Promise<{ version: string }> {
  return { version: await outputOf(workerdPath(), ["--version"]) };
}

/** Without tokens, as the original is. */
function start(options: StartOptions, openReceiver: OpenReceiver): Promise<System> {
  return startPlainBus(options, { ACCESS: "open" }, { signed: false, openReceiver });
}

const openLongPoll: OpenReceiver = async (bus, recipient, sink) => {
  const receiver = new PollReceiver(bus, recipient, sink, await bus.connect());
  void receiver.longPoll();
  void receiver.announce(await bus.connect());
  return bus.closeAtStop(receiver);
};

const openIntervalPoll: OpenReceiver = async (bus, recipient, sink) => {
  const receiver = new PollReceiver(bus, recipient, sink, await bus.connect());
  void receiver.intervalPoll();
  return bus.closeAtStop(receiver);
};

interface Item {
  readonly envelope: { readonly payload: { readonly text: string } };
  readonly ack: unknown;
}
type RecvAnswer =
  | ({ readonly status: "message" } & Item)
  | { readonly status: "messages"; readonly items: readonly Item[] }
  | { readonly status: "timeout" };

class PollReceiver implements Receiver {
  #bus: InterlinkSystem;
  #recipient: Recipient;
  #sink: Sink;
  #connection: HttpConnection;
  #requests = 0;
  #closed = new AbortController();
  /** Messages handed out whose ack has no answer yet. */
  #unacked = 0;

  constructor(bus: InterlinkSystem, recipient: Recipient, sink: Sink, connection: HttpConnection) {
    this.#bus = bus;
    this.#recipient = recipient;
    this.#sink = sink;
    this.#connection = connection;
  }

  get requests(): number {
    return this.#requests;
  }

  async acked(): Promise<void> {
    while (this.#unacked > 0) await delay(1);
  }

  close(): void {
    this.#closed.abort();
  }

  /** One message a poll and one ack a message, in turns, on one connection. */
  async longPoll(): Promise<void> {
    await this.#untilClosed(async () => {
      const answer = await this.#receive(`&timeout_ms=${POLL_MS}`);
      if (answer.status === "message") await this.#take([answer], (ack) => ({ ack: ack[0] }));
    });
  }

  async intervalPoll(): Promise<void> {
    await this.#untilClosed(async () => {
      await delay(INTERVAL_MS, undefined, { signal: this.#closed.signal });
      const answer = await this.#receive(`&timeout_ms=0&max=${INTERVAL_MAX}`);
      if (answer.status === "messages" && answer.items.length > 0) await this.#take(answer.items, (acks) => ({ acks }));
    });
  }

  async announce(connection: HttpConnection): Promise<void> {
    await this.#untilClosed(async () => {
      await delay(ANNOUNCE_MS, undefined, { signal: this.#closed.signal });
      this.#requests++;
      expectStatus(202, await connection.request(this.#bus.encodeAnnouncement(this.#recipient.agent)));
    });
  }

  async #receive(query: string): Promise<RecvAnswer> {
    const { agent, route } = this.#recipient;
    const target = `/recv?me=${encodeURIComponent(route)}${query}`;
    this.#requests++;
    const response = await this.#connection.request(this.#bus.encode(agent, "GET", target));
    expectStatus(200, response);
    return JSON.parse(response.body) as RecvAnswer;
  }

  async #take(items: readonly Item[], toBody: (acks: unknown[]) => object): Promise<void> {
    const { agent, route } = this.#recipient;
    this.#unacked += items.length;
    this.#sink.receive(items.map((item) => item.envelope.payload.text));
    const body = JSON.stringify({ me: route, ...toBody(items.map((item) => item.ack)) });
    this.#requests++;
    expectStatus(200, await this.#connection.request(this.#bus.encode(agent, "POST", "/ack", body)));
    this.#unacked -= items.length;
  }

  async #untilClosed(step: () => Promise<void>): Promise<void> {
    try {
      while (!this.#closed.signal.aborted) await step();
    } catch (error) {
      if (!this.#closed.signal.aborted) this.#sink.fail(error as Error);
    }
  }
}
