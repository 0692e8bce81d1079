/** Waits for the first word of a session's links: one that is open is enough, and those that all failed are an answer too. */

import type { State } from "../bus/connection-state.ts";
import type { Timers } from "../bus/timers.ts";
import { bestOf, standingOf } from "./bus-standing.ts";
import { unreachedOf } from "./readiness.ts";
import { within } from "./within.ts";

/** Why a bus cannot be used now. */
export interface Unreached {
  readonly code: NonNullable<ReturnType<typeof unreachedOf>>;
  /** As `whoami` says it. */
  readonly detail?: string;
}

/** A dial takes a few round trips; a person waits. */
const REACH_MAX_MS = 8_000;

export class Reach {
  readonly #states: () => readonly State[];
  readonly #timers: Timers;
  readonly #waiting = new Set<() => void>();

  constructor(states: () => readonly State[], timers: Timers) {
    this.#states = states;
    this.#timers = timers;
  }

  /** A link is open, waits after a failure, or has stopped. */
  changed(): void {
    if (!this.#isAnswered()) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** @returns undefined once a link is open; else why none is */
  async word(): Promise<Unreached | undefined> {
    if (!this.#isAnswered()) {
      const answered = new Promise<void>((resolve) => this.#waiting.add(resolve));
      await within(answered, REACH_MAX_MS, undefined, this.#timers);
    }
    const states = this.#states();
    const code = unreachedOf(states);
    if (code === undefined) return undefined;
    const { reason } = bestOf(states.map((state) => standingOf(state)));
    return reason === undefined ? { code } : { code, detail: reason };
  }

  #isAnswered(): boolean {
    const states = this.#states();
    return states.some(({ at }) => at === "open") || states.every(({ at }) => at !== "dialing" && at !== "idle");
  }
}
