/** PURE: what happens next. A binary heap by time; of what falls on one instant, what was put down first comes first. */

interface Entry<What> {
  readonly atMs: number;
  readonly order: number;
  readonly what: What;
}

export class Agenda<What> {
  readonly #heap: Entry<What>[] = [];
  #order = 0;

  put(atMs: number, what: What): void {
    const heap = this.#heap;
    const entry = { atMs, order: this.#order++, what };
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(entry, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = entry;
  }

  /** Takes the earliest, or undefined when nothing is left. */
  next(): { readonly atMs: number; readonly what: What } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (!first || !last || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Entry<unknown>, b: Entry<unknown>): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
