/** PURE: what happens next. Of what falls on one instant, what was put down first comes first. */

import { Heap, isSooner, type Timed } from "../heap.ts";

export class Agenda<What> {
  readonly #heap = new Heap<Timed & { readonly what: What }>(isSooner);
  #order = 0;

  put(atMs: number, what: What): void {
    this.#heap.put({ atMs, order: this.#order++, what });
  }

  /** Takes the earliest, or undefined when nothing is left. */
  next(): { readonly atMs: number; readonly what: What } | undefined {
    return this.#heap.take();
  }
}
