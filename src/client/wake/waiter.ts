/**
 * The Stop hook that waits for mail: one at a time. The newest one stays, since it belongs to the turn that was last; the one
 * before ends in silence.
 */

import type { WakeWords } from "../tools/render-wake.ts";
import type { Waiting } from "./hook-server.ts";

export class Waiter {
  #waiting: Waiting | undefined;

  get isThere(): boolean {
    return this.#waiting !== undefined;
  }

  arm(waiting: Waiting): void {
    this.dismiss("replaced");
    this.#waiting = waiting;
    waiting.onGone(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
    });
    waiting.answer({ say: "armed" });
  }

  /** @returns false: it is gone */
  wake({ plain }: WakeWords): boolean {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.end({ say: "tell", text: plain });
    return waiting !== undefined;
  }

  dismiss(why: string): void {
    this.#waiting?.end({ say: "no", why });
    this.#waiting = undefined;
  }
}
