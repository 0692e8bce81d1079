/**
 * How mail comes into an identity's inboxes and leaves them, decided on what is kept. Each function is
 * one synchronous read-decide-write; the object calls it inside a commit.
 *
 * Invariant 5: only the key reads its inbox; only contacts fill it; strangers can only knock.
 * Invariant 7: mail for an away session is never rerouted to its sibling; it waits where it was sent.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { parseHandle } from "./ack-handle.ts";
import type { Entry, PollCall, Receipt } from "./calls.ts";
import type { IdentityStorage } from "./identity-storage.ts";
import type { Waiting } from "./inbox-store.ts";
import { pollAnswer } from "./poll-answer.ts";

/** Messages of one answer together: below the frame that a client should bear. */
const ANSWER_MAX_BYTES = 1_048_576;
/** Nobody knows when a recipient will ack; a short wait keeps the sender's outbox moving. */
const FULL_RETRY_S = 30;
/** A knock waits for a person. */
const KNOCK_RETRY_S = 3_600;

/**
 * Stores one message or knock whose sender is admitted, or says why not.
 * @param owner whose inbox it comes into: for the bare key who is connected, if anyone is. Its bounds are asked, not those
 * of an inbox that is emptied at once
 */
export function enqueue(
  kept: IdentityStorage,
  entry: Entry,
  owner: SessionId | undefined,
  nowMs: number,
): "stored" | "duplicate" | Refusal {
  const inbox = owner ?? "";
  const nextSeq = () => kept.nextSeq(nowMs);
  if (entry.kind === "message") {
    const verdict = kept.inboxes.enqueue(inbox, entry, nextSeq, nowMs);
    if (verdict.verdict === "duplicate") return "duplicate";
    if (verdict.verdict === "refuse") {
      return refuse(verdict.code, verdict.code === "msg_id_conflict" ? {} : { retry_after_s: FULL_RETRY_S });
    }
    kept.armFor({ messageAtMs: nowMs });
    return "stored";
  }
  const verdict = kept.contacts.knock(inbox, entry, nextSeq(), nowMs);
  if (verdict === "duplicate") return "duplicate";
  if (verdict === "knock_limit") return refuse("knock_limit", { retry_after_s: KNOCK_RETRY_S });
  if (verdict === "msg_id_conflict") return refuse("msg_id_conflict");
  kept.armFor({ knockAtMs: nowMs });
  return "stored";
}

/** Removes what a session's client has on its disk. A handle of another inbox refuses the whole ack. */
export function ack(
  kept: IdentityStorage,
  session: SessionId,
  handles: readonly string[],
  nowMs: number,
): { removed: number } | Refusal {
  const seqs = handles.map((handle) => parseHandle(session, handle));
  if (!seqs.every((seq) => seq !== undefined)) return refuse("bad_ack");
  kept.roster.touch(session, nowMs);
  const removed = kept.inboxes.ack(session, seqs, nowMs) + kept.contacts.ack(session, seqs, nowMs);
  if (removed > 0) kept.armFor({ receiptAtMs: nowMs });
  return { removed };
}

/** What a poll does before it reads: its token is used up, its acks count, and it is a sign of life. */
export function beginPoll(
  kept: IdentityStorage,
  { session, nonce, acks }: PollCall,
  nowMs: number,
): Refusal | undefined {
  if (nonce) {
    if (!kept.nonces.use(nonce)) return refuse("replay");
    kept.armFor({ nonceExpiresAtMs: nonce.expiresAtMs });
  }
  if (acks.length > 0) {
    const answer = ack(kept, session, acks, nowMs);
    if (isRefusal(answer)) return answer;
  }
  kept.roster.touch(session, nowMs);
  claim(kept, session);
  return undefined;
}

/** Gives the identity's own inbox to one session: the first that connects or polls. */
export function claim(kept: IdentityStorage, session: SessionId): void {
  kept.inboxes.claim(session);
  kept.inboxes.notices.claim(session);
  kept.contacts.claim(session);
}

/** What waits for a session, mail and knocks by their number: at most `max`, and about `maxBytes` (at least one). */
export function waitingFor(
  kept: IdentityStorage,
  session: SessionId,
  max: number,
  maxBytes: number,
  nowMs: number,
  afterSeq = 0,
): Waiting[] {
  const { rows: mail, nextSeq = Infinity } = kept.inboxes.waiting(session, max, maxBytes, afterSeq);
  const knocks = kept.contacts.waiting(session, nowMs, afterSeq);
  if (knocks.length === 0) return mail;
  // None overtakes mail that found no room: a cumulative ack of the knock would take that mail unseen.
  const inOrder = knocks.filter((knock) => knock.seq < nextSeq);
  return [...mail, ...inOrder].sort((a, b) => a.seq - b.seq).slice(0, max);
}

/** How many unacked ones a session's inbox holds. */
export function countAll(kept: IdentityStorage, session: SessionId, nowMs: number): number {
  return kept.inboxes.count(session) + kept.contacts.countThrough(session, Number.MAX_SAFE_INTEGER, nowMs);
}

/** How many unacked ones a session's inbox holds up to a number. */
export function countThrough(kept: IdentityStorage, session: SessionId, seq: number, nowMs: number): number {
  return kept.inboxes.countThrough(session, seq) + kept.contacts.countThrough(session, seq, nowMs);
}

/** Removes all that a session's client has on its disk up to a number that was pushed to it. */
export function ackThrough(kept: IdentityStorage, session: SessionId, seq: number, nowMs: number): number {
  const removed = kept.inboxes.ackThrough(session, seq, nowMs) + kept.contacts.ackThrough(session, seq, nowMs);
  if (removed > 0) kept.armFor({ receiptAtMs: nowMs });
  return removed;
}

/** What became of a sender's messages and knocks, in the order asked. */
export function receiptsOf(kept: IdentityStorage | undefined, sender: Key, msgIds: readonly string[]): Receipt[] {
  const ofMail = kept?.inboxes.receipts(sender, msgIds);
  const ofKnocks = kept?.contacts.receipts(sender);
  return msgIds.map((msg_id) => ofMail?.get(msg_id) ?? ofKnocks?.get(msg_id) ?? { msg_id, state: "unknown" });
}

/** What waits for a session as the text of a poll's answer, or undefined. */
export function readForPoll(
  kept: IdentityStorage,
  session: SessionId,
  max: number,
  isList: boolean,
  nowMs: number,
): string | undefined {
  const waiting = waitingFor(kept, session, max, ANSWER_MAX_BYTES, nowMs);
  return waiting.length > 0 ? pollAnswer(session, waiting, isList, kept.inboxes.notices.gap(session)) : undefined;
}
