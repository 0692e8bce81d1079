/** The load: senders with one request in flight each, over requests that were encoded before. */

import type { Prepared, Sender } from "./adapter.ts";
import type { Ledger } from "./ledger.ts";

/** A request together with the numbers of its messages. */
interface Loaded {
  readonly numbers: readonly number[];
  readonly request: Prepared;
}

/** Messages a lane encodes at a time while it warms up. */
const WARM_CHUNK = 8;

/** One sender, and the one recipient that it writes to. */
export class Lane {
  #sender: Sender;
  #recipient: string;
  #ledger: Ledger;
  #batch: number;
  #ready: Loaded[] = [];

  /** @param batch messages in a request */
  constructor(sender: Sender, recipient: string, ledger: Ledger, batch = 1) {
    this.#sender = sender;
    this.#recipient = recipient;
    this.#ledger = ledger;
    this.#batch = batch;
  }

  get ready(): number {
    return this.#ready.length;
  }

  /** Encodes until `count` requests are ready. */
  prepare(count: number): void {
    while (this.#ready.length < count) this.#ready.unshift(this.#encode());
  }

  /**
   * Sends one request. One that was not prepared is encoded now, on the clock.
   * @returns the numbers that were accepted
   */
  async sendOne(): Promise<readonly number[]> {
    const { numbers, request } = this.#ready.pop() ?? this.#encode();
    await this.#sender.send(request);
    this.#ledger.accept(numbers);
    return numbers;
  }

  #encode(): Loaded {
    const numbers = this.#ledger.mint(this.#batch);
    return { numbers, request: this.#sender.encode(this.#recipient, this.#ledger.texts(numbers)) };
  }
}

/**
 * Sends on every lane until the deadline, and lets the last answers come in.
 * @returns messages accepted before the deadline
 */
export async function sendUntil(lanes: readonly Lane[], deadline: number): Promise<number> {
  let accepted = 0;
  await Promise.all(
    lanes.map(async (lane) => {
      while (performance.now() < deadline) {
        const { length } = await lane.sendOne();
        if (performance.now() <= deadline) accepted += length;
      }
    }),
  );
  return accepted;
}

/**
 * Sends for about `ms` milliseconds, encoding between the bursts, so that what is encoded then is enough and not
 * much more.
 * @returns requests a second on the busiest lane
 */
export async function warmUp(lanes: readonly Lane[], ms: number): Promise<number> {
  let spent = 0;
  let rate = 0;
  for (let chunk = WARM_CHUNK; spent < ms; chunk *= 2) {
    for (const lane of lanes) lane.prepare(chunk);
    const start = performance.now();
    const budget = start + Math.max(ms - spent, ms / 4);
    await Promise.all(
      lanes.map(async (lane) => {
        while (lane.ready > 0 && performance.now() < budget) await lane.sendOne();
      }),
    );
    const took = performance.now() - start;
    const most = Math.max(...lanes.map((lane) => chunk - lane.ready));
    rate = (most / took) * 1_000;
    spent += took;
  }
  return rate;
}

/** Encodes what the lanes may need for `ms` milliseconds at this rate, with a margin since rates rise when warm. */
export function prepareFor(lanes: readonly Lane[], rate: number, ms: number): void {
  const count = Math.ceil((rate * ms * 1.5) / 1_000) + WARM_CHUNK;
  for (const lane of lanes) lane.prepare(count);
}

/** Sends `count` messages over all lanes, as fast as they go. */
export async function sendCount(lanes: readonly Lane[], count: number): Promise<void> {
  let left = count;
  await Promise.all(
    lanes.map(async (lane) => {
      while (left-- > 0) await lane.sendOne();
    }),
  );
}
