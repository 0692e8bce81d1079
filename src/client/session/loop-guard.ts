/**
 * PURE: how often this agent may be woken, and may answer by itself, before a human has looked. Reads no clock.
 *
 * A wake and an answer are turns of a model, and cost money; two agents, or a ring of three, would thank each other for
 * ever. Each peer has a budget, and all peers together have one. A budget that runs dry without a human refills at half
 * the speed each time; a peer's, after STOP_AFTER_DRY times, no more at all. So a loop does not go on at the rate of the
 * refill: it dies away and ends. Its mail stays where it is; only the wakes and the answers end.
 *
 * | asked for by       | its own budget | that of all       | then           | why |
 * |--------------------|----------------|-------------------|----------------|-----|
 * | any peer           | has some       | above the reserve | allowed        | |
 * | a quiet peer       | nearly full    | the reserve only  | allowed        | chatty ones must not starve it |
 * | any other peer     | has some       | the reserve only  | over: all      | together they are a loop too |
 * | any peer           | is dry         | any               | over: peer     | it comes back slower each time |
 * | any peer           | has stopped    | any               | over: peer     | a day of this without a human is a loop |
 */

/**
 * What is counted, each by itself. `wake`: a turn that a message begins. `reply`: a message that no human asked for, as
 * automatic-reply.ts says.
 */
export type Spending = "wake" | "reply";

interface Budget {
  /** As much at once. */
  readonly burst: number;
  /** Time for one more, while it has not run dry. */
  readonly refillMs: number;
  /** Time for one more at the slowest. */
  readonly refillMaxMs: number;
  /** Run dry this often without a human or a calm time, it refills no more. */
  readonly stopAfterDry: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** The refills before it take 0.5, 1, 2, 4, 8 and 16 hours: more than a day of answers at the limit. */
export const STOP_AFTER_DRY = 7;
/** For each peer: a delegated task with questions fits into one burst. */
export const PEER_BUDGET: Budget = {
  burst: 20,
  refillMs: 15 * MINUTE,
  refillMaxMs: 24 * HOUR,
  stopAfterDry: STOP_AFTER_DRY,
};
/**
 * For all together: three times as much, so that one peer alone never uses it up. It bounds the cost of a day whatever
 * the number of peers. Ending a loop is the peers' own budgets' part, so it goes down to one an hour and never stops:
 * one loop must not end the mail of everyone.
 */
export const ALL_BUDGET: Budget = { burst: 60, refillMs: 5 * MINUTE, refillMaxMs: HOUR, stopAfterDry: Infinity };
/** The part of {@link ALL_BUDGET} that only quiet peers may take. */
export const RESERVE = 12;
/** A peer is quiet while it lacks fewer than this of its own burst. */
export const QUIET_BELOW = 2;
/** A budget that came back to this share of its burst, unused, was not in a loop: it refills at full speed again. */
const CALM_SHARE = 1 / 4;

/** One token bucket. `dry`: how often in a row it was emptied without a human. */
export interface Bucket {
  readonly tokens: number;
  readonly at_ms: number;
  readonly dry: number;
}

/** Every bucket that is not full, by name; an empty map is a new guard. */
export type GuardState = ReadonlyMap<string, Bucket>;

export type Allowance =
  | { readonly allowed: true; readonly state: GuardState }
  | {
      readonly allowed: false;
      readonly spending: Spending;
      /** Whose budget is over: this peer's, or that of all peers together. */
      readonly over: "peer" | "all";
      /** When one more is allowed, if nothing else is spent until then. Absent: not before the human lifts it. */
      readonly refills_at_ms?: number;
    };

/** Spends one of a peer, if it may. The caller keeps the new state before it acts. */
export function spend(state: GuardState, spending: Spending, peer: string, nowMs: number): Allowance {
  const own = refill(state.get(nameOf(spending, peer)), PEER_BUDGET, nowMs);
  const all = refill(state.get(nameOf(spending)), ALL_BUDGET, nowMs);
  const isQuiet = own.tokens > PEER_BUDGET.burst - QUIET_BELOW;
  const needOfAll = isQuiet ? 1 : RESERVE + 1;
  const ownAtMs = hasAtMs(own, 1, PEER_BUDGET);
  const allAtMs = hasAtMs(all, needOfAll, ALL_BUDGET);
  if (ownAtMs > nowMs || allAtMs > nowMs) {
    const over = ownAtMs > nowMs ? "peer" : "all";
    const atMs = Math.max(ownAtMs, allAtMs);
    return { allowed: false, spending, over, ...(atMs === Infinity ? {} : { refills_at_ms: atMs }) };
  }
  const next = new Map([...state].filter(([name, bucket]) => !isFull(name, bucket, nowMs)));
  next.set(nameOf(spending, peer), take(own, 1));
  next.set(nameOf(spending), take(all, RESERVE + 1));
  return { allowed: true, state: next };
}

/**
 * Counted on from now where it was last counted later than that: the clock was set back, and nothing would refill before it
 * is there again. To be kept also where nothing is spent.
 */
export function afterSetBack(state: GuardState, nowMs: number): GuardState {
  if ([...state.values()].every(({ at_ms }) => at_ms <= nowMs)) return state;
  return new Map([...state].map(([name, bucket]) => [name, { ...bucket, at_ms: Math.min(bucket.at_ms, nowMs) }]));
}

/** What is left of one budget, for a person. */
export interface Left {
  readonly left: number;
  /** As much at most. */
  readonly of: number;
  /** With none left: when there is one again. Absent: not before the human lifts it. */
  readonly refills_at_ms?: number;
}

/** @param peer whose budget; absent: that of all together */
export function leftOf(state: GuardState, spending: Spending, peer: string | undefined, nowMs: number): Left {
  const budget = peer === undefined ? ALL_BUDGET : PEER_BUDGET;
  const bucket = refill(state.get(nameOf(spending, peer)), budget, nowMs);
  const atMs = hasAtMs(bucket, 1, budget);
  const isDry = atMs > nowMs && atMs !== Infinity;
  return { left: Math.floor(bucket.tokens + HAIR), of: budget.burst, ...(isDry && { refills_at_ms: atMs }) };
}

/** Whom something was spent on that has not come back yet. */
export function spentOn(state: GuardState): string[] {
  const names = [...state.keys()].filter((name) => name.includes(":"));
  return [...new Set(names.map((name) => name.slice(name.indexOf(":") + 1)))].sort();
}

/** The human looked: full budgets again, of one peer (and of all together), or of everyone. */
export function lift(state: GuardState, peer?: string): GuardState {
  if (peer === undefined) return new Map();
  const lifted = new Set(SPENDINGS.flatMap((spending) => [nameOf(spending), nameOf(spending, peer)]));
  return new Map([...state].filter(([name]) => !lifted.has(name)));
}

/** So much below a whole token is one: the sum of many refills is not exact. */
const HAIR = 1e-9;

const SPENDINGS: readonly Spending[] = ["wake", "reply"];

/** `wake` is the bucket of all, `wake:KEY` that of a peer. */
function nameOf(spending: Spending, peer?: string): string {
  return peer === undefined ? spending : `${spending}:${peer}`;
}

function budgetOf(name: string): Budget {
  return name.includes(":") ? PEER_BUDGET : ALL_BUDGET;
}

function intervalMs({ dry }: Bucket, { refillMs, refillMaxMs, stopAfterDry }: Budget): number {
  if (dry >= stopAfterDry) return Infinity;
  return Math.min(refillMs * 2 ** Math.min(dry, 16), refillMaxMs);
}

/** The bucket as it is now. A clock that went back refills nothing and takes nothing. */
function refill(bucket: Bucket | undefined, budget: Budget, nowMs: number): Bucket {
  if (!bucket) return { tokens: budget.burst, at_ms: nowMs, dry: 0 };
  const gained = Math.max(0, nowMs - bucket.at_ms) / intervalMs(bucket, budget);
  const tokens = Math.min(budget.burst, bucket.tokens + gained);
  const isCalm = tokens - bucket.tokens >= budget.burst * CALM_SHARE;
  return { tokens, at_ms: nowMs, dry: isCalm ? 0 : bucket.dry };
}

/** @param dryBelow with less than this left, the bucket has run dry once more */
function take({ tokens, at_ms, dry }: Bucket, dryBelow: number): Bucket {
  const left = tokens - 1;
  return { tokens: left, at_ms, dry: left < dryBelow ? dry + 1 : dry };
}

function hasAtMs(bucket: Bucket, need: number, budget: Budget): number {
  const missing = need - bucket.tokens;
  return missing <= HAIR ? bucket.at_ms : bucket.at_ms + Math.ceil(missing * intervalMs(bucket, budget));
}

function isFull(name: string, bucket: Bucket, nowMs: number): boolean {
  const budget = budgetOf(name);
  return refill(bucket, budget, nowMs).tokens >= budget.burst;
}
