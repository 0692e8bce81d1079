/**
 * The bus's clock as an offset to ours, and the times that we sign with.
 *
 * A machine's clock may be minutes off, and the bus takes what is within a minute of its own. What it says of its
 * clock is only used for what is signed for that bus: one clock a bus, never shared.
 */

import { DEFAULT_LIMITS } from "../../protocol/constants.ts";

/**
 * Largest offset that is believed. Beyond it certificates fail too, so no honest bus is lost; and a bus must not
 * have us sign announcements and goodbyes for years to come, which hold at any bus.
 */
export const OFFSET_MAX_MS = 7 * 24 * 3_600_000;

export class BusClock {
  readonly #now: () => number;
  #offsetMs = 0;
  #lastTs = 0;

  /** @param now our own wall clock in Unix milliseconds */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** The bus's clock minus ours, as last learned. */
  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** What the bus's clock should show now, in Unix milliseconds. */
  now(): number {
    return Math.max(0, Math.round(this.#now() + this.#offsetMs));
  }

  /**
   * Takes the bus's word for its time.
   * @param busNowMs `now_ms` of an answer or a welcome
   * @param askedAtMs our clock when we asked; the bus read its own somewhere between then and now
   * @returns false if the offset is past belief, and nothing was learned
   */
  learn(busNowMs: number, askedAtMs = this.#now()): boolean {
    const heardAtMs = this.#now();
    // A clock that was set back, or a sleep, while we waited: then only the end of the wait says something.
    const waitedMs = heardAtMs - askedAtMs;
    const readAtMs = waitedMs >= 0 && waitedMs <= DEFAULT_LIMITS.CLOCK_SKEW_MS ? askedAtMs + waitedMs / 2 : heardAtMs;
    const offsetMs = busNowMs - readAtMs;
    if (Math.abs(offsetMs) > OFFSET_MAX_MS) return false;
    this.#offsetMs = offsetMs;
    // A time so far ahead was refused when we signed with it: to stay above it would be refused again and again.
    if (this.#lastTs > this.now() + DEFAULT_LIMITS.CLOCK_SKEW_MS) this.#lastTs = 0;
    return true;
  }

  /** A `ts` for an announcement, an unregister or a contact list: each above the one before, as the bus asks. */
  nextTs(): number {
    this.#lastTs = Math.max(this.now(), this.#lastTs + 1);
    return this.#lastTs;
  }
}
