/**
 * What becomes, at the start, of mail that a call of the process before took: whoever kept the pipe meanwhile knows which
 * answers came out. So a message whose answer was lost is unread again, and none is given twice.
 *
 * | the process before was | its answer came out | then          | why |
 * |------------------------|---------------------|---------------|-----|
 * | the same keeper's      | yes                 | stays read    | a model has it |
 * | the same keeper's      | no                  | unread again  | no model has it, nor will |
 * | another's, or nobody's | nobody knows        | stays read    | it is told of, and the history shows it |
 *
 * Whose it was is written down, and no clock asked: one that was set back made another's mail look like ours.
 */

import type { State } from "../state/store.ts";

/** What the keeper of the pipe saw. */
export interface Witness {
  /** Tells it from every other keeper. */
  readonly keeper: string;
  /** `msg_id`s in answers that came out whole. */
  readonly arrived: readonly string[];
}

const KEEPER = "keeper";

/**
 * Runs in a transaction, before this process takes any mail: what the one before took is settled then, so none is older.
 * @returns how many were taken by a call of which nobody knows whether its answer arrived; they stay read, to be told of
 */
export function settleHanded({ inbox, meta }: Pick<State, "inbox" | "meta">, witness: Witness | undefined): number {
  const handed = inbox.handed();
  const isSeen = witness !== undefined && meta.get(KEEPER) === witness.keeper;
  if (isSeen) {
    const lost = handed.filter(({ msg_id }) => !witness.arrived.includes(msg_id));
    inbox.giveBack(lost.map(({ seq }) => seq));
  }
  inbox.confirmHanded(handed.map(({ seq }) => seq));
  meta.set(KEEPER, witness?.keeper);
  return isSeen ? 0 : handed.length;
}
