/** PURE: how many things fell into each stretch of time. */

export class Tally {
  readonly #widthMs: number;
  readonly #counts = new Map<number, number>();
  #total = 0;

  constructor(widthMs = 1_000) {
    this.#widthMs = widthMs;
  }

  add(atMs: number, count = 1): void {
    const bin = Math.floor(atMs / this.#widthMs);
    this.#counts.set(bin, (this.#counts.get(bin) ?? 0) + count);
    this.#total += count;
  }

  get total(): number {
    return this.#total;
  }
  /** The most in one stretch. */
  get peak(): number {
    return Math.max(0, ...this.#counts.values());
  }

  /** Stretches from the first instant on, empty ones too. */
  bins(count: number): number[] {
    return Array.from({ length: count }, (_, bin) => this.#counts.get(bin) ?? 0);
  }
}

/** The instant by which a share of sorted or unsorted instants has come. */
export function reached(instants: readonly number[], share: number): number {
  const sorted = instants.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}
