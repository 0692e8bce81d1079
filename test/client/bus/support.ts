/** What the tests of the bus room share: a clock that is moved by hand, ears that remember, and keys. */

import { randomBytes } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished } from "vitest";
import { parseRoute, parseSessionId, type Key, type Route, type SessionId } from "../../../src/protocol/address.ts";
import { isRefusal } from "../../../src/protocol/refusal.ts";
import type { Gap } from "../../../src/client/bus/answers.ts";
import type { BusItem } from "../../../src/client/bus/bus-frame.ts";
import { parseBusUrl, type BusUrl } from "../../../src/client/bus/bus-url.ts";
import { BusClock } from "../../../src/client/bus/clock.ts";
import type { State } from "../../../src/client/bus/connection-state.ts";
import {
  Connection,
  type ConnectionEars,
  type ConnectionOptions,
  type Welcome,
} from "../../../src/client/bus/connection.ts";
import { BusHttp, type BusHttpOptions } from "../../../src/client/bus/http.ts";
import { isOk, type BusRefusal, type Outcome, type Unreachable } from "../../../src/client/bus/outcome.ts";
import type { Outgoing } from "../../../src/client/bus/outgoing.ts";
import type { Timers } from "../../../src/client/bus/timers.ts";
import { signerOf, signMessage, type Json, type MessageInput, type Signer } from "../../support/agent.ts";

/** Long above what any step takes here. */
const WAIT_MAX_MS = 10_000;

export const newSigner = (): Promise<Signer> => signerOf(randomBytes(32));

export const sid = (text: string): SessionId => parseSessionId(text)!;

export function busUrl(text: string): BusUrl {
  const url = parseBusUrl(text);
  if ("refusal" in url) throw new Error(url.refusal);
  return url;
}

export function routeOf(key: Key, session: string): Route {
  const route = parseRoute(`${key}#${session}`);
  if (isRefusal(route)) throw new Error(route.refused);
  return route;
}

/** A client over HTTP that is closed with its test. */
export function httpOf(url: string, signer: Signer, options: Partial<BusHttpOptions> = {}): BusHttp {
  const http = new BusHttp({ url: busUrl(url), signer, clock: new BusClock(), ...options });
  onTestFinished(() => http.close());
  return http;
}

/** What was done, or the test fails with what was said instead. */
export function ok<T>(outcome: Outcome<T>): T {
  if (!isOk(outcome)) throw new Error(JSON.stringify(outcome));
  return outcome.ok;
}

export function outgoing(signer: Signer, to: Route, text: string, fields: Partial<MessageInput> = {}): Outgoing {
  return { to, payload: signMessage(signer, { ts: Date.now(), text, ...fields, to: to.key }) };
}

export const textsOf = (items: readonly BusItem[]): string[] =>
  items.map(({ envelope }) => (envelope.payload as Json).text);

/** Timers that are due when the test says so. Begins at the system's time, so that what is signed holds. */
export class ManualTimers implements Timers {
  #nowMs = Date.now();
  #pending = new Map<number, { run: () => void; dueAtMs: number }>();
  #count = 0;

  now(): number {
    return this.#nowMs;
  }

  setTimeout(run: () => void, delayMs: number): unknown {
    this.#pending.set(++this.#count, { run, dueAtMs: this.#nowMs + delayMs });
    return this.#count;
  }

  clearTimeout(handle: unknown): void {
    this.#pending.delete(handle as number);
  }

  /** Lets time pass as it does: each timer at its time. */
  advance(ms: number): void {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const next = [...this.#pending].sort(([, a], [, b]) => a.dueAtMs - b.dueAtMs)[0];
      if (!next || next[1].dueAtMs > endMs) break;
      this.#nowMs = Math.max(this.#nowMs, next[1].dueAtMs);
      this.#fire(next[0]);
    }
    this.#nowMs = endMs;
  }

  /** The machine sleeps: the clock goes on, and each timer comes only at the end of it. */
  sleep(ms: number): void {
    this.#nowMs += ms;
    const due = [...this.#pending].filter(([, { dueAtMs }]) => dueAtMs <= this.#nowMs);
    for (const [handle] of due) this.#fire(handle);
  }

  /** Somebody sets the clock. What was to come after a time comes after that time all the same. */
  setBy(ms: number): void {
    this.#nowMs += ms;
    for (const timer of this.#pending.values()) timer.dueAtMs += ms;
  }

  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  #fire(handle: number): void {
    const timer = this.#pending.get(handle);
    this.#pending.delete(handle);
    timer?.run();
  }
}

/** A connection and all that it told, with a clock moved by hand. Closed with its test. */
export class Rig {
  readonly timers = new ManualTimers();
  readonly states: State[] = [];
  readonly welcomes: Welcome[] = [];
  readonly items: BusItem[] = [];
  readonly gaps: Gap[] = [];
  readonly refusals: (BusRefusal | Unreachable)[] = [];
  readonly connection: Connection;
  readonly clock: BusClock;
  readonly signer: Signer;
  readonly #watchers = new Set<() => void>();

  constructor(url: string, signer: Signer, options: Partial<ConnectionOptions> & { acks?: boolean } = {}) {
    const { acks = false, ...rest } = options;
    this.signer = signer;
    this.clock = options.clock ?? new BusClock();
    const ears: ConnectionEars = {
      onWelcome: (welcome) => this.#note(this.welcomes, welcome),
      onMessages: (items, generation) => {
        for (const item of items) this.#note(this.items, item);
        if (acks) this.connection.ack(items.at(-1)!.seq, generation);
      },
      onGap: (gap) => this.#note(this.gaps, gap),
      onRefused: (why) => this.#note(this.refusals, why),
      onState: (state) => this.#note(this.states, state),
    };
    this.connection = new Connection({
      url: busUrl(url),
      session: sid("s"),
      signer,
      clock: this.clock,
      timers: this.timers,
      random: () => 0.5,
      ears,
      ...rest,
    });
    onTestFinished(() => this.connection.close());
    this.connection.start();
  }

  get dials(): number {
    return this.states.filter(({ at }) => at === "dialing").length;
  }

  /** Until a state is reached, now or later. */
  async reaches<At extends State["at"]>(at: At): Promise<State & { at: At }> {
    await this.until(() => this.connection.state.at === at, at);
    return this.connection.state as State & { at: At };
  }

  /** Until there is a welcome more than so many. */
  welcomed(count = 1): Promise<void> {
    return this.until(() => this.welcomes.length >= count, `${count} welcomes`);
  }

  received(count: number): Promise<void> {
    return this.until(() => this.items.length >= count, `${count} messages`);
  }

  until(look: () => boolean, what: string): Promise<void> {
    if (look()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const watch = () => {
        if (!look()) return;
        clearTimeout(timer);
        this.#watchers.delete(watch);
        resolve();
      };
      const timer = setTimeout(() => {
        const seen = { states: this.states.slice(-8), welcomes: this.welcomes.length, refusals: this.refusals };
        reject(new Error(`no ${what}; it had ${JSON.stringify(seen)}`));
      }, WAIT_MAX_MS);
      this.#watchers.add(watch);
    });
  }

  #note<T>(list: T[], entry: T): void {
    list.push(entry);
    for (const watch of this.#watchers) watch();
  }
}

/** A server that is no bus, on loopback, gone with its test. */
export async function startStranger(listener?: RequestListener): Promise<{ url: string; server: Server }> {
  const server = createServer(listener);
  const sockets = new Set<Socket>(); // those too that became something else than HTTP
  server.on("connection", (socket) => sockets.add(socket));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(async () => {
    const closed = server.listening ? once(server, "close") : undefined;
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

/** Fails where a promise of the client throws: it must not. */
export async function unreachable(outcome: Promise<Outcome<unknown>>): Promise<string> {
  const answer = await outcome;
  expect(answer).toHaveProperty("unreachable");
  return (answer as Unreachable).unreachable;
}
