/**
 * What waited on the buses when we came. A host may start us and ask for mail in one breath, and "none" would not be true
 * before each bus has said what waits and the first of it is on our disk. Waited for once, and not for long.
 */

import type { Timers } from "../bus/timers.ts";
import type { Bus } from "./outbox-policy.ts";
import { within } from "./within.ts";

/** A bus that is there needs a few round trips; for one that stalls nobody waits longer than for a roster. */
const BACKLOG_MAX_MS = 1_500;

export class Backlog {
  readonly #timers: Timers;
  /** Buses of which it is not known yet. */
  readonly #open: Set<Bus>;
  #come: Promise<void> = Promise.resolve();
  #done: () => void = () => {};

  constructor(buses: readonly Bus[], timers: Timers) {
    this.#open = new Set(buses);
    this.#timers = timers;
  }

  /** The buses are dialled now. */
  begin(): void {
    const all = new Promise<void>((resolve) => (this.#done = resolve));
    this.#come = within(all, BACKLOG_MAX_MS, undefined, this.#timers);
    this.#look();
  }

  /** Nothing (more) is to be waited for from this bus: nothing waits, the first of it is kept, or it is away. */
  settled(bus: Bus): void {
    this.#open.delete(bus);
    this.#look();
  }

  /** Resolves at once, but for the moment after the beginning. */
  come(): Promise<void> {
    return this.#come;
  }

  #look(): void {
    if (this.#open.size === 0) this.#done();
  }
}
