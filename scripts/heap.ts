/** PURE: a binary heap, of which the first is always known. */

export class Heap<Item> {
  readonly #items: Item[] = [];
  readonly #isBefore: (one: Item, other: Item) => boolean;

  /** @param isBefore never true both ways: of what it does not order, either may come first */
  constructor(isBefore: (one: Item, other: Item) => boolean) {
    this.#isBefore = isBefore;
  }

  /** Stays where it is; undefined: there is none. */
  get first(): Item | undefined {
    return this.#items[0];
  }

  put(item: Item): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#isBefore(item, items[above]!)) break;
      items[at] = items[above]!;
      at = above;
    }
    items[at] = item;
  }

  /** Takes the first; undefined: there is none. */
  take(): Item | undefined {
    const items = this.#items;
    const first = items[0];
    const last = items.pop();
    if (last === undefined || items.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= items.length) break;
      if (below + 1 < items.length && this.#isBefore(items[below + 1]!, items[below]!)) below++;
      if (!this.#isBefore(items[below]!, last)) break;
      items[at] = items[below]!;
      at = below;
    }
    items[at] = last;
    return first;
  }
}

/** When something happens, and when that was asked for: of what falls on one instant, what was asked for first comes first. */
export interface Timed {
  readonly atMs: number;
  readonly order: number;
}

export function isSooner(one: Timed, other: Timed): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}
