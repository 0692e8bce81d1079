/**
 * A recipient on a WebSocket that speaks the frames of PROTOCOL.md: `welcome`, `messages`, a cumulative `ack`, and
 * `ping`. The bus and the floor share it, so that both pay the same for their client.
 */

import { setTimeout as delay } from "node:timers/promises";
import WebSocket from "ws";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { PING, PONG } from "../../src/protocol/frames.ts";
import type { Receiver, Sink } from "../adapter.ts";

/** Where to connect, made anew for each connection since a token serves once. */
export interface Dial {
  readonly url: string;
  readonly protocols?: readonly string[];
}

/** One message of a `messages` frame; the rest of it is the system's own. */
export interface FrameItem {
  readonly seq: number;
}

type Frame<Item> =
  | { readonly t: "welcome"; readonly queued: number }
  | { readonly t: "messages"; readonly items: readonly Item[] }
  | { readonly t: "gap" | "err" };

export class FrameReceiver<Item extends FrameItem> implements Receiver {
  #dial: () => Dial;
  #textOf: (item: Item) => string;
  #sink: Sink;
  #socket: WebSocket | undefined;
  #requests = 0;
  #heartbeat: ReturnType<typeof setInterval> | undefined;

  constructor(dial: () => Dial, textOf: (item: Item) => string, sink: Sink) {
    this.#dial = dial;
    this.#textOf = textOf;
    this.#sink = sink;
  }

  get requests(): number {
    return this.#requests;
  }

  /** Connects in place of the connection before. @returns how much was queued at the bus */
  open(): Promise<number> {
    const { url, protocols = [] } = this.#dial();
    const socket = new WebSocket(url, [...protocols], { perMessageDeflate: false });
    const older = this.#socket;
    this.#socket = socket;
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        reject(error);
        if (this.#socket === socket) this.#sink.fail(error);
      };
      socket.on("error", fail);
      socket.on("close", (code, reason) => fail(new Error(`socket closed: ${code} ${reason.toString()}`)));
      socket.on("unexpected-response", (_request, response) => fail(new Error(`no socket: ${response.statusCode}`)));
      socket.on("message", (data) => {
        const text = (data as Buffer).toString("utf8");
        if (text === PONG || this.#socket !== socket) return;
        const frame = JSON.parse(text) as Frame<Item>;
        if (frame.t === "messages") {
          this.#take(frame.items);
        } else if (frame.t === "welcome") {
          older?.close();
          resolve(frame.queued);
        } else {
          fail(new Error(`unexpected frame: ${text}`));
        }
      });
      clearInterval(this.#heartbeat);
      this.#heartbeat = setInterval(() => this.#send(PING), DEFAULT_LIMITS.HEARTBEAT_MS);
    });
  }

  /** An ack has no answer, so what the bus says of the queue to a new connection is the answer. */
  async acked(): Promise<void> {
    // Where the new connection overtakes the ack, mail comes and is acked again; the ledger knows it.
    while ((await this.open()) > 0) await delay(1);
  }

  close(): void {
    clearInterval(this.#heartbeat);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.terminate();
  }

  #take(items: readonly Item[]): void {
    const last = items.at(-1);
    if (!last) return;
    this.#sink.receive(items.map(this.#textOf));
    this.#send(`{"t":"ack","through":${last.seq}}`);
  }

  #send(frame: string): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#requests++;
    this.#socket.send(frame);
  }
}
