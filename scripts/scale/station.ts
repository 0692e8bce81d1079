/**
 * PURE: one object as a queue: one thread, first come first served, the same time for each. With arrivals that know
 * nothing of each other that is the M/D/1 of the textbooks, whose mean wait is known in closed form.
 *
 * The platform refuses ("overloaded") what would wait too long instead of queueing without end; it does not say from when.
 */

export interface StationOptions {
  readonly perS: number;
  /** What would wait longer is refused at once. */
  readonly waitMaxMs: number;
}

export class Station {
  readonly #serviceMs: number;
  readonly #waitMaxMs: number;
  #freeAtMs = -Infinity;
  #served = 0;
  #refused = 0;
  #waitedMs = 0;

  constructor({ perS, waitMaxMs }: StationOptions) {
    this.#serviceMs = 1_000 / perS;
    this.#waitMaxMs = waitMaxMs;
  }

  get served(): number {
    return this.#served;
  }
  get refused(): number {
    return this.#refused;
  }
  /** Of those that were served, before their turn. */
  get meanWaitMs(): number {
    return this.#served === 0 ? 0 : this.#waitedMs / this.#served;
  }

  /**
   * An arrival, none earlier than the one before.
   * @param costOf told when its turn comes; how much longer than usual it then takes
   * @returns when it is done, or undefined: refused
   */
  take(nowMs: number, costOf: (beginsAtMs: number) => number = () => 1): number | undefined {
    const beginsAtMs = Math.max(nowMs, this.#freeAtMs);
    if (beginsAtMs - nowMs > this.#waitMaxMs) {
      this.#refused++;
      return undefined;
    }
    this.#served++;
    this.#waitedMs += beginsAtMs - nowMs;
    this.#freeAtMs = beginsAtMs + this.#serviceMs * costOf(beginsAtMs);
    return this.#freeAtMs;
  }
}

/** The mean wait before service of M/D/1, by Pollaczek and Khinchine. @param load arrivals over capacity, below 1 */
export function meanWaitOfMD1Ms(load: number, perS: number): number {
  return ((load / (2 * (1 - load))) * 1_000) / perS;
}
