/** The talk with one peer, both ways, in the order in which it passed through this session. */

import type { Key } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";
import type { InboxMessage, InboxTable } from "./inbox.ts";
import type { Outgoing, OutboxTable } from "./outbox-table.ts";

export type HistoryEntry =
  | { readonly direction: "in"; readonly seq: number; readonly at_ms: number; readonly message: InboxMessage }
  | {
      readonly direction: "out";
      readonly seq: number;
      readonly at_ms: number;
      readonly message: Message;
      readonly outgoing: Outgoing;
    };

export interface HistoryPage {
  /** The oldest first. */
  readonly entries: readonly HistoryEntry[];
  /** Give this as `beforeSeq` for what came before; absent: there is nothing. */
  readonly before_seq?: number;
}

/**
 * A page of the history, the latest unless `beforeSeq` says before what. What is unread is not in it: it would reach
 * the model here and once more when it is taken.
 */
export function readHistory(
  inbox: InboxTable,
  outbox: OutboxTable,
  peer: Key,
  { max, beforeSeq = Number.MAX_SAFE_INTEGER }: { max: number; beforeSeq?: number },
): HistoryPage {
  const received = inbox.readOf(peer, beforeSeq, max + 1).map((message): HistoryEntry => {
    return { direction: "in", seq: message.seq, at_ms: message.received_at_ms, message };
  });
  const written = outbox.writtenTo(peer, beforeSeq, max + 1).map((outgoing): HistoryEntry => {
    const message = JSON.parse(outgoing.payload) as Message;
    return { direction: "out", seq: outgoing.seq, at_ms: outgoing.created_at_ms, message, outgoing };
  });
  const all = [...received, ...written].sort((a, b) => b.seq - a.seq);
  const entries = all.slice(0, max).reverse();
  return all.length > max && entries[0] ? { entries, before_seq: entries[0].seq } : { entries };
}
