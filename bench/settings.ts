/** How much is measured: the whole, and the small size that only shows that everything works. */

export interface Settings {
  readonly runs: number;
  /** Load before a reading, so that no system is measured cold. */
  readonly warmMs: number;
  readonly sendMs: number;
  readonly latencyMs: number;
  readonly drainCount: number;
  /** A drain is so short that a run takes the median of several. */
  readonly drainTimes: number;
  readonly fanInMs: number;
  readonly fanInSenders: number;
  readonly idleSessions: number;
  readonly idleMs: number;
  /** Twice as many are connected. */
  readonly memorySessions: number;
}

export const WHOLE: Settings = {
  runs: 3,
  warmMs: 1_000,
  sendMs: 3_000,
  latencyMs: 10_000,
  drainCount: 1_000,
  drainTimes: 5,
  fanInMs: 3_000,
  fanInSenders: 100,
  idleSessions: 200,
  idleMs: 60_000,
  memorySessions: 400,
};

export const QUICK: Settings = {
  runs: 1,
  warmMs: 200,
  sendMs: 500,
  latencyMs: 1_500,
  drainCount: 1_000,
  drainTimes: 1,
  fanInMs: 500,
  fanInSenders: 20,
  idleSessions: 20,
  idleMs: 3_000,
  memorySessions: 50,
};

/** Batches, where a system has them. */
export const BATCH = 50;
/** Longest that accepted messages may take to arrive after the last send. */
export const ARRIVAL_MAX_MS = 60_000;
