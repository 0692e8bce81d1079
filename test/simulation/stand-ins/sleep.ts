/** `node:timers/promises` in virtual time. */

import { lifeNow } from "../life.ts";

export function setTimeout(delayMs = 0): Promise<void> {
  const life = lifeNow();
  return new Promise((resolve) => {
    life.effect("sleep");
    life.world.scheduler.after(delayMs, "wakes", resolve, life);
  });
}
