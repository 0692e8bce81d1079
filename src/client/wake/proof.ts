/**
 * PURE. Whether a path is known to wake: only a look that follows a wake shows it, and only for a time. That a socket
 * takes bytes shows nothing: hosts hold messages back, drop them, or have nobody at the other end.
 *
 * | since the path was bound                        | it is      |
 * |-------------------------------------------------|------------|
 * | no wake was made                                | unproven   |
 * | a wake, and a look in time after it             | proven     |
 * | as before, longer ago than the lease            | lapsed     |
 * | wakes that nobody looked after, too many of them | unanswered |
 */

import { WAKE_LEASE_MAX_MS } from "../../protocol/constants.ts";
import { UNANSWERED_MAX } from "./chooser.ts";

/** What is known of one path since it was bound. */
export interface Proof {
  /** The wake that waits for a look. */
  readonly woken_at_ms?: number;
  readonly proven_at_ms?: number;
  /** Wakes in a row without a look. */
  readonly unanswered: number;
}

export const PROOF_WORDS = ["proven", "lapsed", "unproven", "unanswered"] as const;
export type ProofWord = (typeof PROOF_WORDS)[number];

export const NO_PROOF: Proof = { unanswered: 0 };

/** A look this long after a wake may be the user's own doing. */
export const ANSWER_MAX_MS = 300_000;
/** As long as peers may be told of it. */
export const LEASE_MS = WAKE_LEASE_MAX_MS;

export function woke(proof: Proof, nowMs: number): Proof {
  return { ...proof, woken_at_ms: nowMs, unanswered: proof.unanswered + 1 };
}

/** Somebody looked at the mail. */
export function looked(proof: Proof, nowMs: number): Proof {
  const { woken_at_ms, ...rest } = proof;
  const sinceMs = woken_at_ms === undefined ? Infinity : nowMs - woken_at_ms;
  const isAnswer = sinceMs >= 0 && sinceMs <= ANSWER_MAX_MS;
  return { ...rest, unanswered: 0, ...(isAnswer && { proven_at_ms: nowMs }) };
}

export function wordOf({ proven_at_ms, unanswered }: Proof, nowMs: number): ProofWord {
  if (unanswered >= UNANSWERED_MAX) return "unanswered";
  if (proven_at_ms === undefined) return "unproven";
  // Of a time that our clock has not reached nobody knows how long ago it was.
  const sinceMs = nowMs - proven_at_ms;
  return sinceMs >= 0 && sinceMs <= LEASE_MS ? "proven" : "lapsed";
}
