/**
 * PURE. How often an agent process that ends is started again, and how soon.
 *
 * Ends that nobody asked for and planned handoffs are counted apart: a series of upgrades says nothing about crashes. When
 * either is spent, nothing is started for a time, and then one start is tried.
 */

export interface RestartLimits {
  /** Ends within {@link windowMs} that are put up with; one more opens the breaker. */
  readonly endsMax: number;
  readonly windowMs: number;
  /** How long the breaker stays open. */
  readonly openMs: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  readonly backoffFactor: number;
}

/**
 * The five waits are 100 ms, 300 ms, 900 ms, 2.7 s and 5 s. One crash is mended before a model notices. All of them take 9 s, which
 * leaves a process that dies as it starts 21 s for its six starts: a loop of crashes always fits in the window, and so is seen.
 */
export const RESTART_LIMITS: RestartLimits = {
  // A bug that comes now and then must not take the tools away; one that comes at each start must not burn a core.
  endsMax: 5,
  windowMs: 30_000,
  // Time for an installation on disk to become whole; short enough that a user who waits sees it heal.
  openMs: 60_000,
  // Less and the port, lock or file that the dead one held may not be free yet.
  backoffBaseMs: 100,
  // A model's call waits meanwhile; hosts begin to show that a call is slow after about this time.
  backoffMaxMs: 5_000,
  backoffFactor: 3,
};

/** `crash`: any end that nobody asked for, whatever its code. `handoff`: exit 75. */
export type EndKind = "crash" | "handoff";

export interface Budget {
  /** When they ended, within the window, the oldest first. */
  readonly crash: readonly number[];
  readonly handoff: readonly number[];
  /** The breaker was open, and this start is the trial: set until it has held for a window. */
  readonly trialSinceMs?: number;
}

export const NO_ENDS: Budget = { crash: [], handoff: [] };

/** What follows an end: another start, or the open breaker. */
export type Verdict = { readonly restartAtMs: number } | { readonly openUntilMs: number };

/** A process has ended. */
export function noteEnd(
  budget: Budget,
  kind: EndKind,
  nowMs: number,
  limits: RestartLimits,
): { readonly budget: Budget; readonly verdict: Verdict } {
  const { endsMax, windowMs, openMs, backoffBaseMs, backoffMaxMs, backoffFactor } = limits;
  const isRecent = (atMs: number) => nowMs - atMs < windowMs;
  const { trialSinceMs, ...rest } = budget;
  const isTrial = trialSinceMs !== undefined && isRecent(trialSinceMs);
  const ends = [...budget[kind].filter(isRecent), nowMs];
  if (ends.length > endsMax || (isTrial && kind === "crash")) {
    return { budget: NO_ENDS, verdict: { openUntilMs: nowMs + openMs } };
  }
  const waitMs = Math.min(backoffMaxMs, backoffBaseMs * backoffFactor ** (ends.length - 1));
  return {
    budget: { ...rest, [kind]: ends, ...(isTrial && { trialSinceMs }) },
    // The one before said goodbye in good order, so nothing of it is in the way.
    verdict: { restartAtMs: kind === "handoff" ? nowMs : nowMs + waitMs },
  };
}

/** The breaker's time is over, or somebody asked: one start is tried. */
export function beginTrial(nowMs: number): Budget {
  return { ...NO_ENDS, trialSinceMs: nowMs };
}
