/** Waits for something no longer than it is worth. */

import type { Timers } from "../bus/timers.ts";

/** What `work` gives, or `late` if that takes longer; the work itself goes on. */
export function within<T>(work: Promise<T>, ms: number, late: T, timers: Timers): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = timers.setTimeout(() => resolve(late), ms);
    void work.then(resolve, reject).finally(() => timers.clearTimeout(timer));
  });
}
