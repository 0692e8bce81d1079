/** A session on one bus, as the switchboard holds it. */

import type { Key } from "../../protocol/address.ts";
import type { Agent, ToolRefusal } from "./agent.ts";
import type { Standing } from "./bus-standing.ts";
import type { Session } from "./running-session.ts";
import type { Held } from "./switchboard.ts";

export class OnBus implements Held<ToolRefusal> {
  readonly #session: Session;
  readonly #nameOf: () => string;
  readonly #leaveMs: number;

  /** @param nameOf the user may give a bus another name while we are on it */
  constructor(session: Session, nameOf: () => string, leaveMs: number) {
    this.#session = session;
    this.#nameOf = nameOf;
    this.#leaveMs = leaveMs;
  }

  get name(): string {
    return this.#nameOf();
  }

  get key(): Key {
    return this.#session.key;
  }

  get agent(): Agent {
    return this.#session;
  }

  get isThere(): boolean {
    return this.#session.isThere;
  }

  get isSpent(): boolean {
    return this.#session.isSpent;
  }

  begin(): void {
    this.#session.begin();
  }

  async reach(): Promise<ToolRefusal | undefined> {
    const unreached = await this.#session.reach();
    return unreached && { ...unreached, connect: this.name };
  }

  retire(): Promise<void> {
    return this.#session.retire(this.#leaveMs);
  }

  close(withinMs: number): Promise<void> {
    return this.#session.close(withinMs);
  }

  standing(): Standing {
    return this.#session.standing();
  }

  counts(): { readonly unread: number; readonly pending: number } {
    return this.#session.counts();
  }

  noteReading(): void {
    this.#session.noteReading();
  }

  hasMessage(idPrefix: string): boolean {
    return this.#session.hasMessage(idPrefix);
  }
}
