/**
 * PURE: what happens to a message that wants into an inbox. Reads no storage and no clock.
 *
 * Invariant 3: retrying anything is free; so a known id is answered before any quota is asked.
 */

import type { SessionId } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";

/** An inbox's name within its identity: the session's id, or empty for the identity's own. */
export type Inbox = SessionId | "";

/** What an inbox holds. */
export interface Tally {
  readonly messages: number;
  readonly bytes: number;
  readonly bySender: ReadonlyMap<string, number>;
}

export interface Arrival {
  readonly sender: string;
  readonly bytes: number;
  /** SHA-256 of its signed bytes. */
  readonly digest: string;
  /** The digest under which this id is already known from this sender for this route, stored or long acked. */
  readonly knownDigest: string | undefined;
}

export type Verdict =
  /** `evictFrom`: whose oldest message leaves first, one entry per eviction, to be asked again after each. */
  | { readonly verdict: "admit" }
  | { readonly verdict: "duplicate" }
  | { readonly verdict: "evict"; readonly from: string }
  | { readonly verdict: "refuse"; readonly code: "msg_id_conflict" | "sender_quota" | "queue_full" };

/**
 * Decides on one message. On `evict` the caller lets the oldest of that sender go and asks again; each
 * eviction empties the inbox by one, so it ends.
 *
 * | the id is          | the inbox is            | then          | why |
 * |--------------------|-------------------------|---------------|-----|
 * | known, same bytes  | any                     | duplicate     | a retry after a lost answer must cost nothing |
 * | known, other bytes | any                     | conflict      | one id names one message, also after its ack |
 * | new                | has room                | admit         | |
 * | new                | full of this sender     | sender_quota  | one contact must not shut out another |
 * | new                | full                    | queue_full    | refused with a reason is not lost; the sender keeps it |
 * | new                | full, OVERFLOW=evict    | evict         | the original's rule, at the cost of who holds most |
 * | new, too large     | even an empty one       | queue_full    | evicting all of it would not make room |
 */
export function admit(
  arrival: Arrival,
  inbox: Tally,
  inboxesInUse: number,
  limits: Limits,
  overflow: "refuse" | "evict",
): Verdict {
  if (arrival.knownDigest !== undefined) {
    return arrival.knownDigest === arrival.digest
      ? { verdict: "duplicate" }
      : { verdict: "refuse", code: "msg_id_conflict" };
  }
  if (arrival.bytes > limits.INBOX_MAX_BYTES) return { verdict: "refuse", code: "queue_full" };
  if (inbox.messages === 0 && inboxesInUse >= limits.INBOXES_MAX) return { verdict: "refuse", code: "queue_full" };
  if ((inbox.bySender.get(arrival.sender) ?? 0) >= limits.SENDER_SHARE) {
    return overflow === "evict"
      ? { verdict: "evict", from: arrival.sender }
      : { verdict: "refuse", code: "sender_quota" };
  }
  const isFull = inbox.messages >= limits.INBOX_MAX_MESSAGES || inbox.bytes + arrival.bytes > limits.INBOX_MAX_BYTES;
  if (!isFull) return { verdict: "admit" };
  return overflow === "evict"
    ? { verdict: "evict", from: holdsMost(inbox) }
    : { verdict: "refuse", code: "queue_full" };
}

/** The sender with most messages; of equals the first by key, so that the answer does not depend on map order. */
function holdsMost({ bySender }: Tally): string {
  return [...bySender].reduce((most, next) =>
    next[1] > most[1] || (next[1] === most[1] && next[0] < most[0]) ? next : most,
  )[0];
}
