/**
 * Which messages were encoded, accepted and received. A fast bus that loses a message has no place in the table, so
 * every measure that receives ends with {@link Ledger.settle}.
 */

import type { Sink } from "./adapter.ts";
import { numberOf, textOf } from "./texts.ts";

export class Ledger implements Sink {
  #next = 0;
  #accepted: number[] = [];
  /** By number; a hole is a message that has not come. */
  #arrivedAt: number[] = [];
  #received = 0;
  #duplicates = 0;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;

  /** Distinct messages received. */
  get received(): number {
    return this.#received;
  }
  /** Second and later arrivals; allowed, since every system here delivers at least once. */
  get duplicates(): number {
    return this.#duplicates;
  }
  get accepted(): number {
    return this.#accepted.length;
  }

  /** Numbers for messages to come. */
  mint(count: number): number[] {
    return Array.from({ length: count }, () => this.#next++);
  }

  /** The texts of numbers, ready to encode. */
  texts(numbers: readonly number[]): string[] {
    return numbers.map(textOf);
  }

  /** The system has answered for these. */
  accept(numbers: readonly number[]): void {
    for (const n of numbers) this.#accepted.push(n);
  }

  receive(texts: readonly string[]): void {
    const now = performance.now();
    for (const text of texts) {
      const n = numberOf(text);
      if (this.#arrivedAt[n] === undefined) {
        this.#arrivedAt[n] = now;
        this.#received++;
      } else {
        this.#duplicates++;
      }
    }
    this.#wake?.();
  }

  fail(error: Error): void {
    this.#failure ??= error;
    this.#wake?.();
  }

  /** When a message came, on the clock of `performance.now()`. */
  arrivalOf(n: number): number | undefined {
    return this.#arrivedAt[n];
  }

  /**
   * Resolves once every accepted message has been received; more sends must not be accepted meanwhile.
   * @throws if a receiver failed, or some have not come in `timeoutMs`
   */
  async settle(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    let checked = 0;
    for (;;) {
      if (this.#failure) throw this.#failure;
      while (checked < this.#accepted.length && this.#arrivedAt[this.#accepted[checked]!] !== undefined) checked++;
      if (checked === this.#accepted.length) return;
      const left = deadline - performance.now();
      if (left <= 0) {
        const missing = this.#accepted.filter((n) => this.#arrivedAt[n] === undefined).length;
        throw new Error(`${missing} of ${this.#accepted.length} accepted messages did not arrive in ${timeoutMs} ms`);
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = undefined;
    }
  }
}
