/**
 * PURE: when to dial again. Full jitter, so that the clients of a bus that comes back do not come all at once, and
 * a bound over any minute, so that no path through the connection's states can become a storm.
 */

/** Ceiling of the first wait. */
export const BACKOFF_BASE_MS = 1_000;
/** Ceiling of all waits: a bus that came back is noticed within this. */
export const BACKOFF_MAX_MS = 30_000;
/** Attempts in any {@link ATTEMPTS_WINDOW_MS}, whatever the reason, those "at once" too. */
export const ATTEMPTS_PER_MINUTE_MAX = 12;
export const ATTEMPTS_WINDOW_MS = 60_000;
/** A connection that held this long was a good one: the next failure is a first one again. */
export const HELD_MS = 10_000;

/** What is remembered of the attempts so far. */
export interface Attempts {
  /** Failures since a connection last held. */
  readonly failures: number;
  /** When the latest attempts began, oldest first; at most {@link ATTEMPTS_PER_MINUTE_MAX}. */
  readonly beganAtMs: readonly number[];
}

export const NO_ATTEMPTS: Attempts = { failures: 0, beganAtMs: [] };

/** An attempt begins. */
export function noteAttempt(attempts: Attempts, nowMs: number): Attempts {
  return { ...attempts, beganAtMs: [...past(attempts, nowMs), nowMs].slice(-ATTEMPTS_PER_MINUTE_MAX) };
}

/** An attempt or a connection failed. */
export function noteFailure(attempts: Attempts): Attempts {
  return { ...attempts, failures: attempts.failures + 1 };
}

/** A connection ended: only one that held starts the count anew, so that a bus that drops us at once is let be. */
export function noteEnd(attempts: Attempts, heldMs: number): Attempts {
  return heldMs >= HELD_MS ? noteFresh(attempts) : attempts;
}

/** What failed before says nothing any more: the machine slept. The bound over a minute stays. */
export function noteFresh(attempts: Attempts): Attempts {
  return { ...attempts, failures: 0 };
}

/**
 * A wait begins: what seems to come was just now, and is written down so. Else it would be just now whenever it is looked
 * at, and a wait for it would have no end before the clock is where it was.
 */
export function noteWait(attempts: Attempts, nowMs: number): Attempts {
  return { ...attempts, beganAtMs: past(attempts, nowMs) };
}

/** How long an attempt must wait for the bound alone; 0 if it may begin now. */
export function holdOffMs(attempts: Attempts, nowMs: number): number {
  const began = past(attempts, nowMs);
  if (began.length < ATTEMPTS_PER_MINUTE_MAX) return 0;
  return Math.max(0, began.at(-ATTEMPTS_PER_MINUTE_MAX)! + ATTEMPTS_WINDOW_MS - nowMs);
}

/**
 * How long to wait after a failure that {@link noteFailure} has counted.
 * @param random in [0, 1)
 */
export function backoffMs(attempts: Attempts, nowMs: number, random: number): number {
  const ceiling = Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** Math.max(0, attempts.failures - 1));
  return Math.max(Math.floor(random * ceiling), holdOffMs(attempts, nowMs));
}

/** A clock that was set back must not stretch the wait, nor open the bound: what seems to come was just now. */
function past({ beganAtMs }: Attempts, nowMs: number): number[] {
  return beganAtMs.map((atMs) => Math.min(atMs, nowMs));
}
