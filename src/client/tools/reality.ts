/**
 * When a session is real. Hosts start a server only to list its tools, to check its health, or to probe its era; a session that
 * announced itself then would flicker on every roster.
 *
 * Real is: a tool was called, or three seconds have passed since the era was settled by a request that is no probe.
 */

import type { Timers } from "../bus/timers.ts";

/** Every host's look at a server that was measured is over by then. */
export const REAL_AFTER_MS = 3_000;

export class Reality {
  readonly #begin: () => void;
  readonly #timers: Pick<Timers, "setTimeout" | "clearTimeout">;
  #timer: ReturnType<Timers["setTimeout"]> | undefined;
  #isOver = false;

  /** @param begin called once, when it is real */
  constructor(begin: () => void, timers: Pick<Timers, "setTimeout" | "clearTimeout">) {
    this.#begin = begin;
    this.#timers = timers;
  }

  /**
   * The era may have been settled. The first such request starts the clock.
   * @param isSettled asked when the time is over: a request with a wrong claim settles nothing
   */
  settled(isSettled: () => boolean): void {
    if (this.#isOver || this.#timer !== undefined) return;
    this.#timer = this.#timers.setTimeout(() => {
      this.#timer = undefined;
      if (isSettled()) this.called();
    }, REAL_AFTER_MS);
  }

  /** A tool was called. */
  called(): void {
    if (this.#isOver) return;
    this.stop();
    this.#begin();
  }

  /** It is over before it was real, or it is real. */
  stop(): void {
    this.#isOver = true;
    if (this.#timer !== undefined) this.#timers.clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
