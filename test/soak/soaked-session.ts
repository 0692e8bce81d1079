/** A session that stays: it pings, acks what comes, and dials again whenever its socket is over. */

import { setTimeout as delay } from "node:timers/promises";
import type { Agent } from "../support/agent.ts";
import { Application, SessionSocket } from "../support/session-socket.ts";

const REDIAL_MS = 100;

export const SESSION = "s";

export class SoakedSession {
  readonly agent: Agent;
  readonly application = new Application();
  reconnects = 0;
  /** Handshakes that failed. */
  failures = 0;
  /** When its last ping went out, and how much had come by then. */
  lastBeat = { atMs: 0, items: 0 };
  #socket: SessionSocket | undefined;
  #isOver = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(agent: Agent) {
    this.agent = agent;
  }

  /** Returns once it is connected. @param firstMs when it pings first, so that not all do at once */
  async begin(heartbeatMs: number, firstMs: number): Promise<void> {
    this.#socket = await this.#dial();
    this.#loop = this.#stay(heartbeatMs, performance.now() + firstMs);
  }

  get isConnected(): boolean {
    return this.#socket !== undefined && this.#socket.close === undefined;
  }

  /** Acks and pings alike are signs of life; true if the last ping was the last of them. */
  get isQuietSinceBeat(): boolean {
    return this.#socket?.items.length === this.lastBeat.items;
  }

  /** As a network that breaks. */
  breakOff(): void {
    this.#socket?.terminate();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#loop;
    if (this.isConnected) await this.#socket!.end();
  }

  async #stay(heartbeatMs: number, firstAtMs: number): Promise<void> {
    for (let dueAtMs = firstAtMs; !this.#isOver; await delay(REDIAL_MS)) {
      if (!this.isConnected) {
        try {
          this.#socket = await this.#dial();
          this.reconnects++;
        } catch {
          this.failures++;
        }
      } else if (performance.now() >= dueAtMs) {
        this.#beat();
        dueAtMs += heartbeatMs;
      }
    }
  }

  #dial(): Promise<SessionSocket> {
    this.lastBeat = { atMs: Date.now(), items: 0 };
    return SessionSocket.open(this.agent, SESSION, { application: this.application, acks: true });
  }

  #beat(): void {
    const socket = this.#socket!;
    this.lastBeat = { atMs: Date.now(), items: socket.items.length };
    socket.beat();
  }
}
