/** PURE: the text that answers a poll. Payloads are spliced in as they were stored, not parsed again. */

import type { SessionId } from "../protocol/address.ts";
import { formatHandle } from "./ack-handle.ts";
import type { Waiting } from "./inbox-store.ts";
import type { Gap } from "./notice-store.ts";

export const TIMEOUT_ANSWER = JSON.stringify({ status: "timeout" });

/** `{payload, ts}` with the bus's time of storing, as the original's envelope. */
export function envelopeText({ payload, at_ms }: Waiting): string {
  return `{"payload":${payload},"ts":${at_ms}}`;
}

/**
 * The answer with these messages (at least one).
 * @param isList whether the client asked for several with `max`; without it the original's shape is due
 */
export function pollAnswer(session: SessionId, messages: readonly Waiting[], isList: boolean, gap?: Gap): string {
  const items = messages.map(
    (message) => `"envelope":${envelopeText(message)},"ack":${JSON.stringify(formatHandle(session, message.seq))}`,
  );
  if (!isList) return `{"status":"message",${items[0]}}`;
  const lost = gap ? `,"gap":${JSON.stringify({ count: gap.count, oldest_ts: gap.oldest_ts })}` : "";
  return `{"status":"messages","items":[${items.map((item) => `{${item}}`).join(",")}]${lost}}`;
}
