/**
 * PURE. What peers are told of how this session is woken, and when it is told anew. Each announcement costs the bus a row, so
 * not each look is told, only what changes an answer.
 *
 * | what peers have been told        | what is known now             | then      | why |
 * |----------------------------------|-------------------------------|-----------|-----|
 * | nothing, or what is past         | nothing                       | nothing   | a lease ends by itself |
 * | nothing, or what is past         | a wake by a path was answered | it is said | |
 * | a path                           | nothing, or another path      | it is said | a path that was lost is taken back |
 * | a path, with half its time left  | the same, proven later        | nothing   | it holds for a while |
 * | a path, with less than that left | the same, proven later        | it is said | else it would end while it is true |
 */

import { WAKE_LEASE_MAX_MS } from "../../protocol/constants.ts";
import type { WakeLease } from "../../protocol/wake-lease.ts";
import type { WakeFacts, WakePathName } from "./chooser.ts";
import { LEASE_MS, wordOf, type Proof } from "./proof.ts";

/** A wake by this path was answered, by our own clock. */
export interface ProvenPath {
  readonly path: WakePathName;
  readonly proven_at_ms: number;
}

/** What is said of it, by the clock of the bus that it is said to. */
export type LeaseTerms = Pick<WakeLease, "path" | "proven_at_ms" | "until_ms">;

/**
 * What may be said now. Only of the path that the next wake goes by, or would go by once the turn is over: while a turn
 * runs no Stop hook waits, and none need. Of an update of a resource nothing is said, since known hosts begin no turn by it.
 */
export function provenPath(
  active: WakePathName | undefined,
  facts: WakeFacts,
  proofs: ReadonlyMap<WakePathName, Proof>,
  nowMs: number,
): ProvenPath | undefined {
  const path = active === undefined || active === "resource" ? "stop_hook" : active;
  const proof = proofs.get(path);
  if (proof?.proven_at_ms === undefined || facts[path].hasFailed || wordOf(proof, nowMs) !== "proven") return undefined;
  return { path, proven_at_ms: proof.proven_at_ms };
}

/** @returns undefined: it is past, or from a time that our clock has not reached, so that nobody knows how long ago it was */
export function termsOf({ path, proven_at_ms }: ProvenPath, nowMs: number, offsetMs: number): LeaseTerms | undefined {
  const agoMs = nowMs - proven_at_ms;
  if (agoMs < 0 || agoMs >= LEASE_MS) return undefined;
  const atMs = Math.max(0, Math.round(proven_at_ms + offsetMs));
  return { path, proven_at_ms: atMs, until_ms: atMs + LEASE_MS };
}

/** @param told with the last announcement; by the bus's clock, as `nowMs` is */
export function isNews(told: LeaseTerms | undefined, now: LeaseTerms | undefined, nowMs: number): boolean {
  const standing = told && nowMs < told.until_ms ? told : undefined;
  if (!standing || !now) return standing !== now;
  if (standing.path !== now.path) return true;
  return now.until_ms > standing.until_ms && standing.until_ms - nowMs < WAKE_LEASE_MAX_MS / 2;
}
