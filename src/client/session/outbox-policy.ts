/**
 * PURE: the life of one outgoing message. Reads no storage, clock or randomness: all come in as arguments.
 *
 * Sending never fails for lack of a network. While a message is pending, each bus has a lane of its own, so that a
 * stalled bus never holds up another; it is stored as soon as one bus stored it, refused only when all have refused.
 *
 * | it is            | what happens                          | then     | why |
 * |------------------|---------------------------------------|----------|-----|
 * | not acked        | a bus stored it, or has it already    | stored   | a duplicate is an answer that was lost; it may come late |
 * | pending          | no answer                             | pending  | backoff with jitter; the same bytes again are free |
 * | pending          | a bus is full                         | pending  | after Retry-After, never sooner: back-pressure is not loss |
 * | pending          | our clock is off                      | pending  | the offset is learned: at once, but only once in a row |
 * | pending          | its own time is a little ahead        | pending  | until the bus's clock is there; other bytes would conflict |
 * | pending          | our clock is set back                 | pending  | due: how long it has waited is not known. What a full bus asked for is waited anew |
 * | pending          | a bus refused, another has not        | pending  | the other may know the recipient |
 * | pending          | the last bus refused                  | refused  | with that bus's reason |
 * | pending          | MESSAGE_RETAIN_MS is over             | expired  | no bus takes it any more |
 * | stored           | receipt: acked                        | acked    | for good, wherever it came from |
 * | stored at one    | receipt: expired, evicted             | the same | the recipient's disk never had it |
 * | stored at more   | receipt: expired, evicted             | stored   | the others still hold it |
 * | stored at one    | the bus has forgotten it              | pending  | another life of its storage: the same bytes again |
 * | stored           | any refusal or silence                | stored   | another bus's trouble unsays nothing |
 * | refused, expired | a refusal or silence                  | the same | it is settled |
 */

import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import type { Presence } from "../../protocol/presence.ts";
import type { Refusal, RefusalCode } from "../../protocol/refusal.ts";
import { treatmentOf, type Remedy } from "./refusal-treatment.ts";

/** First wait after no answer; doubles with each. */
export const BACKOFF_MIN_MS = 1_000;
/** Longest wait after no answer: a bus that came back is found within a minute even if nothing tells us. */
export const BACKOFF_MAX_MS = 60_000;
/** What a full bus is given if it names no time, and the most that it may ask for. */
export const RETRY_AFTER_DEFAULT_S = 30;
export const RETRY_AFTER_MAX_S = 3_600;
/** A message dated further ahead than this waits for no clock: the clock that dated it was wrong. */
export const AHEAD_WAIT_MAX_MS = 600_000;

/** A clock that went back by less was corrected, and stretches a wait by no more. */
export const SET_BACK_MIN_MS = 1_000;

/** A bus's local name. */
export type Bus = string;

/** How it stands with one bus that has not stored the message. A bus without a lane was not tried. */
export type Lane =
  | {
      readonly state: "pending";
      /** Tries in a row that got no answer. */
      readonly attempts: number;
      /** When the wait began. A clock that shows less was set back meanwhile. */
      readonly since_ms: number;
      readonly next_at_ms: number;
      /** Why it waits: the bus's code, or `no_answer`. */
      readonly why: RefusalCode | "no_answer";
    }
  | { readonly state: "refused"; readonly code: RefusalCode; readonly retry?: Remedy };

export type Life =
  /** `was_stored`: a bus held it and has forgotten it, so its recipient may have it nevertheless. */
  | { readonly state: "pending"; readonly lanes: Readonly<Record<Bus, Lane>>; readonly was_stored?: true }
  /** `buses`: where it waits for its recipient. `presence`, `age_ms`: of the recipient, as the bus said when it stored it. */
  | {
      readonly state: "stored";
      readonly at_ms: number;
      readonly buses: readonly Bus[];
      readonly presence?: Presence;
      readonly age_ms?: number;
    }
  | {
      readonly state: "refused";
      readonly at_ms: number;
      readonly bus: Bus;
      readonly code: RefusalCode;
      readonly retry?: Remedy;
    }
  | { readonly state: "acked"; readonly at_ms: number }
  /** `not_stored`: no bus holds it, last because of `last`. `never_acked`: it waited at a bus in vain. */
  | { readonly state: "expired"; readonly at_ms: number; readonly why: "not_stored"; readonly last?: string }
  | { readonly state: "expired"; readonly at_ms: number; readonly why: "never_acked" }
  | { readonly state: "evicted"; readonly at_ms: number };

/** What a bus said to one try. `silence`: no answer, or none that is one of ours (a fault, a proxy's page). */
export type Outcome =
  | { readonly outcome: "stored"; readonly presence?: Presence; readonly age_ms?: number }
  | { readonly outcome: "refused"; readonly refusal: Refusal }
  | { readonly outcome: "silence" };

/** One try, and all that the decision depends on. */
export interface Try {
  readonly bus: Bus;
  readonly outcome: Outcome;
  readonly nowMs: number;
  /** All buses that the message may go to now. */
  readonly buses: readonly Bus[];
  /** The message's own time. */
  readonly ts: number;
  /** From 0 up to 1, for the jitter. */
  readonly random: number;
}

export const NEW_LIFE: Life = { state: "pending", lanes: {} };
const FORGOTTEN_LIFE: Life = { state: "pending", lanes: {}, was_stored: true };

/**
 * What a try made of it.
 * @returns `offset_ms`: to be added to `nowMs` to have that bus's clock, where it was learned
 */
export function settle(life: Life, attempt: Try): { life: Life; offset_ms?: number } {
  const { bus, outcome, nowMs, buses, ts } = attempt;
  if (outcome.outcome === "stored") return { life: storedAt(life, bus, outcome, nowMs) };
  if (life.state !== "pending") return { life };
  if (outcome.outcome === "refused" && isTooOldFor(outcome.refusal, ts)) {
    return { life: { state: "expired", at_ms: nowMs, why: "not_stored", last: outcome.refusal.refused } };
  }
  const lanes = { ...life.lanes, [bus]: nextLane(life.lanes[bus], attempt) };
  const next = conclude({ ...life, lanes }, buses, nowMs, bus);
  const busNowMs = outcome.outcome === "refused" ? outcome.refusal.now_ms : undefined;
  return busNowMs === undefined ? { life: next } : { life: next, offset_ms: busNowMs - nowMs };
}

/** What a receipt says. `forgotten`: the bus knows nothing of a message that it had stored. */
export function applyReceipt(
  life: Life,
  bus: Bus,
  receipt: { state: "stored" | "acked" | "expired" | "evicted" | "forgotten"; at_ms: number },
): Life {
  const { state, at_ms } = receipt;
  if (life.state === "acked") return life;
  if (state === "acked") return { state, at_ms };
  if (state === "stored" || life.state !== "stored" || !life.buses.includes(bus)) return life;
  const buses = life.buses.filter((other) => other !== bus);
  if (buses.length > 0) return { ...life, buses };
  if (state === "forgotten") return FORGOTTEN_LIFE;
  return state === "expired" ? { state, at_ms, why: "never_acked" } : { state, at_ms };
}

/**
 * What time alone does, or a bus that is no longer configured: expiry, or refusal by all that are left.
 * @param ageMs since the message's own time, by the buses' clock as far as it is known
 */
export function passTime(life: Life, ageMs: number, buses: readonly Bus[], nowMs: number): Life {
  if (life.state !== "pending") return life;
  if (ageMs >= DEFAULT_LIMITS.MESSAGE_RETAIN_MS) {
    const last = Object.values(life.lanes).map((lane) => (lane.state === "pending" ? lane.why : lane.code))[0];
    return { state: "expired", at_ms: nowMs, why: "not_stored", ...(last === undefined ? {} : { last }) };
  }
  return conclude(life, buses, nowMs);
}

/** When a bus is next to be tried: 0 for one that was not, undefined where it is not to be. */
export function dueAtMs(life: Life, bus: Bus): number | undefined {
  if (life.state !== "pending") return undefined;
  const lane = life.lanes[bus];
  if (lane === undefined) return 0;
  return lane.state === "refused" ? undefined : lane.next_at_ms;
}

/** Waits that began later than it is now: the clock was set back, and would stretch them by as much. */
export function afterSetBack(life: Life, nowMs: number): Life {
  if (life.state !== "pending") return life;
  const lanes = Object.entries(life.lanes).map(([bus, lane]) => [bus, laneAfterSetBack(lane, nowMs)] as const);
  return lanes.every(([bus, lane]) => lane === life.lanes[bus]) ? life : { ...life, lanes: Object.fromEntries(lanes) };
}

/** A bus is there again: what waited only for an answer goes at once. What a full bus asked for stands. */
export function hurry(life: Life, bus: Bus, nowMs: number): Life {
  const lane = life.state === "pending" ? life.lanes[bus] : undefined;
  if (life.state !== "pending" || lane?.state !== "pending" || lane.why !== "no_answer") return life;
  return { ...life, lanes: { ...life.lanes, [bus]: { ...lane, next_at_ms: Math.min(lane.next_at_ms, nowMs) } } };
}

function storedAt(life: Life, bus: Bus, outcome: { presence?: Presence; age_ms?: number }, nowMs: number): Life {
  if (life.state === "acked") return life;
  if (life.state === "stored") return life.buses.includes(bus) ? life : { ...life, buses: [...life.buses, bus] };
  const { presence, age_ms } = outcome;
  return {
    state: "stored",
    at_ms: nowMs,
    buses: [bus],
    ...(presence === undefined ? {} : { presence }),
    ...(age_ms === undefined ? {} : { age_ms }),
  };
}

/** Pending, unless every bus there is has refused for good. */
function conclude(life: Life & { state: "pending" }, buses: readonly Bus[], nowMs: number, latest?: Bus): Life {
  if (buses.length === 0 || !buses.every((bus) => life.lanes[bus]?.state === "refused")) return life;
  const bus = latest !== undefined && buses.includes(latest) ? latest : buses[0]!;
  const { code, retry } = life.lanes[bus] as Lane & { state: "refused" };
  return { state: "refused", at_ms: nowMs, bus, code, ...(retry === undefined ? {} : { retry }) };
}

function laneAfterSetBack(lane: Lane, nowMs: number): Lane {
  if (lane.state === "refused" || lane.since_ms - nowMs <= SET_BACK_MIN_MS) return lane;
  const isAskedFor = lane.why !== "no_answer" && treatmentOf(lane.why).treatment === "back_pressure";
  const waitMs = isAskedFor ? lane.next_at_ms - lane.since_ms : 0;
  return { ...lane, since_ms: nowMs, next_at_ms: nowMs + waitMs };
}

function nextLane(lane: Lane | undefined, { outcome, nowMs, ts, random }: Try): Lane {
  const before = lane?.state === "pending" ? lane : undefined;
  const unanswered = (why: RefusalCode | "no_answer"): Lane => {
    const attempts = (before?.attempts ?? 0) + 1;
    return { state: "pending", attempts, since_ms: nowMs, next_at_ms: nowMs + backoffMs(attempts, random), why };
  };
  if (outcome.outcome !== "refused") return unanswered("no_answer");
  const { refused: code, status, retry_after_s, now_ms } = outcome.refusal;
  const { treatment, retry } = treatmentOf(code, status);
  const waitUntil = (next_at_ms: number): Lane => {
    return { state: "pending", attempts: 0, since_ms: nowMs, next_at_ms, why: code };
  };
  switch (treatment) {
    case "for_good":
      return { state: "refused", code, ...(retry === undefined ? {} : { retry }) };
    case "back_pressure": {
      const seconds = Math.min(Math.max(retry_after_s ?? RETRY_AFTER_DEFAULT_S, 1), RETRY_AFTER_MAX_S);
      // Jitter only above: sooner than asked would be refused again.
      return waitUntil(nowMs + Math.ceil(seconds * 1_000 * (1 + random / 4)));
    }
    case "our_clock":
      // A second time in a row the offset did not help, so trying at once again would not either.
      return before?.why === code || now_ms === undefined ? unanswered(code) : waitUntil(nowMs);
    case "message_clock": {
      const waitMs = now_ms === undefined ? 0 : ts - DEFAULT_LIMITS.CLOCK_SKEW_MS - now_ms;
      if (waitMs > AHEAD_WAIT_MAX_MS) return { state: "refused", code, retry: "as_a_new_message" };
      return waitMs > 0 ? waitUntil(nowMs + waitMs) : unanswered(code);
    }
    case "not_heard":
      return unanswered(code);
  }
}

/** Half fixed, half drawn: never at once, and never all together. */
function backoffMs(attempts: number, random: number): number {
  const full = Math.min(BACKOFF_MIN_MS * 2 ** Math.min(attempts - 1, 16), BACKOFF_MAX_MS);
  return Math.ceil(full / 2 + (full / 2) * random);
}

function isTooOldFor({ refused, now_ms }: Refusal, ts: number): boolean {
  return refused === "ts_out_of_range" && now_ms !== undefined && now_ms - ts >= DEFAULT_LIMITS.MESSAGE_RETAIN_MS;
}
