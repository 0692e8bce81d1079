/**
 * One session's socket to one bus, kept up: dial, welcome, frames, heartbeat, redial. What happens when is decided
 * in connection-state.ts; here are the socket, the timer and the words.
 *
 * Each connection stands for itself: none waits for another's bus. A close of ours is final; what an attempt under way
 * brings later is not heard.
 */

import { formatRoute, type SessionId } from "../../protocol/address.ts";
import type { Announcement, Unregister } from "../../protocol/announcement.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { FRAME_VERSIONS, PING, PONG } from "../../protocol/frames.ts";
import type { WakeLease } from "../../protocol/wake-lease.ts";
import type { Gap } from "./answers.ts";
import { readFrame, type BusItem, type ReadFrame } from "./bus-frame.ts";
import type { BusUrl } from "./bus-url.ts";
import type { BusClock } from "./clock.ts";
import { NEW_LINK, step, type Event, type State } from "./connection-state.ts";
import { openLine as openWebSocket, type Line } from "./line.ts";
import type { BusRefusal, Unreachable } from "./outcome.ts";
import { toDelivery, type Outgoing } from "./outgoing.ts";
import { signRequest } from "./sign-request.ts";
import type { Signer } from "./signer.ts";
import { systemTimers, type Timers } from "./timers.ts";

/** The bus's first word on a new socket. */
export interface Welcome {
  /** Another one than before: the bus has forgotten all that was published. */
  readonly generation: string;
  readonly nowMs: number;
  /** Messages that wait: they come next. */
  readonly queued: number;
}

/** What a session is told. Each may call back into the connection, and must not throw. */
export interface ConnectionEars {
  /** The socket is open: announce, and publish anew where the generation is another. */
  onWelcome?(welcome: Welcome): void;
  /** Messages in their order, unverified. Ack when they are on disk, with this generation: `seq` counts within it. */
  onMessages?(items: readonly BusItem[], generation: string): void;
  /** Messages left our inbox without our ack. */
  onGap?(gap: Gap): void;
  /** A frame of ours, or a handshake, was refused or met a fault. The bus does not say which frame. */
  onRefused?(why: BusRefusal | Unreachable): void;
  /** Every step, pings and pongs too. Also from within `start`, `unregister` and `close`. */
  onState?(state: State): void;
}

export interface ConnectionOptions {
  readonly url: BusUrl;
  readonly session: SessionId;
  readonly signer: Signer;
  readonly clock: BusClock;
  readonly ears: ConnectionEars;
  /** What tokens are signed for, where the bus is dialled at another address than its own. Default: the url's origin. */
  readonly audience?: string;
  /** Between a pong and the next ping. Default: HEARTBEAT_MS. */
  readonly heartbeatMs?: number;
  readonly timers?: Timers;
  /** In [0, 1), for the jitter of redials. Default: Math.random. */
  readonly random?: () => number;
  /** How a line is opened. Default: as a WebSocket. */
  readonly openLine?: typeof openWebSocket;
}

/**
 * What became of a goodbye: the bus has it, or may have it, or has refused what may be it (it was dated by a clock that was
 * wrong, which it has set right by that), or there was no socket to say it on.
 */
export type Farewell = "unregistered" | "unconfirmed" | "refused" | "not_connected";

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #timers: Timers;
  readonly #heartbeatMs: number;
  readonly #random: () => number;
  #link = NEW_LINK;
  #line: Line | undefined;
  #timer: unknown;
  #dialledAtMs = 0;
  #bytesAtTick = 0;
  /** The life that the open socket's numbers belong to, and the highest of them that came on it. */
  #generation: string | undefined;
  #pushedThrough = 0;
  #farewells: ((farewell: Farewell) => void)[] = [];
  #isGoodbyeRefused = false;

  constructor(options: ConnectionOptions) {
    const { timers = systemTimers, heartbeatMs = DEFAULT_LIMITS.HEARTBEAT_MS, random = Math.random } = options;
    this.#options = options;
    this.#timers = timers;
    this.#heartbeatMs = heartbeatMs;
    this.#random = random;
  }

  get state(): State {
    return this.#link.state;
  }

  /** Begins to dial. Once; a connection that has stopped does not start again. */
  start(): void {
    this.#happen({ on: "start" });
  }

  /**
   * Acks all messages up to a number, of the life of the bus's storage that gave it.
   * @returns false if nothing was said: not open, another life, or not (yet) pushed on this socket. It comes again, then
   */
  ack(through: number, generation: string): boolean {
    if (this.state.at !== "open" || generation !== this.#generation || through > this.#pushedThrough) return false;
    return this.#say({ t: "ack", through });
  }

  /**
   * Says that the session is here. Nothing answers a frame that is taken; a refusal comes to `onRefused`.
   * @param shown what those see who are no contacts; absent: the session is hidden from them
   * @param wake what wakes it, for contacts; absent: what was said of it before is taken back
   * @returns false if the socket is not open
   */
  announce(announcement: Announcement, shown?: Announcement, wake?: WakeLease): boolean {
    if (this.state.at !== "open") return false;
    return this.#say({ t: "announce", announcement, ...(shown && { public: shown }), ...(wake && { wake }) });
  }

  /**
   * Says goodbye and ends the connection for good, whatever comes of it.
   * @param goodbyes signed messages for peers, at most BATCH_MAX, which the bus sends on
   * @returns within 250 ms; `not_connected` at once. After that, and after `refused`, it may still be said over HTTP
   */
  unregister({ ts, sig }: Unregister, goodbyes: readonly Outgoing[] = []): Promise<Farewell> {
    const { at } = this.state;
    if (at === "leaving") return new Promise((resolve) => this.#farewells.push(resolve));
    const isSaid = at === "open" && this.#say({ t: "unregister", ts, sig, goodbyes: goodbyes.map(toDelivery) });
    if (!isSaid) {
      this.close();
      return Promise.resolve("not_connected");
    }
    return new Promise((resolve) => {
      this.#farewells.push(resolve);
      this.#happen({ on: "unregister" });
    });
  }

  /** Ends the connection, not the session: for its peers it falls asleep. Final. */
  close(): void {
    this.#happen({ on: "close" });
  }

  #happen(event: Event): void {
    const before = this.#link;
    const moment = { nowMs: this.#timers.now(), random: this.#random(), heartbeatMs: this.#heartbeatMs };
    const { link, actions } = step(before, event, moment);
    if (link === before) return;
    this.#link = link;
    for (const action of actions) {
      if (action === "dial") this.#dial();
      else if (action === "ping") this.#line?.send(PING);
      else this.#letGo(action);
    }
    if (link.state.at === "waiting" || link.state.at === "stopped") this.#letGo(); // if it ended by itself
    this.#arm();
    if (link.state.at === "stopped") this.#farewell(link.state.why);
    this.#options.ears.onState?.(link.state);
  }

  #arm(): void {
    this.#timers.clearTimeout(this.#timer);
    const { state } = this.#link;
    if (!("dueAtMs" in state)) return;
    this.#bytesAtTick = this.#line?.bytesRead ?? 0;
    const tick = () => {
      this.#happen({ on: "tick", isStirring: (this.#line?.bytesRead ?? 0) > this.#bytesAtTick });
    };
    this.#timer = this.#timers.setTimeout(tick, Math.max(0, state.dueAtMs - this.#timers.now()));
  }

  #dial(): void {
    const { url, session, signer, clock, audience = url.origin, openLine = openWebSocket } = this.#options;
    this.#letGo("drop");
    this.#dialledAtMs = this.#timers.now();
    const target = `/socket?me=${encodeURIComponent(formatRoute({ key: signer.key, session }))}`;
    const token = signRequest(signer, { method: "WS", target, audience, ts: clock.now() });
    /** The epoch: whatever another line brings, late, is nobody's. */
    const ifOurs = (hear: () => void) => {
      if (this.#line === line) hear();
    };
    const line = openLine(url, target, token, {
      text: (data) => ifOurs(() => this.#hear(data)),
      binary: () => ifOurs(() => this.#happen({ on: "spoiled" })),
      failed: (why) =>
        ifOurs(() => {
          if ("refused" in why) this.#hearRefusal(why);
          this.#happen({ on: "failed", why });
        }),
      closed: (code, reason) => ifOurs(() => this.#happen({ on: "closed", code, reason })),
    });
    this.#line = line;
  }

  /** From here on nothing of this line is heard. */
  #letGo(how?: "drop" | "hangUp"): void {
    const line = this.#line;
    this.#line = undefined;
    this.#generation = undefined;
    this.#pushedThrough = 0;
    if (how) line?.[how]();
  }

  #hear(data: string): void {
    if (data === PONG) return this.#happen({ on: "pong" });
    const frame = readFrame(data);
    if (frame) this.#take(frame);
    else this.#happen({ on: "spoiled" });
  }

  #take(frame: ReadFrame): void {
    const { ears, clock } = this.#options;
    switch (frame.t) {
      case "welcome": {
        const { generation, now_ms: nowMs, queued, versions } = frame;
        if (this.state.at !== "dialing") return; // a second one says nothing
        clock.learn(nowMs, this.#dialledAtMs);
        this.#generation = generation;
        this.#happen({ on: "welcome", speaksOurs: versions.some((version) => FRAME_VERSIONS.includes(version)) });
        if (this.#generation === generation) ears.onWelcome?.({ generation, nowMs, queued });
        return;
      }
      case "messages": {
        const generation = this.#generation;
        if (generation === undefined) return this.#happen({ on: "spoiled" }); // numbers of no life
        this.#pushedThrough = Math.max(this.#pushedThrough, frame.items.at(-1)!.seq);
        ears.onMessages?.(frame.items, generation);
        return;
      }
      case "gap":
        ears.onGap?.({ count: frame.count, oldest_ts: frame.oldest_ts });
        return;
      case "err":
        this.#hearRefusal(frame.why);
        return;
      case "unknown":
        return;
    }
  }

  #hearRefusal(why: BusRefusal | Unreachable): void {
    if ("refused" in why && why.now_ms !== undefined) {
      // On an open socket nobody knows which frame is answered, so there is no wait to halve.
      this.#options.clock.learn(why.now_ms, this.state.at === "dialing" ? this.#dialledAtMs : undefined);
    }
    this.#options.ears.onRefused?.(why);
    if (this.state.at !== "leaving") return;
    this.#isGoodbyeRefused = true;
    this.close();
  }

  #say(frame: object): boolean {
    return this.#line?.send(JSON.stringify(frame)) ?? false;
  }

  #farewell(why: (State & { at: "stopped" })["why"]): void {
    const isKnown = why.by === "unregister" && why.isConfirmed;
    const farewell = isKnown ? "unregistered" : this.#isGoodbyeRefused ? "refused" : "unconfirmed";
    for (const resolve of this.#farewells.splice(0)) resolve(farewell);
  }
}
