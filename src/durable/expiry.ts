/**
 * PURE: when an identity's alarm must ring next. Reads no storage and no clock.
 *
 * One alarm for all due times. It may ring late, twice, or after what it was set for has changed: its
 * handler looks at the rows and comes here again, so only too late would be wrong, never too early.
 */

import { keyBytes, type Key } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";

/** The oldest of each kind that is kept; undefined where there is none. */
export interface Kept {
  readonly seenAtMs?: number | undefined;
  readonly buriedAtMs?: number | undefined;
  readonly messageAtMs?: number | undefined;
  readonly knockAtMs?: number | undefined;
  readonly receiptAtMs?: number | undefined;
  /** When the last nonce may go. */
  readonly nonceExpiresAtMs?: number | undefined;
  /** When a call to another object is to be tried (again). */
  readonly callDueAtMs?: number | undefined;
  /** When a socket must sign again, or its last sign of life be written down. */
  readonly socketDueAtMs?: number | undefined;
  /** Since when nothing above is kept; undefined while something is. */
  readonly emptiedAtMs?: number | undefined;
  readonly hasContacts: boolean;
}

/**
 * Tombstones, ids and nonces past their time are swept at most this often. Kept a little longer they
 * change no answer: what they would refuse is refused by its own time as well. A sweep reads every
 * remembered id, so once an hour would cost more than all the sending.
 */
const SWEEP_MS = 86_400_000;
/** By how much of SOCKET_MAX_MS a socket may have to sign again sooner. */
const SOCKET_SPREAD = 1 / 4;

/**
 * An identity's own time of the day, in [0, 1): what none of them needs at a certain moment is not done by all at the same one.
 * Of other bytes than its shard, so that the identities of a shard are spread as well.
 */
export function phaseOf(key: Key): number {
  return new DataView(keyBytes(key).buffer).getUint32(2) / 2 ** 32;
}

/**
 * How long a socket may stay open. After a deployment all are opened within minutes of each other; a life of the same
 * length for all would bring that wave back every day.
 * @param phase see {@link phaseOf}
 */
export function socketLifeMs({ SOCKET_MAX_MS }: Pick<Limits, "SOCKET_MAX_MS">, phase: number): number {
  return SOCKET_MAX_MS - Math.floor(phase * SOCKET_SPREAD * SOCKET_MAX_MS);
}

/**
 * The next instant at which something is due, or undefined if the object need never wake.
 * @param phase see {@link phaseOf}
 */
export function nextWake(kept: Kept, limits: Limits, phase: number): number | undefined {
  const swept = (instant: number | undefined) => atPhase(instant, Math.floor(phase * SWEEP_MS));
  return earliest(
    after(kept.seenAtMs, limits.AWAY_RETAIN_MS),
    after(kept.messageAtMs, limits.MESSAGE_RETAIN_MS),
    after(kept.knockAtMs, limits.KNOCK_RETAIN_MS),
    kept.callDueAtMs,
    kept.socketDueAtMs,
    swept(after(kept.buriedAtMs, limits.AWAY_RETAIN_MS)),
    swept(after(kept.receiptAtMs, limits.DEDUPE_RETAIN_MS)),
    swept(kept.nonceExpiresAtMs),
    after(kept.emptiedAtMs, limits.GHOST_RETAIN_MS),
  );
}

/** True if nothing is kept but the identity's own row: a ghost. */
export function isEmpty(kept: Kept): boolean {
  const { hasContacts, emptiedAtMs: _, ...instants } = kept;
  return !hasContacts && Object.values(instants).every((instant) => instant === undefined);
}

/** True if an identity has been empty long enough to be deleted. */
export function isGhost(kept: Kept, nowMs: number, limits: Pick<Limits, "GHOST_RETAIN_MS">): boolean {
  return isEmpty(kept) && kept.emptiedAtMs !== undefined && nowMs - kept.emptiedAtMs >= limits.GHOST_RETAIN_MS;
}

function after(instant: number | undefined, retainMs: number): number | undefined {
  return instant === undefined ? undefined : instant + retainMs;
}

/** The first sweep that is not before an instant. */
function atPhase(instant: number | undefined, phaseMs: number): number | undefined {
  return instant === undefined ? undefined : Math.ceil((instant - phaseMs) / SWEEP_MS) * SWEEP_MS + phaseMs;
}

function earliest(...instants: (number | undefined)[]): number | undefined {
  const known = instants.filter((instant) => instant !== undefined);
  return known.length > 0 ? Math.min(...known) : undefined;
}
