/**
 * How many messages were marked read by a call whose answer may be lost, and of which nobody was told yet. It is written down
 * until another call shows that the answer which told of it has arrived: a process that ends before that leaves it to the next.
 */

import type { MetaTable } from "../state/meta.ts";

const UNTOLD = "untold";

/** @returns all there are to tell of, with those that were found just now */
export function addUntold(meta: MetaTable, found: number): number {
  const before = Number(meta.get(UNTOLD) ?? 0);
  const count = found + (Number.isSafeInteger(before) ? before : 0);
  if (found > 0) meta.set(UNTOLD, String(count));
  return count;
}

/** They were told. */
export function forgetUntold(meta: MetaTable): void {
  meta.set(UNTOLD, undefined);
}
