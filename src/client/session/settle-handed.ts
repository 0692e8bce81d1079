/**
 * What becomes, at the start, of mail that a call of the process before took: whoever kept the pipe meanwhile knows which
 * answers came out. So a message whose answer was lost is unread again, and none is given twice.
 */

import type { InboxTable } from "../state/inbox.ts";

/** What the keeper of the pipe saw. */
export interface Witness {
  /** When it began to look: what was taken before is not known to it. */
  readonly since_ms: number;
  /** `msg_id`s in answers that came out whole. */
  readonly arrived: readonly string[];
}

/** @returns how many were taken by a call of which nobody knows whether its answer arrived; they stay read, to be told of */
export function settleHanded(inbox: InboxTable, witness: Witness | undefined): number {
  const handed = inbox.handed();
  const isSeen = ({ read_at_ms = 0 }: (typeof handed)[number]) =>
    witness !== undefined && read_at_ms >= witness.since_ms;
  const seen = handed.filter(isSeen);
  const lost = seen.filter(({ msg_id }) => !witness?.arrived.includes(msg_id));
  inbox.giveBack(lost.map(({ seq }) => seq));
  inbox.confirmHanded(handed.map(({ seq }) => seq));
  return handed.length - seen.length;
}
