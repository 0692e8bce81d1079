/** Time as this room takes it, so that a test can move it instead of waiting. */

export interface Timers {
  /** Wall clock in Unix milliseconds: it goes on while the machine sleeps, which is how a sleep is noticed. */
  now(): number;
  /** Runs `run` once after `delayMs`. @returns what {@link clearTimeout} takes */
  setTimeout(run: () => void, delayMs: number): unknown;
  clearTimeout(handle: unknown): void;
}

export const systemTimers: Timers = {
  now: () => Date.now(),
  setTimeout: (run, delayMs) => setTimeout(run, delayMs),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
};
