/**
 * PURE: an exact rate limit, ten seconds' worth at once. Reads no clock.
 *
 * Buckets live in an object's memory alone. The platform keeps that for ten seconds after the last call,
 * and in ten seconds a bucket is full again, so one that was forgotten loses nothing.
 */

const BURST_S = 10;
/** Above this many, full buckets are dropped: they are what a new one would be. */
const SWEEP_ABOVE = 256;

interface Bucket {
  readonly tokens: number;
  readonly atMs: number;
}

export class TokenBuckets {
  readonly #perS: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perS: number) {
    this.#perS = perS;
  }

  /** Takes `count` tokens of a name, or none of them. @returns whole seconds until it would work; 0: taken */
  take(name: string, count: number, nowMs: number): number {
    const tokens = this.#tokensOf(name, nowMs);
    const cost = Math.min(count, this.#perS * BURST_S); // what is larger than a bucket takes a full one
    if (tokens < cost) return Math.max(1, Math.ceil((cost - tokens) / this.#perS));
    if (this.#buckets.size > SWEEP_ABOVE) this.#sweep(nowMs);
    this.#buckets.set(name, { tokens: tokens - cost, atMs: nowMs });
    return 0;
  }

  #tokensOf(name: string, nowMs: number): number {
    const bucket = this.#buckets.get(name);
    const full = this.#perS * BURST_S;
    return bucket ? Math.min(full, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) / 1_000) * this.#perS) : full;
  }

  #sweep(nowMs: number): void {
    const full = this.#perS * BURST_S;
    for (const name of this.#buckets.keys()) if (this.#tokensOf(name, nowMs) >= full) this.#buckets.delete(name);
  }
}
