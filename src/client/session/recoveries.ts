/** Being again where the process before was: tried a bounded number of times, each after a longer wait, and only while it is wanted. */

import type { Timers } from "../bus/timers.ts";
import type { Recovery, Target } from "./activation.ts";
import type { ToolRefusal } from "./agent.ts";

export interface RecoveriesOptions {
  readonly recover: (target: Target, into: Recovery["into"]) => void;
  readonly timers: Timers;
  /** In [0, 1). */
  readonly random: () => number;
}

/** What another process still holds is free within seconds; whatever else is wrong does not mend itself. */
export const RECOVERIES_MAX = 6;
const WAIT_MIN_MS = 500;

interface Wanted {
  readonly into: Recovery["into"];
  tries: number;
  timer?: unknown;
}

export class Recoveries {
  readonly #options: RecoveriesOptions;
  readonly #wanted = new Map<Target, Wanted>();

  constructor(options: RecoveriesOptions) {
    this.#options = options;
  }

  begin(target: Target, into: Recovery["into"]): void {
    this.#wanted.set(target, { into, tries: 1 });
    this.#options.recover(target, into);
  }

  failed(target: Target, { detail }: ToolRefusal): void {
    const wanted = this.#wanted.get(target);
    if (!wanted || detail !== "in_use" || wanted.tries >= RECOVERIES_MAX) return;
    const { timers, random, recover } = this.#options;
    const delayMs = WAIT_MIN_MS * 2 ** (wanted.tries++ - 1);
    wanted.timer = timers.setTimeout(() => recover(target, wanted.into), delayMs * (0.5 + random() / 2));
  }

  /** It is there: what becomes of it from now on is the user's to say. */
  arrived(target: Target): void {
    this.#wanted.delete(target);
  }

  /** The user has spoken of a bus: it is as they say now, and so is what is active. */
  overruled(target: Target): void {
    for (const [each, { into, timer }] of this.#wanted) {
      if (into !== "slot" && each !== target) continue;
      this.#options.timers.clearTimeout(timer);
      this.#wanted.delete(each);
    }
  }

  /** Where the process before was and this one is not yet, as far as the user has not said otherwise since. */
  wanted(into: Recovery["into"]): Target[] {
    return [...this.#wanted].flatMap(([target, wanted]) => (wanted.into === into ? [target] : []));
  }

  close(): void {
    for (const { timer } of this.#wanted.values()) this.#options.timers.clearTimeout(timer);
    this.#wanted.clear();
  }
}
