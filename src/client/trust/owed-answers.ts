/**
 * PURE. Answers that a peer is owed: kept until one of our sessions has them in its outbox, and told once.
 *
 * Whichever session is there takes one upon itself. Another takes over where that one died, and says the same bytes under
 * the same id, so that the bus collapses what both may have sent.
 */

import { createHash } from "node:crypto";
import type { SessionId } from "../../protocol/address.ts";
import type { Knocking } from "./gate.ts";
import { outgoing, type Outgoing, type OurSide, type OwedAnswer } from "./pairing-state.ts";

type Owed = readonly OwedAnswer[];

/** To put a message into an outbox takes milliseconds: who takes longer has died, or its machine slept. */
export const CLAIM_MS = 30_000;

/** A knock is to be answered; the latest of a key, which is the one that it waits for. */
export function owe(owed: Owed, knock: Pick<Knocking, "key" | "msg_id" | "reply_session">): Owed {
  const { key, msg_id: knock_id, reply_session } = knock;
  if (owed.some((each) => each.key === key && each.knock_id === knock_id)) return owed;
  return [
    ...owed.filter((each) => each.key !== key),
    { key, knock_id, ...(reply_session !== undefined && { reply_session }) },
  ];
}

/** True if there is something that this session may tell now. */
export function hasToTell(owed: Owed, session: SessionId, nowMs: number): boolean {
  return owed.some((each) => !isAnothers(each, session, nowMs));
}

/**
 * Takes upon a session to tell what is owed, but for what another is telling at this moment.
 * @returns `tell` to be put in the session's outbox; {@link answerTold} after each
 */
export function claimAnswers(
  owed: Owed,
  { session, us }: { readonly session: SessionId; readonly us: OurSide },
  nowMs: number,
): { readonly owed: Owed; readonly tell: readonly { readonly answer: OwedAnswer; readonly send: Outgoing }[] } {
  const claimed = owed.map((each) => {
    if (isAnothers(each, session, nowMs)) return each;
    return { ...each, claim: { session, at_ms: nowMs, send: each.claim?.send ?? answerOf(each, us) } };
  });
  const tell = claimed.flatMap((answer) =>
    answer.claim?.session === session ? [{ answer, send: answer.claim.send }] : [],
  );
  return { owed: claimed, tell };
}

/** An answer is in an outbox, from where it will be sent. */
export function answerTold(owed: Owed, { key, knock_id }: OwedAnswer): Owed {
  return owed.filter((each) => each.key !== key || each.knock_id !== knock_id);
}

/** Who claimed it and comes again did not get to the end; a clock that was set back makes nobody wait longer. */
function isAnothers({ claim }: OwedAnswer, session: SessionId, nowMs: number): boolean {
  return claim !== undefined && claim.session !== session && Math.abs(nowMs - claim.at_ms) < CLAIM_MS;
}

/** The yes to a knock. Its id comes from the knock's, so that one told before a crash is not told as another. */
function answerOf({ key, knock_id, reply_session: session }: OwedAnswer, us: OurSide): Outgoing {
  const msg_id = createHash("sha256").update(`pair_accept ${key} ${knock_id}`).digest("hex").slice(0, 32);
  return outgoing("pair_accept", session === undefined ? { key } : { key, session }, us, msg_id, knock_id);
}
