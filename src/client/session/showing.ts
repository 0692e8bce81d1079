/** PURE. A received message as it is shown, whole or in parts that never split a character. */

import type { InboxMessage } from "../state/inbox.ts";
import type { PeerRef, Shown } from "./agent.ts";

/** UTF-16 units of a text that one answer carries. */
export const PART_MAX_UNITS = 16_384;

/** A part of a message's text. */
export interface Part {
  readonly body: string;
  /** Where the next part begins; absent: there is none. */
  readonly next_offset?: number;
}

/**
 * The part of a text from an offset on.
 * @param offset in UTF-16 units, as of {@link Part.next_offset}; within a character: that one's beginning
 */
export function partOf(text: string, offset: number, maxUnits = PART_MAX_UNITS): Part {
  const from = boundary(text, Math.min(Math.max(0, Math.floor(offset)), text.length));
  const to = boundary(text, Math.min(from + maxUnits, text.length));
  const body = text.slice(from, to);
  return to < text.length ? { body, next_offset: to } : { body };
}

/** As much of a text's beginning as its UTF-8 has room. */
export function beginningOf(text: string, maxBytes: number): Part {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(Math.max(4, maxBytes)));
  return read < text.length ? { body: text.slice(0, read), next_offset: read } : { body: text };
}

/** A message with its text, or a part of it. */
export function shownOf(message: InboxMessage, from: PeerRef, { body, next_offset }: Part): Shown {
  const { session, msg_id, task_id, status, in_reply_to, ts, received_at_ms, clock_ok } = message;
  return {
    from,
    ...(session !== undefined && { session }),
    msg_id,
    ...(task_id !== undefined && { task_id }),
    ...(status !== undefined && { status }),
    ...(in_reply_to !== undefined && { in_reply_to }),
    sent_at_ms: ts,
    received_at_ms,
    clock_ok,
    body,
    truncated: next_offset !== undefined,
  };
}

/** A whole text as its only part. */
export function wholeOf(text: string): Part {
  return { body: text };
}

function boundary(text: string, at: number): number {
  const isWithin = at > 0 && at < text.length && isTrail(text.charCodeAt(at)) && isLead(text.charCodeAt(at - 1));
  return isWithin ? at - 1 : at;
}

const isLead = (unit: number) => unit >= 0xd800 && unit <= 0xdbff;
const isTrail = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
