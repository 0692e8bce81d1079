/**
 * Virtual time and what happens in it: one queue of events, ordered by time and then by when they were asked for. After
 * each event all microtasks are drained, so that nothing runs but by an event. Real time never passes here.
 *
 * Every event and every effect goes into a hash: two runs are the same if their hashes are.
 */

import { createHash } from "node:crypto";
import { Heap, isSooner } from "../../scripts/heap.ts";
import { Dead, current, type Life } from "./life.ts";

/** Where virtual time begins: far from any file's real time, which some production code compares with its clock. */
export const EPOCH_MS = 2_000_000_000_000;
/** Lines of the trace that a failure shows. */
const REMEMBERED_LINES = 80;

export interface Planned {
  atMs: number;
  readonly order: number;
  /** Whose it is: with its end it is off, and while its machine sleeps it waits. */
  readonly life: Life | undefined;
  readonly what: string;
  readonly run: () => void;
  isOff: boolean;
}

/** Taken before the simulation replaces the global one. */
const realImmediate = setImmediate;

export class Scheduler {
  nowMs = EPOCH_MS;
  events = 0;
  effects = 0;
  /** What no code should have thrown. */
  onFault: (fault: unknown, where: string) => void = () => {};
  /** Each line of the trace, for who wants to see it. */
  onLine: ((line: string) => void) | undefined;
  readonly #queue = new Heap<Planned>(isSooner);
  readonly #hash = createHash("sha256");
  readonly #lines: string[] = [];
  #turn: (() => void)[] = [];
  #order = 0;

  after(delayMs: number, what: string, run: () => void, life?: Life): Planned {
    const planned = { atMs: this.nowMs + Math.max(0, delayMs), order: this.#order++, life, what, run, isOff: false };
    this.#queue.put(planned);
    return planned;
  }

  /** When all that the event under way has set off has run. */
  atEndOfTurn(run: () => void): void {
    this.#turn.push(run);
  }

  /** Runs the next event. @returns false if there is none before `untilMs` */
  async step(untilMs: number): Promise<boolean> {
    for (;;) {
      const next = this.#queue.first;
      if (next === undefined || next.atMs > untilMs) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return false;
      }
      this.#queue.take();
      if (next.isOff || next.life?.isDead === true) continue;
      this.nowMs = Math.max(this.nowMs, next.atMs);
      const wakesAtMs = next.life?.place.frozenUntilMs ?? 0;
      if (wakesAtMs > this.nowMs) {
        next.atMs = wakesAtMs;
        this.#queue.put(next);
        continue;
      }
      await this.#run(next);
      return true;
    }
  }

  async runFor(durationMs: number): Promise<void> {
    const untilMs = this.nowMs + durationMs;
    while (await this.step(untilMs));
  }

  /** A line of the trace, which is part of what makes a run the same as another. */
  note(what: string, life?: Life): void {
    const line = `${((this.nowMs - EPOCH_MS) / 1_000).toFixed(6)} ${life?.name ?? "-"} ${what}`;
    this.#hash.update(line);
    this.#lines.push(line);
    if (this.#lines.length > REMEMBERED_LINES * 2) this.#lines.splice(0, REMEMBERED_LINES);
    this.onLine?.(line);
  }

  get lastLines(): readonly string[] {
    return this.#lines.slice(-REMEMBERED_LINES);
  }

  digest(): string {
    return this.#hash.copy().digest("hex").slice(0, 16);
  }

  async #run({ what, life, run }: Planned): Promise<void> {
    this.events++;
    this.note(what, life);
    try {
      if (life === undefined) run();
      else {
        life.effect(); // it may die before what comes to it
        current.run(life, run);
      }
    } catch (fault) {
      if (!(fault instanceof Dead)) this.onFault(fault, what);
    }
    // Nothing here waits for a thread or a clock, so when the loop has turned once every microtask has run.
    await new Promise((resolve) => realImmediate(resolve));
    while (this.#turn.length > 0) for (const end of this.#turn.splice(0)) end();
  }
}
